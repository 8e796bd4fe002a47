"""The commands as users run them: exit status, one-line errors, files, a run that is killed and resumed."""

import inspect
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import interpbench
from interpbench.checkpoints.load import load_checkpoint
from interpbench.runs import cli
from interpbench.runs.evaluate_settings import evaluate_config
from interpbench.runs.subcommand import SUBCOMMANDS
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.identity import task_sha256
from tests import ROOT
from tests.builders import run_script
from tests.forks import MAIN, Forks, run_python

HEAVY = ("torch", "jax", "transformer_lens", "wandb", "tracr.compiler")
LOOK = f"""
import sys
from interpbench.runs.cli import main
try:
    main()
finally:
    loaded = [name for name in {HEAVY} if name in sys.modules]
    assert not loaded, loaded
"""
SHORT = (
    *("task=frac_prevs", "device=cpu", "certificate.pairs=64", "certificate.enumerate_up_to=1"),
    *("certificate.looks=1", "certificate.checks=500", "certificate.attacks=0", "trainer.validation_rows=64"),
)


def start(where: Path, *arguments: str) -> "subprocess.Popen[str]":
    """Starts Python in a folder of its own."""
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, *arguments], cwd=where, stdout=pipe, stderr=pipe, text=True)


def run(where: Path, *arguments: str) -> tuple[int, str, str]:
    """Returns exit status, standard output and standard error."""
    process = start(where, *arguments)
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def train(where: Path, *overrides: str) -> tuple[int, str, str]:
    done = run_script(where, "train.py", *overrides)
    return done.returncode, done.stdout, done.stderr


def only_folder(out: Path) -> Path:
    (folder,) = out.glob("frac_prevs/*")
    return folder


def assert_one_line(err: str, *said: str) -> None:
    assert err.count("\n") == 1 and err.startswith("error: "), err
    for text in said:
        assert text in err


# Looking around needs no torch.


