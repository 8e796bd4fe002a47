"""Files of others: names are names, sizes are looked at first, every field is checked."""

import json
import os
import re
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load, save

from interpbench.checkpoints.blind import key_path, open_key, read_problem, write_problem
from interpbench.checkpoints.certificate_file import read_certificate
from interpbench.checkpoints.checkpoint_files import CERTIFICATE, DATA, RECORD, WEIGHTS
from interpbench.checkpoints.load import load_checkpoint, load_pairs
from interpbench.checkpoints.pickles import MOST_PLAIN, read_plain
from interpbench.checkpoints.record import read_record
from interpbench.core.errors import CheckpointError, InterpBenchError, TaskError
from interpbench.core.files import MOST_JSON, read_json, sha256
from interpbench.core.text import code, markdown, mathtext, printable, terminal
from interpbench.runs.certify import certify_checkpoints
from interpbench.runs.evaluate import evaluate
from interpbench.runs.evaluate_settings import EvaluateConfig
from interpbench.runs.evaluations_page import write_folder_page
from interpbench.runs.leaderboard_files import read_board
from interpbench.tasks import catalogue
from tests import ROOT
from tests.builders import edit, run_script

RELEASED = ROOT / "models"


# A record names a task and nothing else.

EVIL = "from pathlib import Path\nPath(__file__).with_name('it_ran').touch()\n"


@pytest.fixture
def hostile(tmp_path: Path) -> Callable[[str], Path]:
    """Makes a folder with a file that shows whether it was run, and a model whose record names a task."""
    (tmp_path / "evil1").mkdir()
    (tmp_path / "evil1" / "evil.py").write_text(EVIL)
    (tmp_path / "evil.py").write_text(EVIL)

    def make(task: str) -> Path:
        shutil.copytree(RELEASED / "frac_prevs", tmp_path / "models" / "x")
        edit(tmp_path / "models" / "x" / RECORD, task=task)
        return tmp_path

    return make


NAMES = [
    "evil1/evil.py:x",
    "evil.py",
    "evil:x",
    "evil",
    "ioi[owner/repo]",
    "../up",
    "/abs",
    "hist\n",
    "a b",
    "",
]


@pytest.mark.parametrize("task", [*NAMES, "ioi[..]", "x" * 65, "hist[a][b]", "\x1b[31mhist", "hf://a/b@c/d"])
def test_a_task_of_a_record_is_a_name(hostile: Callable[[str], Path], task: str) -> None:
    folder = hostile(task)
    if task == "evil":  # a name: but of no task that there is
        assert load_checkpoint(folder / "models" / "x").task == task
        with pytest.raises(CheckpointError, match="'evil' is not in the catalogue"):
            certify_checkpoints(str(folder / "models" / "x"))
    else:
        with pytest.raises(CheckpointError, match=r"is damaged: task: string should match"):
            load_checkpoint(folder / "models" / "x")


def test_evaluating_all_models_runs_no_code_of_theirs(hostile: Callable[[str], Path]) -> None:
    folder = hostile("evil1/evil.py:x")
    shutil.copytree(RELEASED / "hist", folder / "models" / "hist")
    before = {path for path in folder.glob("**/*") if path.is_file()}
    done = run_script(folder, "evaluate.py", "method=random", "pictures=false", "out=out")
    assert done.returncode == 1 and "failed: models/x: models/x/model.json is damaged: task" in done.stderr
    assert "Traceback" not in done.stderr and "hist" in done.stdout
    assert not list(folder.glob("**/it_ran"))
    written = {path for path in folder.glob("**/*") if path.is_file()} - before
    assert {path.relative_to(folder).parts[0] for path in written} == {"out"}


