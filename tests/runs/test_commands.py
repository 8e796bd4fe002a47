"""Commands in circumstances: several at once, killed ones before, devices, pipes, whatever was imported."""

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import interpbench
from interpbench.checkpoints.checkpoint_files import DATA
from interpbench.checkpoints.load import load_pairs
from interpbench.core.errors import InterpBenchError
from interpbench.core.files import write_bytes, write_text
from interpbench.discovery.isolated_run import apply
from interpbench.discovery.method import get_method
from interpbench.runs import cli
from interpbench.runs.evaluate import evaluate
from interpbench.runs.evaluate_settings import EvaluateConfig
from interpbench.runs.leaderboard_files import read_board
from tests import ROOT
from tests.builders import run_script

RELEASED = ROOT / "models"


@pytest.mark.exhaustive
def test_the_form_that_the_readme_shows(tmp_path: Path) -> None:
    """Several methods and models: a page, pictures and a leaderboard; also without a folder `models`."""
    (tmp_path / "models").symlink_to(RELEASED)
    few = ("examples=16", "test_examples=16", "thorough=false")
    done = run_script(tmp_path, "evaluate.py", "method=random,eap", "checkpoint=hist,3", *few)
    assert done.returncode == 0 and "error" not in done.stderr, done.stderr
    assert (tmp_path / "runs/evaluate/report.html").exists()
    assert (tmp_path / "runs/evaluate/leaderboard.md").exists()


BOARD = """
import sys
from pathlib import Path
from interpbench.runs.leaderboard_files import write_leaderboard
from interpbench.scoring.evaluation_record import EvaluationRecord
from interpbench.core.files import read_json
from interpbench.reports import leaderboard_figures
leaderboard_figures.draw_figures = lambda *_: None  # five pictures, which take most of the time
record = EvaluationRecord.from_json(read_json(Path(sys.argv[1])))
object.__setattr__(record, "method", sys.argv[3])
write_leaderboard([record], Path(sys.argv[2]), add=True)
"""


def test_evaluations_that_share_a_board_lose_no_rows(checkpoint: Path, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"checkpoint": str(checkpoint), "pictures": False, "out": str(tmp_path)}
    evaluate(EvaluateConfig(method={"name": "random"}, **settings))
    (record,) = tmp_path.glob("frac_prevs/**/random.json")
    board = tmp_path / "board"
    lines = [[sys.executable, "-c", BOARD, str(record), str(board), f"m{n}"] for n in range(2)]
    started = [subprocess.Popen(line, cwd=tmp_path) for line in lines]
    assert [process.wait() for process in started] == [0] * 2
    assert [row.method for row in read_board(board / "leaderboard.json").rows] == ["m0", "m1"]


def test_devices_are_written_to_and_links_stay(tmp_path: Path) -> None:
    write_text(Path("/dev/null"), "x")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_text(tmp_path / "link", "x")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "file").read_text() == "x"
    with pytest.raises(InterpBenchError, match="it is a folder"):
        write_text(tmp_path, "x")


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", "pass"])
    gone.wait()
    host = os.uname().nodename
    left = tmp_path / f".x.json.{host}.{gone.pid}.partial"
    alive = tmp_path / f".x.json.{host}.{os.getppid()}.partial"
    other = tmp_path / f".x.json.elsewhere.{gone.pid}.partial"
    for path in (left, alive, other):
        path.touch()
    write_bytes(tmp_path / "x.json", b"{}")
    assert not left.exists() and alive.exists() and other.exists()


def test_tasks_can_be_listed_whatever_was_imported() -> None:
    line = (
        "import interpbench, interpbench.tasks.task_records\nfirst = interpbench.tasks()\n"
        "interpbench.load('hist')\nassert interpbench.tasks() == first and len(first) > 100\n"
        "from interpbench import tasks\nassert tasks() == first\n"
    )
    subprocess.run([sys.executable, "-c", line], cwd=ROOT, check=True)


def test_methods_are_listed_without_torch(tmp_path: Path) -> None:
    line = (
        "import sys; from interpbench.runs.cli import main\nsys.argv = ['x', 'methods']\ntry:\n    main()\n"
        "except SystemExit as end:\n    assert end.code == 0\nassert 'torch' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", line], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert all(name in done.stdout for name in ("acdc", "eap_ig", "thresholds=[1e-06"))


def test_applying_is_what_the_bare_method_gives() -> None:
    checkpoint = interpbench.load("hist")
    problem = load_pairs(checkpoint.folder).problem(checkpoint.network, 16)
    method = get_method("eap")
    assert np.array_equal(apply(method, problem).edges, method(problem).edges, equal_nan=True)


def test_an_interrupted_listing_is_quiet(tmp_path: Path) -> None:
    line = f"{sys.executable} -c 'from interpbench.runs.cli import main; main()' tasks | head -1"
    done = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_only_a_run_finds_is_status_2_too(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkpoint / DATA).write_bytes(b"nothing")
    monkeypatch.setattr(sys, "argv", ["evaluate.py", "method=eap", f"checkpoint={checkpoint}"])
    monkeypatch.chdir(checkpoint)
    with pytest.raises(SystemExit, match="2"):
        cli.evaluate()
    assert capsys.readouterr().err == f"error: {checkpoint / DATA} is damaged; data=fresh draws new pairs\n"