@pytest.fixture(scope="module")
def light() -> Iterator[Forks]:
    """A process that has imported the command line, which forks itself for each command."""
    with Forks(["interpbench.runs.cli"]) as forks:
        yield forks


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "show"),
        (["--help"], "show"),
        (["--version"], interpbench.__version__),
        (["tasks"], "frac_prevs"),
        (["models"], "grade"),
        (["models", "regime:shares", "all_equal/seed1"], "3 models"),
        (["show", "frac_prevs"], "logits <- a1.h2"),
        (["show", "3"], "logits <- a1.h2"),
    ],
)
def test_looking_is_quick(light: Forks, tmp_path: Path, arguments: list[str], said: str) -> None:
    done = light.run(tmp_path, "-c", LOOK, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert said in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.exhaustive
def test_what_commands_write_by_default_is_nothing_that_git_shows(tmp_path: Path) -> None:
    """In a repository that ignores what this one does."""
    shutil.copy(ROOT / ".gitignore", tmp_path)
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    circuit = tmp_path / "runs" / "circuit.json"
    lines = (
        ["show", "frac_prevs", "--png"],
        ["export", "hist"],
        ["export-problem", "hist"],
        ["convert", "truth", str(circuit), "--checkpoint", "hist"],
        ["score", str(circuit), "--checkpoint", "hist", "--no-pictures"],
        ["evaluate", "method=random", "checkpoint=hist", "examples=8", "test_examples=8"],
        ["report"],
    )
    for line in lines:
        done = run_python(tmp_path, "-c", MAIN, *line)
        assert done.returncode == 0, done.stderr
    git = ["git", "-C", str(tmp_path), "status", "--porcelain"]
    assert subprocess.run(git, capture_output=True, text=True, check=True).stdout == "?? .gitignore\n"
    for written in ("pictures/frac_prevs.png", "transformer-lens/hist", "problems", "evaluate/report.html"):
        assert (tmp_path / "runs" / written).exists()


def test_python_and_the_command_line_give_methods_as_many_pairs() -> None:
    given = inspect.signature(interpbench.discover).parameters["examples"].default
    assert given == inspect.signature(interpbench.load_problem).parameters["examples"].default
    assert given == evaluate_config({"method": {"name": "acdc"}, "checkpoint": "hist"}).examples


def test_an_error_of_ours_keeps_its_traceback(tmp_path: Path) -> None:
    """A ValueError deep in the library is not taken for a mistake of the user's."""
    broken = "from interpbench.runs import show\ndef show_tasks(*_):\n    raise ValueError('deep inside')\n"
    line = f"{broken}show.show_tasks = show_tasks\nfrom interpbench.runs.cli import main; main()"
    status, out, err = run(tmp_path, "-c", line, "tasks")
    assert (status, out) == (1, "")
    assert "Traceback" in err and "in show_tasks" in err and "ValueError: deep inside" in err
    assert err.splitlines()[-1].startswith("error: ValueError is an error of interpbench, not of yours")


def test_an_error_of_ours_while_composing_keeps_its_traceback(tmp_path: Path) -> None:
    broken = (
        "from interpbench.runs import entry, start\ndef compose(*_):\n    raise TypeError('deep inside')\n"
    )
    line = f"{broken}start.compose_run = compose\nfrom interpbench.runs.cli import train; train()"
    status, out, err = run(tmp_path, "-c", line, "task=hist")
    assert (status, out) == (1, "") and "Traceback" in err and "TypeError: deep inside" in err


def test_the_console_command_is_installed(tmp_path: Path) -> None:
    command = shutil.which(
        "interpbench", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    )
    assert command is not None, "pip install -e ."
    done = subprocess.run([command, "--help"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert all(name in done.stdout for name in SUBCOMMANDS)


# Mistakes.

NAMES = {
    **{"capacity": ["capacity", "hsit"], "show": ["show", "hsit"], "demo": ["demo", "--ot"]},
    **{"tasks": ["tasks", "--group", "srting"]},
    **{"methods": ["methods", "acdc"], "configs": ["configs", "--chek"], "models": ["models", "--hbu"]},
    **{"download": ["download", "hsit"], "publish": ["publish", "hsit", "--to", "a/b"]},
    **{"export": ["export", "hsit"], "certify": ["certify", "hsit"], "report": ["report", "evaluatoins"]},
    **{"shortcuts": ["shortcuts", "hsit"], "exam": ["exam", "--rows", "docs/exma"]},
    **{"score": ["score", "x.json", "--checkpoint", "hsit"]},
    **{"scrub": ["scrub", "hsit"], "trace": ["trace", "spce.json"]},
    **{
        "decoys attribute": ["decoys", "attribute", "--method", "gradeint"],
        "decoys compare": ["decoys", "compare", "--circuit", "supressor"],
    },
    **{"decoys circuits": ["decoys", "circuits", "--al"], "decoys table": ["decoys", "table", "--wirte"]},
    **{"decoys gate": ["decoys", "gate", "--sedes", "3"], "decoys page": ["decoys", "page", "/"]},
    **{"submit": ["submit", ".", "--name", "mine", "--checkpoint", "hsit"]},
    **{"submissions": ["submissions", "docs/submisions"]},
    **{"convert": ["convert", "truth", "x.json", "--checkpoint", "hsit"]},
    **{"export-problem": ["export-problem", "hsit"], "verify-problem": ["verify-problem", "problme"]},
    **{
        "contest make": ["contest", "make", "--task", "hsit"],
        "contest check": ["contest", "check", "contset"],
    },
    **{
        "contest score": ["contest", "score", "contset", "x"],
        "contest reveal": ["contest", "reveal", "contset"],
    },
    **{"contest answer": ["contest", "answer", "contset", "eap"]},
    **{"train": ["train", "task=hsit"], "evaluate": ["evaluate", "checkpoint=hsit"]},
}
"""A wrong name for each command; of those that take none, a wrong option."""


TYPED = {
    (wrong, command): NAMES[command] if wrong == "name" else [*command.split(), "--hepl"]
    for wrong in ("name", "option")
    for command in SUBCOMMANDS
}


@pytest.fixture(scope="module")
def answers(light: Forks, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], tuple[int, str]]:
    """Returns the status and the standard error of each command line of `TYPED`."""
    where = tmp_path_factory.mktemp("typed")
    done = {typed: light.run(where, "-c", LOOK, *line) for typed, line in TYPED.items()}
    return {typed: (answer.returncode, answer.stderr) for typed, answer in done.items()}


@pytest.mark.parametrize(("wrong", "command"), TYPED)
def test_a_typo_is_answered_by_every_command_before_anything_heavy_is_imported(
    answers: dict[tuple[str, str], tuple[int, str]], wrong: str, command: str
) -> None:
    """`LOOK` sees to that; `python -m benchmarks.wrong_calls` measures CPU seconds."""
    status, err = answers[wrong, command]
    assert status == 2, err
    assert_one_line(err)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-c", LOOK, "shwo"], ["'shwo'", "did you mean show"]),
        (["-c", LOOK, "tasks", "--famly", "x"], ["'--famly'", "did you mean --family"]),
        (["-c", LOOK, "tasks", "--min-edges", "x"], ["--min-edges", "'x'"]),
        (["-c", LOOK, "show", "frac_prev"], ["'frac_prev'", "did you mean frac_prevs"]),
        (["-c", LOOK, "download", "hist"], ["no repository of models is set", "INTERPBENCH_HUB=owner/name"]),
        (["-c", LOOK, "models", "--hbu"], ["'--hbu'", "did you mean --hub"]),
        (["-c", LOOK, "models", "hist", "--hub"], ["models hist --hub", "leave out names"]),
        (
            ["train.py", "task=3", "trainer.max_step=2"],
            ["'trainer.max_step'", "did you mean trainer.max_steps"],
        ),
        (["train.py", "task=3", "objective=sit"], ["objective 'sit'", "did you mean siit"]),
        (["evaluate.py", "method=acdk"], ["method 'acdk'", "did you mean acdc"]),
    ],
)
def test_mistakes_are_one_line(light: Forks, tmp_path: Path, arguments: list[str], said: list[str]) -> None:
    script = str(ROOT / arguments[0]) if arguments[0].endswith(".py") else arguments[0]
    done = light.run(tmp_path, script, *arguments[1:])
    assert (done.returncode, done.stdout) == (2, "")
    assert_one_line(done.stderr, *said)