@pytest.mark.parametrize("name", ["ioi[tokenizer=gpt2]", "ioi[gpt2]"])
def test_a_tokenizer_of_a_record_is_not_fetched(
    hostile: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def fetch(*_: Any, **__: Any) -> None:
        pytest.fail("it was fetched")

    monkeypatch.setattr("huggingface_hub.hf_hub_download", fetch)
    folder = hostile(name)
    monkeypatch.chdir(folder)
    settings: dict[str, Any] = {"method": {"name": "random"}, "checkpoint": "x", "pictures": False}
    records, failures = evaluate(EvaluateConfig(**settings, out=str(folder / "out")))
    assert [record.program for record in records] == ["ioi"] and not failures
    said = f"'{name}' is made from parameters: say it yourself, --task '{name}'"
    with pytest.raises(CheckpointError, match=re.escape(said)):
        evaluate(EvaluateConfig(**settings, data="fresh", out=str(folder / "out")))
    with pytest.raises(CheckpointError, match="is made from parameters"):
        certify_checkpoints("x")


@pytest.mark.parametrize("name", ["a/b", "", "x" * 65, "a b", "$x$", "..", "a:b"])
def test_a_task_of_one_s_own_has_a_name_that_fits(name: str) -> None:
    with pytest.raises(TaskError, match="a task cannot be called"):
        catalogue.task(name, vocab="ab", length=2, attention="causal")(lambda: None)
    assert name not in catalogue.catalogue()


# Sizes are looked at before anything is read.


def sparse(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


@pytest.mark.parametrize("name", [WEIGHTS, RECORD, CERTIFICATE, DATA])
def test_a_huge_file_is_refused_by_its_size(checkpoint: Path, name: str) -> None:
    sparse(checkpoint / name, 20 << 30)
    with pytest.raises(CheckpointError, match=rf"{name} has 21,474,836,480 bytes; at most [\d,]+ are read"):
        load_checkpoint(checkpoint)
        load_pairs(checkpoint)


@pytest.mark.parametrize("size", [{"n_layers": 250, "n_heads": 4}, {"n_ctx": 1 << 18}, {"d_vocab": 1 << 18}])
def test_a_record_cannot_make_the_reader_work(checkpoint: Path, size: dict[str, int]) -> None:
    record = json.loads((checkpoint / RECORD).read_text())
    edit(checkpoint / RECORD, shape={**record["shape"], **size})
    with pytest.raises(CheckpointError):
        load_checkpoint(checkpoint)


def test_small_files_cannot_make_the_reader_work(checkpoint: Path) -> None:
    """A pickle that gives a large state many times; a header with many empty tensors; deep nesting."""
    state = b"".join(b"X" + len(k := str(n).encode()).to_bytes(4, "little") + k + b"N" for n in range(9000))
    config = b"ctransformer_lens.HookedTransformerConfig\nHookedTransformerConfig\n)\x81"
    program = b"\x80\x02}q\x01(" + state + b"u0" + config + b"h\x01b" * 20_000 + b"."
    with pytest.raises(CheckpointError, match="more than 262,144 entries, some of them many times"):
        read_plain(program, "it")
    empty = {f"x{n}": torch.zeros(0) for n in range(5_000)}
    (checkpoint / DATA).write_bytes(save(empty))
    with pytest.raises(CheckpointError, match="is damaged"):
        load_pairs(checkpoint)
    deep: Any = []
    for _ in range(300):
        deep = [deep]
    edit(checkpoint / RECORD, training={"x": deep})
    with pytest.raises(CheckpointError, match="recursion limit exceeded"):
        load_checkpoint(checkpoint)


def test_large_pickles_and_json_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=f"at most {MOST_PLAIN:,} are read"):
        read_plain(b"\x80\x04" + b"N0" * MOST_PLAIN, "it")
    (tmp_path / "x.json").write_bytes(b" " * (MOST_JSON + 1))
    with pytest.raises(InterpBenchError, match="at most 16,777,216 are read"):
        read_json(tmp_path / "x.json")


@pytest.mark.parametrize("kind", ["folder", "pipe", "device", "loop"])
def test_what_is_no_file_is_not_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x.json"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero" if kind == "device" else path)
    with pytest.raises(InterpBenchError, match=r"^cannot read .*x\.json: "):
        read_json(path)


