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
from tests.forks import MAIN, Forks


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


@pytest.fixture
def run(
    installed: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., list[str]]:
    """Runs commands in a folder that has no `models`, with the package of the wheel alone."""
    where = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(installed), os.environ.get("PYTHONPATH", "")]))

    def run(*lines: str, program: str = MAIN) -> list[str]:
        with Forks(["interpbench.runs.cli", "torch"], where) as forks:
            done = [forks.run(where, "-c", program, *line.split()) for line in lines]
        for one in done:
            assert one.returncode == 0 and "Traceback" not in one.stderr, one.stderr
        return [one.stdout + one.stderr for one in done]

    return run


@pytest.mark.slow
def test_a_wheel_outside_the_repository(run: Callable[..., list[str]], installed: Path) -> None:
    (place,) = run("", program="import interpbench; print(interpbench.__file__)")
    assert place.strip() == str(installed / "interpbench" / "__init__.py")
    lines = {
        "tasks": ["138 tasks"],
        "methods": [f"{len(known_methods())} methods"],
        "models": ["5 models", "this package"],
        "show frac_prevs --png": ["logits <- a1.h2"],
        "train task=frac_prevs model=compiled device=cpu": ["frac_prevs: certified (", "after 0 steps"],
        "evaluate method=eap,random checkpoint=runs/frac_prevs examples=16 thorough=false": [
            *("runs/evaluate/report.html", "runs/evaluate/leaderboard.md"),
        ],
        "certify runs/frac_prevs --quick": ["all pairs, sets ≥ 99.9%; asked for: 99.9%"],
        "report --checkpoint runs/frac_prevs": ["page:"],
        "export runs/frac_prevs": ["wrote"],
    }
    for said, expected in zip(run(*lines), lines.values(), strict=True):
        assert all(part in said for part in expected), said


@pytest.mark.slow
def test_a_wheel_brings_models_that_methods_are_scored_on(
    run: Callable[..., list[str]], installed: Path
) -> None:
    brought = sorted(folder.name for folder in (installed / "interpbench" / "models").iterdir())
    said, wrote = run(
        "evaluate method=random examples=8 test_examples=8 pictures=false out=runs/all",
        "convert truth hist.json --checkpoint hist",
    )
    assert all(name in said for name in brought) and "mean of 5" in said
    assert "wrote" in wrote
