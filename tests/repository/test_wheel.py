"""An installed wheel, outside the repository, does what the repository does."""

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from interpbench.discovery.known_methods import known_methods
from tests import ROOT

MAIN = "import sys; from interpbench.runs.cli import main; main()"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The contents of the wheel, built without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    build = ["pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(folder)]
    subprocess.run([sys.executable, "-m", *build, str(ROOT)], check=True, cwd=folder)
    (wheel,) = folder.glob("interpbench-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


@pytest.fixture(scope="module")
def run(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Runs a command in a folder that has no `models`, with the package of the wheel alone."""
    where = tmp_path_factory.mktemp("elsewhere")
    path = os.pathsep.join([str(installed), os.environ.get("PYTHONPATH", "")])

    def run(*arguments: str, program: str = MAIN) -> str:
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            **{"cwd": where, "env": {**os.environ, "PYTHONPATH": path}, "capture_output": True, "text": True},
            check=False,
        )
        assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
        return done.stdout + done.stderr

    return run


@pytest.mark.slow
def test_a_wheel_outside_the_repository(run: Callable[..., str], installed: Path) -> None:
    place = run(program="import interpbench; print(interpbench.__file__)")
    assert place.strip() == str(installed / "interpbench" / "__init__.py")
    assert "138 tasks" in run("tasks")
    assert f"{len(known_methods())} methods" in run("methods")
    assert "5 models" in run("models") and "this package" in run("models")
    assert "logits <- a1.h2" in run("show", "frac_prevs", "--png")
    said = run("train", "task=frac_prevs", "model=compiled", "device=cpu")
    assert "frac_prevs: certified (" in said and "after 0 steps" in said
    said = run("evaluate", "method=eap,random", "checkpoint=runs/frac_prevs", "examples=16", "thorough=false")
    assert "runs/evaluate/report.html" in said and "runs/evaluate/leaderboard.md" in said
    assert "all pairs, sets ≥ 99.9%; asked for: 99.9%" in run("certify", "runs/frac_prevs", "--quick")
    assert "page:" in run("report", "--checkpoint", "runs/frac_prevs")
    assert "wrote" in run("export", "runs/frac_prevs")


@pytest.mark.slow
def test_a_wheel_brings_models_that_methods_are_scored_on(run: Callable[..., str], installed: Path) -> None:
    brought = sorted(folder.name for folder in (installed / "interpbench" / "models").iterdir())
    said = run("evaluate", "method=random", "examples=8", "test_examples=8", "pictures=false", "out=runs/all")
    assert all(name in said for name in brought) and "mean of 5" in said
    assert "wrote" in run("convert", "truth", "hist.json", "--checkpoint", "hist")
    load = "import interpbench; print(interpbench.load('hist'))"
    assert "Checkpoint hist: 2 layers" in run(program=load)
    missing = "from interpbench.runs.cli import main; import sys; sys.argv += ['evaluate', 'checkpoint=ioi']"
    ended = f"import atexit, os; atexit.register(os._exit, 0); {missing}; main()"
    assert "INTERPBENCH_HUB=owner/name, `interpbench download` gets models" in run(program=ended)


@pytest.mark.exhaustive
def test_the_demo_works_outside_the_repository(run: Callable[..., str]) -> None:
    said = run("demo", "--out", "shown")
    assert "frac_prevs: certified (" in said and "report:     shown/report.md" in said