# Every field of every file.


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"clean": torch.zeros(0, 5, dtype=torch.int64)}, "clean has shape [0, 5]"),
        ({"clean": torch.full((4, 5), float("nan"))}, "clean is float32, not int64"),
        ({"scored": torch.zeros(4, 5)}, "scored is float32, not bool"),
        ({"scored": torch.zeros(4, 5, dtype=torch.bool)}, "no position of some pair is scored"),
        ({"corrupted": torch.full((4, 5), 99)}, "corrupted holds token ids that are not below"),
        ({"corrupted": torch.full((3, 5), 1)}, "corrupted has shape [3, 5]"),
        ({"more": torch.zeros(1)}, "is damaged"),
    ],
)
def test_pairs_are_checked(checkpoint: Path, changes: dict[str, torch.Tensor], said: str) -> None:
    good = {
        "clean": torch.ones(4, 5, dtype=torch.int64),
        "corrupted": torch.ones(4, 5, dtype=torch.int64),
        "scored": torch.ones(4, 5, dtype=torch.bool),
    }
    (checkpoint / DATA).write_bytes(save({**good, **changes}))
    with pytest.raises(CheckpointError, match="data=fresh draws new pairs") as caught:
        load_pairs(checkpoint)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda value: value.fill_(float("nan")), "is not finite"),
        (lambda value: value.double(), "is torch.float64, not torch.float32 or"),
        (lambda value: value.to(torch.int32), "is torch.int32, not torch.float32 or"),
    ],
)
def test_weights_are_finite_and_single_or_half(checkpoint: Path, change: Any, said: str) -> None:
    weights = load((checkpoint / WEIGHTS).read_bytes())
    weights["embed.W_E"] = change(weights["embed.W_E"])
    (checkpoint / WEIGHTS).write_bytes(save(weights))
    edit(checkpoint / RECORD, sha256=sha256((checkpoint / WEIGHTS).read_bytes()))
    with pytest.raises(CheckpointError, match=f"embed.W_E {said}"):
        load_checkpoint(checkpoint)


def truth_of(checkpoint: Path) -> dict[str, Any]:
    return json.loads((checkpoint / RECORD).read_text())["truth"]


@pytest.mark.parametrize(
    ("level", "state", "name", "said"),
    [
        ("qkv_edge", "allowed", "embed->m0", "truth names 'embed->m0' twice at level qkv_edge"),
        ("qkv_edge", "required", "embed->a0.h0<q>", "its levels disagree about embed->a0.h0"),
        ("head_edge", "required", "embed->a0.h0", "its levels disagree about embed->a0.h0"),
    ],
)
def test_levels_of_truth_agree(checkpoint: Path, level: str, state: str, name: str, said: str) -> None:
    truth = truth_of(checkpoint)
    truth[level][state].append(name)
    edit(checkpoint / RECORD, truth=truth)
    with pytest.raises(CheckpointError, match=said):
        load_checkpoint(checkpoint)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"all_pairs": "no"}, "all_pairs: input should be a valid boolean"),
        ({"margin": "0.5"}, "margin: input should be a valid number"),
        ({"attempts": "100"}, "attempts: input should be a valid integer"),
        ({"identity": {}}, "identity.weights: required, but missing"),
        ({"margin": float("nan")}, "holds NaN"),
        ({"certified": True}, "certified: unknown key"),
        (
            {"rates": {"accuracy": {"output": {"pairs": {"wrong": 5, "rows": 4, "looks": 0}}}}},
            "5 of 4 rows cannot be wrong",
        ),
        ({"rates": {"nodes": {"<img src=x>": {}}}}, "string should match"),
        ({"vacuous": {"effective": ["\x1b[31m"]}}, "string should match"),
    ],
)
def test_certificates_are_checked(checkpoint: Path, changes: dict[str, Any], said: str) -> None:
    edit(checkpoint / CERTIFICATE, **changes)
    with pytest.raises(CheckpointError, match=said):
        read_certificate(checkpoint / CERTIFICATE, read_record(checkpoint))


