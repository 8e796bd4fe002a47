"""Results made by anyone's code are scored; blind problems keep their secret and prove what they are."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import interpbench
from interpbench.checkpoints import blind
from interpbench.checkpoints.blind import key_path, load_problem, problem_id, read_problem
from interpbench.circuits.ground_truth import LEVELS, State
from interpbench.circuits.io.form import forms
from interpbench.circuits.io.score_files import read_scores, write_scores
from interpbench.circuits.scores import Scores
from interpbench.core.errors import CheckpointError, InterpBenchError, ScoresError
from interpbench.runs import cli
from interpbench.runs.blind_problems import export_problem, verify_problem
from interpbench.runs.evaluate import EvaluateConfig, evaluate_checkpoint
from interpbench.runs.score import convert_file, score_file
from tests import ROOT

HIST = str(ROOT / "models" / "hist")
CHECKPOINT = interpbench.load(HIST)
GRAPH = CHECKPOINT.record.shape.graph
SUFFIX = {"eap_ig": ".json", "acdc": ".json", "csv": ".csv"}


def noise(seed: int = 0, signed: bool = False) -> Scores:
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(GRAPH.legal.shape) if signed else rng.random(GRAPH.legal.shape)
    return Scores(GRAPH, np.where(GRAPH.legal, values, np.nan))


def saved(tmp_path: Path, scores: Scores, form: str = "eap_ig") -> Path:
    path = tmp_path / f"theirs{SUFFIX[form]}"
    write_scores(path, GRAPH, form, scores=scores)
    return path


def command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["interpbench", *arguments])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    return int(caught.value.code or 0)


@pytest.mark.parametrize("form", sorted(forms()))
def test_a_file_scores_what_its_scores_score(tmp_path: Path, form: str) -> None:
    record = score_file(saved(tmp_path, noise(), form), HIST, pictures=False, out=str(tmp_path / "out"))
    curves = interpbench.compare(CHECKPOINT.truth, noise())
    assert record.levels == curves and record.method == "theirs"
    (path,) = (tmp_path / "out").glob("**/*.json")
    assert json.loads(path.read_text())["levels"]["node"]["metrics"]["auroc"][0] == curves["node"].auroc


def test_it_says_what_evaluate_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A record of an evaluation is a file of scores too."""
    config = EvaluateConfig(method={"name": "random"}, out=str(tmp_path), device="cpu", pictures=False)
    (record,) = evaluate_checkpoint(CHECKPOINT, config).values()
    again = score_file(tmp_path / "hist" / "random.json", HIST, name="mine", out=str(tmp_path))
    assert again.levels == record.levels and again.edges == record.edges
    assert "│ hist │ mine" in capsys.readouterr().out
    assert {path.name for path in (tmp_path / "hist").iterdir()} == {
        *("random.json", "mine.json", "circuit-mine.png", "roc.png")
    }


def test_signed_scores_are_ranked_as_asked(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    path = saved(tmp_path, noise(signed=True))
    plain = score_file(path, HIST, pictures=False, out=str(tmp_path))
    assert "scores are negative" in caplog.text
    absolute = score_file(path, HIST, absolute=True, pictures=False, out=str(tmp_path))
    magnitudes = Scores(GRAPH, np.abs(noise(signed=True).edges))
    assert absolute.levels == interpbench.compare(CHECKPOINT.truth, magnitudes)
    assert absolute.levels != plain.levels


def test_the_truth_is_a_circuit_that_scores_one(tmp_path: Path) -> None:
    for form in sorted(forms()):
        path = tmp_path / f"{form}{SUFFIX[form]}"
        convert_file("truth", path, HIST, form)
        found = read_scores(path, GRAPH)
        np.testing.assert_array_equal(found.circuit, State.REQUIRED == CHECKPOINT.truth.qkv_edges)
        curves = score_file(path, HIST, name=f"of-{form}", pictures=False, out=str(tmp_path)).levels
        assert [curves[level].auroc for level in LEVELS] == [1, 1, 1]


@pytest.mark.parametrize("source", sorted(forms()))
@pytest.mark.parametrize("target", sorted(forms()))
def test_conversion_keeps_every_score(tmp_path: Path, source: str, target: str) -> None:
    path = tmp_path / f"converted{SUFFIX[target]}"
    convert_file(str(saved(tmp_path, noise(), source)), path, HIST, target)
    np.testing.assert_array_equal(read_scores(path, GRAPH).scores.edges, noise().edges)


def test_scores_that_are_one_in_the_circuit_are_scores_outside_it(tmp_path: Path) -> None:
    circuit = GRAPH.legal & (noise().edges > 0.5)
    scores = Scores(GRAPH, np.where(circuit, 1, noise().edges))
    write_scores(tmp_path / "theirs.json", GRAPH, "eap_ig", scores=scores, circuit=circuit)
    convert_file(str(tmp_path / "theirs.json"), tmp_path / "again.json", HIST)
    again = read_scores(tmp_path / "again.json", GRAPH)
    np.testing.assert_array_equal(again.scores.edges, scores.edges)
    np.testing.assert_array_equal(again.circuit, circuit)


@pytest.mark.parametrize(
    ("name", "said"),
    [("acdc", "acdc is a method of the project"), ("../x", "make a name"), ("x" * 90, "make a name")],
)
def test_names_that_are_taken_or_no_names(tmp_path: Path, name: str, said: str) -> None:
    with pytest.raises(ScoresError, match=said):
        score_file(saved(tmp_path, noise()), HIST, name=name, out=str(tmp_path))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["score", "x.json"], "--checkpoint"),
        (["score", "x.json", "--checkpoint", HIST], "x.json does not exist"),
        (["score", "x.json", "--checkpoint", "hiss"], "no checkpoint 'hiss'"),
        (["score", "x.json", "--checkpoint", "all"], "name one"),
        (["convert", "truth", "x.json", "--checkpoint", HIST, "--to", "eapig"], "eap_ig"),
        (["verify-problem", "nowhere"], "nowhere/problem.json does not exist"),
        (["verify-problm", "nowhere"], "did you mean verify-problem"),
        (["export-problem", "hiss"], "no checkpoint 'hiss'"),
    ],
)
def test_mistakes_are_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command(monkeypatch, *arguments) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error: ") and said in err and err.count("\n") == 1


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_problem(HIST, tmp_path_factory.mktemp("x") / "problem")


