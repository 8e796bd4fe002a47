"""A run that is killed anywhere ends as one that is not: with the same weights, metrics and certificate."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from interpbench.checkpoints.checkpoint_files import RECORD
from interpbench.runs.train import train
from interpbench.runs.train_settings import TrainConfig
from interpbench.training.trainer import Trainer
from tests import ROOT
from tests.killed_runs import SAME, config


@pytest.mark.parametrize("every", [11, pytest.param(2, marks=pytest.mark.exhaustive)])
def test_a_run_that_is_killed_anywhere_ends_the_same(tmp_path: Path, every: int) -> None:
    """Before or after every so many lines of metrics, states and other files; and several times."""
    line = [sys.executable, "-m", "tests.killed_runs", str(tmp_path), str(every)]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    places, _ = done.stdout.split()
    assert int(places) > 20


def test_a_folder_that_is_deleted_during_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is there at the end, the metrics of the whole run among it."""
    step = Trainer.step

    def deleting(self: Trainer) -> object:
        if self.progress.step == 4 and self.folder is not None:
            shutil.rmtree(self.folder)
        return step(self)

    settings = config(tmp_path)
    trained = TrainConfig(**{**vars(settings), "trainer": {**vars(settings.trainer), "stop_at": 1}})
    monkeypatch.setattr(Trainer, "step", deleting)
    made = train(trained).folder
    lines = (made / "metrics.jsonl").read_text().splitlines()
    assert [line.split(",")[0] for line in lines] == [f'{{"step": {n}' for n in (*range(3, 40, 3), 40)]
    assert all((made / name).is_file() for name in (*SAME, RECORD))