def test_keys_of_blind_problems_are_checked(checkpoint: Path, tmp_path: Path) -> None:
    problem = write_problem(checkpoint, tmp_path / "problem").folder
    path = key_path(problem)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    good = path.read_text()
    key = json.loads(good)

    def refused(text: str, said: str) -> None:
        path.write_text(text)
        edit(problem / "problem.json", commitment=sha256(text.encode()))
        with pytest.raises(CheckpointError, match=said):
            open_key(path, read_problem(problem))

    refused(good.replace('"salt"', f'"salt": "{"1" * 64}",\n "salt"', 1), "names 'salt' twice")
    refused(json.dumps({**key, "salt": "a" * 63}), "salt: string should match")
    refused(json.dumps({**key, "task": "../x"}), "task: string should match")
    key["truth"]["node"]["allowed"] = key["truth"]["node"]["required"]
    refused(json.dumps(key), "twice at level node")


def test_one_bad_record_is_left_out_of_a_report(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    settings: dict[str, Any] = {"checkpoint": "hist", "pictures": False, "out": str(tmp_path)}
    evaluate(EvaluateConfig(method={"name": "random"}, methods=["random", "eap"], thorough=False, **settings))
    bad = next(tmp_path.glob("**/eap*.json"))
    edit(bad, task="<img src=x>", edges={"embed->m0": float("nan")})
    caplog.clear()
    page = write_folder_page(tmp_path).read_text()
    assert f"left out: {bad} is not readable JSON: the file holds NaN" in caplog.text
    assert "random" in page and "<img" not in page
    edit(tmp_path / "hist" / "random.json", edges={"order": "0" * 64, "values": [0.5]})
    with pytest.raises(InterpBenchError, match="random on hist is of another network"):
        write_folder_page(tmp_path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda row: row.update(method="[link](x)"), r"method: string should match"),
        (
            lambda row: row["levels"]["qkv_edge"]["metrics"].update(auroc=["1.0"]),
            "auroc.value: input should be a valid number",
        ),
        (
            lambda row: row["levels"]["qkv_edge"].update(positives=10**6),
            "positives: input should be less than",
        ),
        (lambda row: row["faithfulness"].update(cpr=[]), "cpr.value: required, but missing"),
        (lambda row: row["cost"].update(passes=-1), "passes: input should be greater than"),
    ],
)
def test_rows_of_a_leaderboard_are_checked(tmp_path: Path, change: Any, said: str) -> None:
    data = json.loads((ROOT / "docs" / "leaderboard.json").read_text())
    change(data["rows"][3])
    (tmp_path / "leaderboard.json").write_text(json.dumps(data))
    with pytest.raises(InterpBenchError, match=rf"rows\.3\..*{said}"):
        read_board(tmp_path / "leaderboard.json")


def test_names_are_escaped() -> None:
    name = "a\x1b[31m [bold]b[/] $x_1$ <b>|`_c_`\n"
    assert printable(name) == r"a\x1b[31m [bold]b[/] $x_1$ <b>|`_c_`\n"
    assert "\\[bold]" in terminal(name) and "\x1b" not in terminal(name)
    shown = markdown(name)
    assert "<" not in shown and r"\[bold\]" in shown and r"\|" in shown and r"\_c" in shown
    assert markdown("eap_ig") == "eap_ig" and markdown("# x") == r"\# x"
    assert mathtext("$x^") == r"\$x^" and len(terminal("x" * 999)) == 200
    assert code("a`b|c") == "`` a`b¦c ``"
    assert str(InterpBenchError("a\nb\x07" + "c" * 9999)).startswith("a b\\x07c")
    assert len(str(InterpBenchError("c" * 9999))) == 600


def test_names_with_dollars_are_drawn(tmp_path: Path) -> None:
    from interpbench.reports.drawing import draw_circuit

    truth = load_checkpoint(RELEASED / "hist").truth
    places = dict.fromkeys(truth.graph.nodes, ("$x^{", r"\frac$"))
    draw_circuit(truth, tmp_path / "x.png", places, title="$_$ $^")
    assert (tmp_path / "x.png").stat().st_size > 5000
