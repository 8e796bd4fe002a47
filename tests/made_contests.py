"""Networks for contests that take no training: compiled ones, and one that has learned nothing."""

import os
import signal
from pathlib import Path

from interpbench.core.errors import TrainingError
from interpbench.runs.train import train
from interpbench.runs.train_settings import TrainConfig
from interpbench.tasks.model_settings import ModelSettings
from interpbench.training.settings import CertificateSettings, TrainerSettings

QUICK = CertificateSettings(enumerate_up_to=1, pairs=64, looks=1, checks=500, attacks=0)


def compiled(task: str, seed: int, out: Path) -> Path:
    """Returns the compiled network of a task, instead of a trained one."""
    made = TrainConfig(
        task=task,
        seed=seed,
        model=ModelSettings(kind="compiled"),
        certificate=QUICK,
        device="cpu",
        out=str(out),
    )
    return train(made).folder


def failed(task: str, seed: int, out: Path) -> Path:
    """Trains nothing, and says so as a training does whose network is not certified."""
    raise TrainingError("edges 0.98 < 0.99")


def killed(task: str, seed: int, out: Path) -> Path:
    """Ends its process as the system does where memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def untrained(task: str, seed: int, out: Path) -> Path:
    """Returns a network that has learned nothing."""
    settings = TrainerSettings(max_steps=1, validation_rows=64)
    made = TrainConfig(task=task, trainer=settings, certificate=QUICK, device="cpu", out=str(out))
    return train(made).folder
