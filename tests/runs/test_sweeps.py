"""Sweeps: here, in parallel processes, on a cluster; what fails, what is missing, what is killed."""

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from interpbench.core.errors import ConfigError, TrainingError
from interpbench.runs import start
from interpbench.runs.entry import Command, RunOutcome, contained
from interpbench.runs.sweep import SUMMARY, plan, sweep
from tests import ROOT
from tests.builders import run_script

LAUNCHERS = {
    "basic": (),
    "joblib": ("hydra/launcher=joblib", "hydra.launcher.n_jobs=2"),
    "submitit_local": ("hydra/launcher=submitit_local",),
}
SHORT = (
    *("device=cpu", "certificate.pairs=64", "certificate.enumerate_up_to=1", "certificate.checks=500"),
    *("trainer.validation_rows=64", "trainer.validate_every=20", "trainer.save_every=5"),
)


def job(config: Mapping[str, Any]) -> RunOutcome:
    """Ends in a way that depends on the seed; launchers import it, which takes no torch."""
    if config["seed"] == 1:
        raise TrainingError("no progress; try another seed")
    if config["seed"] == 2:
        raise ZeroDivisionError("division by\nzero")
    if config["seed"] == 3:
        return RunOutcome(1, {"result": "not certified"}, ("not certified: IIA",))
    if config["seed"] == 7:
        raise AssertionError("it cannot start")
    if config["seed"] == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    threads = os.environ["OMP_NUM_THREADS"]
    return RunOutcome(facts={"result": "certified", "threads": threads, "process": os.getpid()})


def finished(config: Mapping[str, Any]) -> RunOutcome | None:
    return RunOutcome(facts={"result": "seen"}) if config["seed"] == 5 else None


def check(config: Mapping[str, Any]) -> None:
    if config["seed"] == 7:
        raise ConfigError("seed=7 is no good")


COMMAND = Command("train", job, check=check, finished=finished)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    for name in ("OMP_NUM_THREADS", "SUBMITIT_LOG_LEVEL"):
        monkeypatch.setenv(name, "")  # so that it is as before in the end
        monkeypatch.delenv(name)
    caplog.set_level("INFO", "interpbench")


def summary() -> str:
    (path,) = Path("runs/sweeps").glob(f"*/{SUMMARY}")
    return path.read_text()


def rows() -> dict[str, list[str]]:
    """The cells of the table, by the first."""
    lines = [line.strip("│ ").split("│") for line in summary().splitlines() if line.startswith("│")]
    return {cells[0].strip(): [cell.strip() for cell in cells[1:]] for cells in lines}


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_all_that_are_missing_run_and_failures_are_listed(
    launcher: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sweep(COMMAND, plan(COMMAND, ["task=hist", "seed=0,1,2,3,5,6", *LAUNCHERS[launcher]])) == 2
    assert "6 runs, 5 to do" in caplog.text
    failures = [
        "failed: seed=1: no progress; try another seed",
        "failed: seed=2: ZeroDivisionError: division by zero",
        "failed: seed=3: not certified: IIA",
        "3 of 6 runs failed",
    ]
    assert summary().splitlines()[-4:] == failures
    assert all(failure in caplog.text for failure in failures)
    table = rows()
    assert [cells[0] for cells in table.values()] == [
        *("certified", "failed", "failed", "not certified", "seen", "certified")
    ]
    assert capsys.readouterr().out.count("│") == summary().count("│")
    assert table["0"][1] == table["6"][1] == "1", "one thread"
    here = str(os.getpid())
    assert (table["0"][2] == here) == (table["6"][2] == here) == (launcher == "basic")


def test_what_cannot_start_is_said_before_the_others_start(caplog: pytest.LogCaptureFixture) -> None:
    assert sweep(COMMAND, plan(COMMAND, ["task=hist", "seed=0,7"])) == 2
    said = [record.getMessage() for record in caplog.records]
    assert said.index("cannot start: seed=7: seed=7 is no good") == 1, "after the number of runs"
    assert rows()["0"][0] == "certified"


def test_nothing_is_started_where_nothing_is_missing(caplog: pytest.LogCaptureFixture) -> None:
    assert sweep(COMMAND, plan(COMMAND, ["task=hist,frac_prevs", "seed=5", *LAUNCHERS["joblib"]])) == 0
    assert "2 runs, 0 to do" in caplog.text and "all 2 runs are done" in summary()


@pytest.mark.exhaustive  # it waits for the cluster's own checks
def test_a_job_of_a_cluster_that_dies_is_one_failure() -> None:
    assert sweep(COMMAND, plan(COMMAND, ["task=hist", "seed=4,0", *LAUNCHERS["submitit_local"]])) == 2
    assert rows()["0"][0] == "certified" and summary().endswith("1 of 2 runs failed\n")
    (line,) = [line for line in summary().splitlines() if line.startswith("failed: seed=4: killed")]
    assert Path(line.split("its log is ")[1]).is_file()


def test_a_parallel_process_that_dies_ends_the_sweep_with_what_there_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert sweep(COMMAND, plan(COMMAND, ["task=hist", "seed=4,5", *LAUNCHERS["joblib"]])) == 2
    assert "error: the launcher stopped: TerminatedWorkerError: " in capsys.readouterr().err
    assert rows()["5"][0] == "seen"
    assert "failed: seed=4: no result; the same command goes on with it" in summary()


SLURM = {
    "sbatch": """
last=$(sed -n 's/^#SBATCH --array=0-\\([0-9]*\\).*/\\1/p' "$1")
(sleep 1; for task in $(seq 0 "$last"); do
    SLURM_JOB_ID=$task SLURM_ARRAY_JOB_ID=99 SLURM_ARRAY_TASK_ID=$task SLURM_NTASKS=1 SLURM_PROCID=0 \\
    SLURM_JOB_NUM_NODES=1 SLURM_NODEID=0 SLURM_LOCALID=0 sh "$1"
done) > /dev/null 2>&1 &
echo Submitted batch job 99
""",
    "srun": """
while [ "${1#--}" != "$1" ]; do
    case $1 in --output | --error) shift 2 ;; *) shift ;; esac
done
exec "$@"
""",
    "sacct": "echo 'JobID|State|NodeList'",
}
"""A cluster of one machine, as far as submitit looks; jobs start one by one, after `sbatch` has answered."""


def test_a_cluster_gets_one_array_of_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, script in SLURM.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    asked = ("partition=long", "timeout_min=240", "array_parallelism=1", "cpus_per_task=1")
    overrides = ["hydra/launcher=submitit_slurm", *(f"hydra.launcher.{setting}" for setting in asked)]
    assert sweep(COMMAND, plan(COMMAND, ["task=hist", "seed=0,3,5", *overrides])) == 1
    assert [cells[0] for cells in rows().values()] == ["certified", "not certified", "seen"]
    (script,) = Path("runs/sweeps").glob("*/.submitit/*/*_submission.sh")
    said = script.read_text()
    for line in ("--array=0-1%1", "--partition=long", "--time=240", "--cpus-per-task=1"):
        assert f"#SBATCH {line}\n" in said


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["hydra/launcher=joblob"], "unknown hydra/launcher 'joblob'; did you mean joblib?"),
        (["hydra/launcher=joblib", "hydra.launcher.n_job=2"], "did you mean hydra.launcher.n_jobs or"),
        (["hydra/launcher=joblib", "hydra.launcher.n_jobs=two"], "hydra.launcher.n_jobs=two: Value 'two'"),
        (
            ["hydra.launcher.n_jobs=2"],
            "no setting of the launcher; choose another, as in hydra/launcher=joblib",
        ),
        (["hydra/launcher=submitit_slurm"], "SLURM's sbatch is not here; hydra/launcher=joblib goes without"),
        (["objective=siit,sit"], "unknown objective 'sit'; did you mean siit"),
        (["trainer.max_step=1,2"], "unknown key 'trainer.max_step'; did you mean trainer.max_steps"),
        (["out=file"], "cannot write file/sweeps/"),
        (["model.d_model=range(0)"], "there is nothing to sweep over"),
        (["--cfg=job"], "a sweep takes settings, not the option '--cfg'"),
    ],
)
def test_mistakes_are_one_line_before_anything_starts(
    overrides: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("file").write_text("no folder")
    monkeypatch.setenv("PATH", "")
    arguments = ["-m", "task=hist,frac_prevs", "seed=4", *overrides]
    assert contained(lambda: start.run_hydra(COMMAND, arguments)) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1) and err.startswith("error: ") and said in err


