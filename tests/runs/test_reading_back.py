"""What a run has written it does not read back: it goes on with what it has in memory."""

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from interpbench.checkpoints.checkpoint_files import CERTIFICATE, DATA, FILES, RECORD, WEIGHTS
from interpbench.checkpoints.load import load_checkpoint
from interpbench.runs import demo as demo_command
from interpbench.runs.blind_problems import export_problem
from interpbench.runs.certify import certify_checkpoints
from interpbench.runs.publish import publish
from interpbench.runs.train import train
from interpbench.runs.train_settings import TrainConfig
from interpbench.tasks.model_settings import ModelSettings
from interpbench.training.settings import CertificateSettings, TrainerSettings

QUICK = CertificateSettings(enumerate_up_to=1, pairs=64, looks=1, checks=500, attacks=0)
COMPILED = ModelSettings(kind="compiled")

_watched: Path | None = None
_read: list[str] = []


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _watched is not None and event == "open" and isinstance(arguments[0], str | Path):
        path, reading = Path(arguments[0]), arguments[2] & os.O_ACCMODE == os.O_RDONLY
        if reading and path.is_relative_to(_watched) and path.is_file():
            _read.append(path.name)


sys.addaudithook(_audit)


def read_in(folder: Path, call: Callable[[], object]) -> set[str]:
    """Returns the names of the files in a folder that a call reads."""
    global _watched
    _read.clear()
    _watched = folder
    try:
        call()
    finally:
        _watched = None
    return set(_read)


@pytest.mark.parametrize("model", [COMPILED, ModelSettings()])
def test_a_training_is_not_read_back(tmp_path: Path, model: ModelSettings) -> None:
    few = TrainerSettings(max_steps=2, validation_rows=64)
    config = TrainConfig(
        "frac_prevs", model=model, trainer=few, certificate=QUICK, device="cpu", out=str(tmp_path)
    )
    made: list[object] = []
    assert read_in(tmp_path, lambda: made.append(train(config))) == set()
    assert read_in(tmp_path, lambda: made.append(train(config))) >= {RECORD, WEIGHTS, CERTIFICATE}, "finished"


def test_what_a_training_returns_is_what_would_be_read(tmp_path: Path) -> None:
    config = TrainConfig("hist", model=COMPILED, certificate=QUICK, device="cpu", out=str(tmp_path))
    outcome, read = train(config), load_checkpoint(config.folder)
    made = outcome.checkpoint
    assert (made.folder, made.record, made.certificate) == (read.folder, read.record, read.certificate)
    assert made.network.cfg == read.network.cfg and made.verdict() == read.verdict()
    for ours, theirs in zip(made.network.parameters(), read.network.parameters(), strict=True):
        assert torch.equal(ours, theirs) and ours.requires_grad == theirs.requires_grad
        assert ours.device == theirs.device


def test_the_demo_reads_its_pairs_alone_and_the_record_that_has_their_shape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = partial(TrainConfig, model=COMPILED, certificate=QUICK)
    monkeypatch.setattr(demo_command, "TrainConfig", quick)
    assert read_in(tmp_path, lambda: demo_command.demo(str(tmp_path))) == {DATA, RECORD}
    assert (tmp_path / "report.html").is_file() and (tmp_path / "report.md").is_file()


def test_a_new_certificate_is_not_read_back(checkpoint: Path) -> None:
    call = partial(certify_checkpoints, str(checkpoint), "behaviour", settings=QUICK, quick=True, save=True)
    assert read_in(checkpoint, call) == {RECORD, WEIGHTS}


def test_what_is_exported_is_not_read_back(checkpoint: Path, tmp_path: Path) -> None:
    assert (
        read_in(tmp_path / "problem", lambda: export_problem(str(checkpoint), tmp_path / "problem")) == set()
    )
    call = partial(publish, [str(checkpoint)], "me/models", tmp_path / "published", least=None)
    assert read_in(tmp_path / "published", call) == set()
    assert set(FILES) < {path.name for path in (tmp_path / "published").rglob("*")}
