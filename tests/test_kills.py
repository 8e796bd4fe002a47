"""A run that is killed anywhere ends as one that is not: with the same weights, metrics and certificate.

Each run is a process that kills itself at the n-th place where a file is about to be, or has been, written.
"""

import os
import shutil
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from interpbench.checkpoints.find import CERTIFICATE, DATA, RECORD, WEIGHTS
from interpbench.checkpoints.format import load_checkpoint
from interpbench.core import files, metrics
from interpbench.runs.train import train
from interpbench.runs.train_settings import TrainConfig
from interpbench.training.trainer import Trainer

SAME = (WEIGHTS, CERTIFICATE, DATA, "metrics.jsonl", "config.json")
KILLED = 9


def config(out: Path) -> TrainConfig:
    """A run that is certified at its second validation, since little is asked of it: after six steps."""
    return TrainConfig(
        task="frac_prevs",
        out=str(out),
        device="cpu",
        objective={"iit": 0, "strict": 0, "edge_strict": 0},
        certificate={"pairs": 64, "enumerate_up_to": 1, "target": 0},
        trainer={"max_steps": 40, "validate_every": 3, "validation_rows": 64, "save_every": 2, "stop_at": 0},
    )


class Places:
    """Counts the places where files are written, and ends the process at one of them."""

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
    """Trains in a process of its own, which is killed at the place `last`; returns its exit status."""
    process = os.fork()
    if process == 0:
        status = 1
        try:
            places = Places(last)
            Path.replace = places.around(Path.replace)  # type: ignore[method-assign]
            files._remove_abandoned = places.around(files._remove_abandoned)  # type: ignore[assignment]
            metrics.JsonLines.write = places.around(metrics.JsonLines.write)  # type: ignore[method-assign]
            second = Trainer._after_validation

            def after(self: Trainer, *arguments: object) -> object:
                """Tries no certificate at the first validation, so that states and lines come before it."""
                self.progress.certify_after = 6
                return second(self, *arguments)  # type: ignore[arg-type]

            Trainer._after_validation = after  # type: ignore[method-assign,assignment]
            status = 0 if train(config(out)).certified else 1
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def folder(out: Path) -> Path:
    (found,) = (out / "frac_prevs").iterdir()
    return found


def test_a_run_that_is_killed_anywhere_ends_the_same(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    assert run(whole) == 0
    wanted = {name: (folder(whole) / name).read_bytes() for name in SAME}
    assert wanted["metrics.jsonl"].count(b"\n") == 2 and load_checkpoint(folder(whole)).record.steps == 6
    killed = 0
    while True:
        out = tmp_path / str(killed)
        status = run(out, killed)
        if status == 0:
            break
        assert status == KILLED
        assert run(out) == 0
        for name, data in wanted.items():
            assert (folder(out) / name).read_bytes() == data, (killed, name)
        assert load_checkpoint(folder(out)).record.sha256 == load_checkpoint(folder(whole)).record.sha256
        assert not list(out.glob("**/.*.partial"))
        shutil.rmtree(out)
        killed += 1
    assert killed > 20


def test_a_run_that_is_killed_twice_ends_the_same(tmp_path: Path) -> None:
    """After the certified step, before the certificate is written: and again there."""
    whole, out = tmp_path / "whole", tmp_path / "out"
    assert run(whole) == 0
    for last in (14, 3, 5, 1):
        assert run(out, last) == KILLED
    assert run(out) == 0
    assert all((folder(out) / name).read_bytes() == (folder(whole) / name).read_bytes() for name in SAME)


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