@pytest.fixture
def problem(exported: Path, tmp_path: Path) -> Path:
    """A copy, with its key, that a test may damage."""
    shutil.copytree(exported, tmp_path / "problem")
    shutil.copy(key_path(exported), tmp_path)
    return tmp_path / "problem"


def test_the_bundle_does_not_say_what_it_is(exported: Path) -> None:
    record = CHECKPOINT.record
    for path in exported.iterdir():
        for secret in (b"hist", b"count_head", b"alignment", b'"required"', b'"allowed"', b"vocabulary"):
            assert secret not in path.read_bytes(), (path, secret)
    key = json.loads(key_path(exported).read_text())
    assert key["truth"] == record.truth and len(bytes.fromhex(key["salt"])) == 32


def test_the_commitment_binds_and_hides(exported: Path, tmp_path: Path) -> None:
    """It is the key's hash; the same truth is committed to otherwise each time."""
    record = read_problem(exported)
    assert record.commitment == sha256(key_path(exported).read_bytes()).hexdigest()
    other = export_problem(HIST, tmp_path / "other")
    assert read_problem(other).commitment != record.commitment
    assert read_problem(other).files == record.files
    with pytest.raises(CheckpointError, match="not the key that this problem was committed to"):
        verify_problem(exported, key=key_path(other))


@pytest.mark.parametrize("name", [*blind.CONTENTS, blind.PROBLEM])
def test_one_changed_byte_is_noticed(problem: Path, name: str) -> None:
    before = problem_id(problem)
    data = bytearray((problem / name).read_bytes())
    data[len(data) // 2] ^= 1
    (problem / name).write_bytes(data)
    if name == blind.PROBLEM:
        assert problem_id(problem) != before
    else:
        with pytest.raises(CheckpointError, match=f"{name} is damaged or changed"):
            verify_problem(problem)
    (problem / name).unlink()
    with pytest.raises(CheckpointError, match=name):
        verify_problem(problem)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": 99}, "has format 99"),
        ({"format": "x"}, "not part of a blind problem"),
        ({"files": {"../../etc/passwd": "0" * 64}}, "does not list the files of a problem"),
        ({"surprise": 1}, "surprise: unknown key"),
        ({"shape": {}}, "required, but missing"),
    ],
)
def test_damaged_records_are_one_line(problem: Path, change: dict[str, Any], said: str) -> None:
    path = problem / blind.PROBLEM
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(InterpBenchError, match=said) as caught:
        verify_problem(problem)
    assert "\n" not in str(caught.value) and str(path) in str(caught.value)


def test_giants_are_refused_before_anything_is_allocated(problem: Path) -> None:
    path = problem / blind.PROBLEM
    data = json.loads(path.read_text())
    data["shape"] |= {"n_layers": 200_000, "d_model": 200_000, "d_mlp": 200_000}
    path.write_text(json.dumps(data))
    with pytest.raises(CheckpointError, match="is not one of ours"):
        verify_problem(problem)