@pytest.mark.parametrize(
    ("command", "arguments", "said"),
    [
        ("train", ["task=frac_prev"], ["task 'frac_prev'", "did you mean frac_prevs"]),
        ("train", ["task=987"], ["task '987'"]),
        ("train", [], ["task is missing", "task=frac_prevs"]),
        ("train", ["task=3", "trainer.batch=many"], ["trainer.batch", "integer", "'many'"]),
        ("train", ["task=3", "+trainer.colour=red"], ["trainer.colour", "unknown key"]),
        ("train", ["task=3", "device=cudda"], ["cudda", "cpu"]),
        ("train", ["task=3", "seed=-1"], ["seed", "greater than or equal to 0", "-1"]),
        ("train", ["task=3", f"seed={2**63}"], ["seed", "less than 9223372036854775808"]),
        ("train", ["task=3", "out=file/runs", "model=compiled", *SHORT[2:]], ["cannot write file/runs"]),
        ("train", ["task=3", "out=file/runs", "trainer.max_steps=1", *SHORT[2:]], ["cannot write file/runs"]),
        ("evaluate", ["checkpoint=frac_prev"], ["checkpoint 'frac_prev'", "did you mean frac_prevs"]),
        ("evaluate", ["checkpoint=all", "data=old"], ["data", "'stored' or 'fresh'", "'old'"]),
        ("evaluate", ["+method.threshold=1"], ["threshold: unknown key", "did you mean thresholds"]),
        ("evaluate", ["method.max_width=wide"], ["max_width", "integer", "'wide'"]),
        ("certify", ["frac_prev"], ["checkpoint 'frac_prev'", "did you mean frac_prevs"]),
        ("show", ["hist[regime=noisy"], ["the bracket is not closed; hist[regime=noisy] is meant"]),
        ("tasks", ["--group", "regime:noisy"], ["a task in a regime is written as hist[regime=alive]"]),
    ],
)
def test_mistakes_that_only_the_library_sees(
    command: str,
    arguments: list[str],
    said: list[str],
    checkpoint: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    home = checkpoint.parent / "home"
    shutil.copytree(checkpoint, home / "models" / "frac_prevs")
    (home / "file").write_text("no folder")
    monkeypatch.chdir(home)
    monkeypatch.setattr(sys, "argv", ["interpbench", command, *arguments])
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 2
    assert_one_line(capsys.readouterr().err, *said)


# Runs.


@pytest.fixture(scope="module")
def compiled_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("compiled")
    status, _, err = train(out, "task=frac_prevs", "model=compiled", f"out={out}", "device=cpu")
    assert status == 0, err
    assert "frac_prevs: certified (adversarial, positions, all pairs, sets ≥ 99.9%) after 0 steps" in err
    return out


def test_compiled_weights_are_certified(compiled_run: Path) -> None:
    loaded = load_checkpoint(only_folder(compiled_run))
    assert loaded.record.kind == "compiled"
    assert loaded.certificate is not None and loaded.certificate.identity is not None
    assert loaded.certificate.all_pairs and loaded.certificate.trained_on_all
    assert loaded.certificate.rates["accuracy"]["output"]["pairs"].rows == 256**2
    assert loaded.certificate.identity.task == task_sha256(get_task("frac_prevs"))
    verdict = loaded.verdict()
    assert verdict is not None and verdict.grade == "adversarial" and verdict.positions


def test_evaluation_writes_a_record_and_pictures(compiled_run: Path, tmp_path: Path) -> None:
    overrides = ("method=exact", f"checkpoint={compiled_run}", f"out={tmp_path / 'out'}", "device=cpu")
    done = run_script(tmp_path, "evaluate.py", *overrides)
    assert done.returncode == 0, done.stderr
    assert "frac_prevs" in done.stdout and "exact" in done.stdout
    folder = only_folder(tmp_path / "out")
    assert sorted(path.name for path in folder.iterdir()) == ["circuit-exact.png", "exact.json", "roc.png"]
    record = json.loads((folder / "exact.json").read_text())
    assert (record["task"], record["method"]) == ("frac_prevs", "exact")
    assert record["levels"]["qkv_edge"]["metrics"]["auroc"][0] == 1
    for picture in folder.glob("*.png"):
        assert picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size > 5000


def test_an_evaluation_that_cannot_be_written_is_refused(
    compiled_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("no folder")
    overrides = ("method=random", f"checkpoint={compiled_run}", f"out={tmp_path / 'file'}", "device=cpu")
    monkeypatch.setattr(sys, "argv", ["evaluate.py", *overrides])
    with pytest.raises(SystemExit, match="2"):
        cli.evaluate()
    assert capsys.readouterr().err == f"error: cannot write {tmp_path / 'file'}: it is not a folder\n"


def test_a_finished_run_is_not_run_again(
    compiled_run: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before = {path: path.stat().st_mtime_ns for path in only_folder(compiled_run).iterdir()}
    overrides = ("task=3", "model=compiled", f"out={compiled_run}", "device=cpu")
    monkeypatch.setattr(sys, "argv", ["train.py", *overrides])
    with pytest.raises(SystemExit, match="0"):
        cli.train()
    assert "is finished; fresh=true trains it again" in caplog.text
    assert {path: path.stat().st_mtime_ns for path in only_folder(compiled_run).iterdir()} == before


def test_missing_the_target_is_exit_status_1(tmp_path: Path) -> None:
    status, _, err = train(tmp_path, *SHORT, f"out={tmp_path}", "trainer.max_steps=20")
    assert status == 1
    assert "frac_prevs: NOT certified (not even behaviour): no intervention" in err
    assert "after 20 steps" in err
    assert "Traceback" not in err
    assert load_checkpoint(only_folder(tmp_path)).record.steps == 20


def wait_for(condition: Callable[[], bool], process: "subprocess.Popen[str]") -> None:
    while not condition():
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.002)


@pytest.mark.exhaustive
def test_a_killed_run_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    """By the command; `test_kills.py` kills a run at every place."""
    steps = ("trainer.max_steps=60", "trainer.save_every=10", "trainer.validate_every=20")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert train(tmp_path, *SHORT, *steps, f"out={whole}")[0] == 1  # 60 steps are not enough
    process = start(tmp_path, str(ROOT / "train.py"), *SHORT, *steps, f"out={killed}")
    wait_for(lambda: any(killed.glob("*/*/metrics.jsonl")) and "step" in metrics(killed), process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert (only_folder(killed) / "state.safetensors").exists()
    assert not (only_folder(killed) / "certificate.json").exists()

    status, _, err = train(tmp_path, *SHORT, *steps, f"out={killed}")
    assert status == 1 and "resuming at step" in err
    for name in ("model.safetensors", "certificate.json", "metrics.jsonl", "config.json", "data.safetensors"):
        assert (only_folder(killed) / name).read_bytes() == (only_folder(whole) / name).read_bytes(), name


def metrics(out: Path) -> str:
    return (only_folder(out) / "metrics.jsonl").read_text()


def test_a_task_s_own_settings_come_by_themselves(tmp_path: Path) -> None:
    """Between the defaults and what is said explicitly; not with `experiment=none`."""
    few = ("device=cpu", "certificate.pairs=64", "certificate.enumerate_up_to=1", "certificate.checks=100")
    overrides = (*few, "task=ioi", "trainer.max_steps=1", "trainer.validation_rows=64")
    _, _, err = train(tmp_path, *overrides, "out=own")
    assert "with configs/experiment/ioi.yaml; experiment=none goes without" in err
    (own,) = (tmp_path / "own").glob("ioi/*/config.json")
    settings = json.loads(own.read_text())
    assert settings["model"]["init_positions"] == 16 and settings["trainer"]["max_steps"] == 1
    _, plain, err = train(tmp_path, *overrides, "experiment=none", "--cfg", "job")
    assert "experiment" not in err and "init_positions: 16" not in plain
