"""Runs trainings in processes that kill themselves at given places, where files are written.

The processes are forks of one that has imported everything and started no threads. `python -m
tests.killed_runs FOLDER` kills a run after every write; `tests/runs/test_kills.py` runs it.
"""

import os
import shutil
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from interpbench.checkpoints.checkpoint_files import CERTIFICATE, DATA, WEIGHTS
from interpbench.checkpoints.load import load_checkpoint
from interpbench.core import files, metric_sinks
from interpbench.runs.train import train
from interpbench.runs.train_settings import TrainConfig
from interpbench.training import trainer
from interpbench.training.settings import TrainerSettings
from interpbench.training.stopping import Line

SAME = (WEIGHTS, CERTIFICATE, DATA, "metrics.jsonl", "config.json")
KILLED = 9


def config(out: Path) -> TrainConfig:
    """Returns the configuration of a short run, which reaches its low standard at the second validation."""
    return TrainConfig(
        task="frac_prevs",
        out=str(out),
        device="cpu",
        objective={"iit": 0, "strict": 0, "edge_strict": 0, "probe": 0, "attention_supervision": 0},
        certificate={"pairs": 64, "enumerate_up_to": 1, "looks": 1, "checks": 500, "attacks": 0},
        standard={"target": 0},
        trainer={
            "max_steps": 40,
            "validate_every": 3,
            "validation_rows": 64,
            "save_every": 2,
            "stop_at": 0,
            "confirm": 1,
        },
    )


class Places:
    """Counts the places at which files are written, and ends the process at one of them."""

    def __init__(self, last: int):
        self.last, self.count = last, 0

    def around(self, function: Callable[..., object]) -> Callable[..., object]:
        """Returns a function with a place before and one after it."""

        def wrapped(*arguments: object, **named: object) -> object:
            self.passed()
            value = function(*arguments, **named)
            self.passed()
            return value

        return wrapped

    def passed(self) -> None:
        if self.count == self.last:
            os._exit(KILLED)
        self.count += 1


def run(out: Path, last: int = -1) -> int:
    """Trains in another process, which is killed at the place `last`, and returns its exit status."""
    process = os.fork()
    if process == 0:
        status = 1
        try:
            places = Places(last)
            Path.replace = places.around(Path.replace)  # type: ignore[method-assign]
            files._remove_abandoned = places.around(files._remove_abandoned)  # type: ignore[assignment]
            metric_sinks.JsonLines.write = places.around(metric_sinks.JsonLines.write)  # type: ignore[method-assign]
            tried = trainer.tries_certificate

            def later(
                settings: TrainerSettings, validations: Sequence[Line], attempts: Sequence[int]
            ) -> bool:
                """Tries no certificate at the first validation, so that states and lines come before it."""
                return validations[-1].step >= 6 and tried(settings, validations, attempts)

            trainer.tries_certificate = later
            status = 0 if train(config(out)).certified else 1
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def folder(out: Path) -> Path:
    (found,) = (out / "frac_prevs").iterdir()
    return found


def check_same(out: Path, whole: Path, what: object) -> None:
    """Checks that a run ended like one that was not killed, and has left no temporary files."""
    for name in SAME:
        assert (folder(out) / name).read_bytes() == (folder(whole) / name).read_bytes(), (what, name)
    assert load_checkpoint(folder(out)).record.sha256 == load_checkpoint(folder(whole)).record.sha256
    assert not list(out.glob("**/.*.partial")), what


def main(where: Path, every: int = 2) -> None:
    """Kills a run after every so many writes, and one run several times, and prints the number of places."""
    torch.set_num_threads(1)  # a process with others must not fork
    train(config(where / "first"))  # what is imported late is imported
    whole = where / "whole"
    assert run(whole) == 0
    assert (folder(whole) / "metrics.jsonl").read_text().count("\n") == 2
    assert load_checkpoint(folder(whole)).record.steps == 6
    killed = 0
    while (status := run(where / str(killed), killed)) != 0:
        assert status == KILLED, status
        assert run(where / str(killed)) == 0
        check_same(where / str(killed), whole, killed)
        shutil.rmtree(where / str(killed))
        killed += every  # 2: what is on the disk after one write is there before the next one
    again = where / "again"
    for last in (14, 3, 5, 1):  # after the certified step, and again before its certificate is written
        assert run(again, last) == KILLED
    assert run(again) == 0
    check_same(again, whole, "again")
    sys.stdout.write(f"{killed} places\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