def test_an_answer_is_scored_with_the_key_alone(problem: Path, tmp_path: Path) -> None:
    answer = saved(tmp_path, noise())
    receipt = verify_problem(problem, answer)
    assert receipt is not None
    curves = interpbench.compare(CHECKPOINT.truth, noise())
    assert {k: v["auroc"] for k, v in receipt.scores.items()} == {k: v.auroc for k, v in curves.items()}
    assert receipt.answer == sha256(answer.read_bytes()).hexdigest()
    assert receipt.problem == sha256((problem / "problem.json").read_bytes()).hexdigest()
    assert json.loads((tmp_path / "theirs.json.receipt.json").read_text()) == asdict(receipt)
    moved = key_path(problem).rename(tmp_path / "elsewhere.json")
    assert verify_problem(problem, answer) is None
    assert verify_problem(problem, answer, moved) == receipt


def test_an_answer_to_another_problem_is_refused(problem: Path, tmp_path: Path) -> None:
    path = saved(tmp_path, noise())
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, "problem": problem_id(problem)}))
    assert verify_problem(problem, path) is not None
    path.write_text(json.dumps({**data, "problem": "0" * 64}))
    with pytest.raises(ScoresError, match="answers another problem, '0000"):
        verify_problem(problem, path)


def test_a_folder_that_is_in_use_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(InterpBenchError, match="is there already"):
        export_problem(HIST, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_methods_run_on_a_problem_as_on_its_checkpoint(exported: Path) -> None:
    scores = interpbench.discover(interpbench.load_problem(exported, 32), "eap")
    np.testing.assert_array_equal(scores.edges, interpbench.discover(HIST, "eap", examples=32).edges)


@pytest.mark.filterwarnings("ignore")
def test_its_guide_opens_it_in_transformer_lens(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guide's own snippets, without a line of this project."""
    monkeypatch.chdir(exported)
    first, old, new = re.findall(r"```python\n(.*?)```", (exported / "README.md").read_text(), re.DOTALL)
    assert "$" not in (exported / "README.md").read_text() and "HookedTransformer" in old
    run: Callable[..., None] = exec
    names: dict[str, Any] = {}
    run(first + new, names)
    problem = load_problem(exported)
    logits = names["model"](problem.clean[:8])
    torch.testing.assert_close(logits, problem.network(problem.clean[:8]), atol=1e-4, rtol=1e-4)
    assert set(load_file("model.safetensors")) == set(problem.network.state_dict())


HEAVY = ("torch", "jax", "tracr", "transformer_lens", "statsmodels", "pandas")
LOOK = f"""
import sys
from interpbench.runs.cli import main
try:
    main()
finally:
    loaded = [name for name in {HEAVY} if name in sys.modules]
    assert not loaded, loaded
"""


def light(where: Path, *arguments: str) -> str:
    """Runs a command that must not import anything heavy; returns all that it says."""
    done = subprocess.run(
        [sys.executable, "-c", LOOK, *arguments], cwd=where, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_what_exchanges_files_needs_no_torch(tmp_path: Path) -> None:
    """`score`, `convert`, `export-problem`, `verify-problem` and `report`, from beginning to end."""
    saved(tmp_path, noise())
    assert "record in runs/evaluate/hist/mine.json" in light(
        tmp_path, "score", "theirs.json", "--name", "mine", "--checkpoint", HIST
    )
    assert (tmp_path / "runs" / "evaluate" / "hist" / "circuit-mine.png").is_file()
    unnamed = light(tmp_path, "score", "theirs.json", "--checkpoint", HIST)
    assert "record in runs/evaluate/hist/theirs.json" in unnamed, "the file's name is the method's"
    assert "wrote t.csv (csv)" in light(tmp_path, "convert", "truth", "t.csv", "--checkpoint", HIST)
    assert "given away" in light(tmp_path, "export-problem", HIST, "--out", "problem")
    assert "receipt:" in light(tmp_path, "verify-problem", "problem", "theirs.json")
    assert "page:" in light(tmp_path, "report", "--checkpoint", HIST)


def test_a_problem_is_the_same_whether_torch_wrote_it_or_not(exported: Path) -> None:
    loaded, written = CHECKPOINT.network.state_dict(), load_file(exported / "model.safetensors")
    assert loaded.keys() == written.keys() and all(torch.equal(loaded[k], v) for k, v in written.items())


def test_results_with_other_options_and_of_other_scores_stay(tmp_path: Path) -> None:
    """The same once more is one result; anything else has a file of its own."""
    path, folder = saved(tmp_path, noise(signed=True)), tmp_path / "hist"
    score = partial(score_file, path, HIST, pictures=False, out=str(tmp_path))
    for options in ({}, {"absolute": True}, {"structural": True}, {}, {"absolute": True}):
        score(**options)
    names = {"theirs.json", "theirs-absolute=true.json", "theirs-structural=true.json"}
    assert {file.name for file in folder.glob("*.json")} == names
    first = (folder / "theirs.json").read_bytes()
    saved(tmp_path, noise(seed=1))
    for _ in range(2):
        score()
    (other,) = {file.name for file in folder.glob("*.json")} - names
    assert re.fullmatch(r"theirs-[0-9a-f]{8}\.json", other)
    assert (folder / "theirs.json").read_bytes() == first
