"""Trains networks by the default recipe, or from nodes of a network of the task alone."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from interpbench.alignment.alignment import align
from interpbench.checkpoints.format import Checkpoint
from interpbench.core.errors import TrainingError
from interpbench.runs.api import train
from interpbench.runs.train import TrainOutcome
from interpbench.runs.train_settings import bases
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.regimes.regime import RegimeTask
from interpbench.tasks.shapes import shape
from interpbench.training.transplant import Transplant
from interpbench.transformer.config import unlike

FEW = 100
"""The steps of schedules that begin with copied nodes. These are certified as they are, or seldom at all."""
CertifiedTraining = Callable[[str, int, Path], Path]
"""A function that trains a network of a task with a seed, in a folder, and returns where it is. It raises a
TrainingError if the network is not certified."""


def train_certified(task: str, seed: int, out: Path, steps: int | None = None) -> Path:
    """Trains a network by the default recipe, and returns its folder.

    Among bystanders (`regime=alive`), and among many nodes (`regime=wide`), first a network of the task alone
    is trained. Its nodes are copied.

    Args:
        task: the name of the task.
        seed: the seed of the training.
        out: the folder in which the folder of the run is.
        steps: the steps of the schedule; None for those of the default.

    Raises:
        TrainingError: if it is not certified, with what was missed.
    """
    made = get_task(task)
    if not isinstance(made, RegimeTask) or not bases(made) or _unlike(made) is not None:
        return _trained(task, seed, out, steps).folder
    alone = _trained(made.base.name, seed, out, steps)
    return _trained(task, seed, out, FEW, **copying(made, alone.checkpoint)).folder


def copying(task: RegimeTask, alone: Checkpoint) -> dict[str, Any]:
    """Returns settings of a training that copies the nodes of a network, and gives them the room they need.

    Heads and MLPs are twice as wide as there at least, so that they can read nodes without effect.

    Args:
        task: a task in `alive` or `wide`.
        alone: a network of the task without this regime.
    """
    own, there = shape(task), alone.network.cfg
    trained = align(get_task(alone.task), there.graph, alone.record.alignment)
    inner = align(task, own.graph)
    crowd = inner if task.crowd is None else align(task.crowd, own.graph)
    needed = Transplant(alone.network, trained, inner, crowd).directions
    room = {
        "d_model": max(own.d_model, 16 * (1 + needed // 16)),
        "d_head": max(own.d_head, 2 * there.d_head),
        "d_mlp": max(own.d_mlp, 2 * there.d_mlp),
    }
    return {"start": str(alone.folder), "model": room}


def _trained(task: str, seed: int, out: Path, steps: int | None, **settings: Any) -> TrainOutcome:
    """Trains a network; raises a TrainingError if it is not certified."""
    schedule = {} if steps is None else {"max_steps": steps}
    outcome = train(task, seed=seed, out=str(out), trainer=schedule, **settings)
    if not outcome.certified:
        missed = outcome.verdict.missed(outcome.goal)[0]
        raise TrainingError(f"{task} was not certified after {outcome.steps:,} steps: {missed}")
    return outcome


def _unlike(task: RegimeTask) -> str | None:
    """Returns why nodes of a network of the task alone cannot be copied; None if they can."""
    alone = shape(task.base)
    return unlike(replace(shape(task), d_head=alone.d_head, d_mlp=alone.d_mlp), alone)