# Real trainings.


def train(*overrides: str) -> tuple[int, str, str]:
    done = run_script(Path.cwd(), "train.py", "-m", *SHORT, *overrides)
    return done.returncode, done.stdout, done.stderr


def test_trainings_in_parallel_and_on_a_cluster() -> None:
    """The second sweep finds a run of the first, and starts the other."""
    few = ("trainer.max_steps=2", "out=both")
    status, out, err = train("task=frac_prevs,trend_to_next", *LAUNCHERS["joblib"], *few)
    assert status == 1 and "2 runs, 2 to do" in err and out.count("not certified") == 2
    status, out, err = train("task=frac_prevs", "seed=0,1", *LAUNCHERS["submitit_local"], *few)
    assert status == 1 and "2 runs, 1 to do" in err and out.count("not certified") == 2
    assert len(list(Path("both").glob("*/*/certificate.json"))) == 3
    assert "Traceback" not in err


def latest_change(folder: Path) -> int:
    """The time of the latest change below a folder, in nanoseconds."""
    times = [0]
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            times.append(path.stat().st_mtime_ns)
    return max(times)


@pytest.mark.exhaustive
def test_a_sweep_that_is_killed_anywhere_ends_with_the_same_bits() -> None:
    """The whole process group, after some number of changes on the disk; the last start is left alone."""
    settings = ("task=frac_prevs,trend_to_next", "trainer.max_steps=60")
    assert train(*settings, "out=whole")[0] == 1
    command = [sys.executable, str(ROOT / "train.py"), "-m", *SHORT, *settings, "out=killed"]
    rng, killed = random.Random(0), Path("killed")
    process = subprocess.Popen(
        [*command, *LAUNCHERS["joblib"]], stderr=subprocess.DEVNULL, start_new_session=True
    )
    seen, left = latest_change(killed), rng.randrange(2, 25)
    while left and process.poll() is None:
        now = latest_change(killed)
        left, seen = left - (now != seen), now
        time.sleep(0.002)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert train(*settings, "out=killed", *LAUNCHERS["joblib"])[0] == 1
    written = [path.relative_to("whole") for path in Path("whole").glob("*/trained-*/*.*s*")]
    kept = [path for path in written if path.name != "state.safetensors"]
    assert len(kept) == 2 * 6
    for path in kept:
        assert untimed(killed / path) == untimed("whole" / path), path


def untimed(path: Path) -> str:
    """A file without what may differ between two runs of the same: their seconds, and the source's commit."""
    return re.sub(
        r'^ *"(seconds|cpu_seconds|commit)": .*$', "", path.read_text("latin-1"), flags=re.MULTILINE
    )
