"""Pairs of clean and corrupted inputs for discovery, drawn so that the corrupted output differs."""

import numpy as np
import torch

from interpbench.causal.model import changed, has_value
from interpbench.core import seeds
from interpbench.core.errors import TaskError, UnknownNameError
from interpbench.tasks.domain import RESAMPLE
from interpbench.tasks.problem import Pairs
from interpbench.tasks.task import Task

CANDIDATES = 8
"""The number of corrupted inputs that are drawn for each clean input, to find one with another output."""


def draw_pairs(task: Task, count: int, seed: int = 0, corruption: str | None = None) -> Pairs:
    """Draws pairs of a clean and a corrupted input whose outputs differ at some scored position.

    Args:
        task: the task.
        count: the number of pairs.
        seed: the seed of the draw.
        corruption: the name of one of the domain's corruptions; None for its first. After `resample` the
            corrupted input has another output; after other corruptions it may also have none.

    Raises:
        UnknownNameError: if the domain has no such corruption.
        TaskError: if hardly any corrupted input has another output than its clean one.
    """
    rng = seeds.generator(seed, "pairs", task.name)
    corruptions = task.domain.corruptions
    name = next(iter(corruptions)) if corruption is None else corruption
    if name not in corruptions:
        raise UnknownNameError(f"corruption of task {task.name}", name, corruptions)
    clean: list[np.ndarray] = []
    corrupted: list[np.ndarray] = []
    found = tried = 0
    while found < count:
        base = task.domain.draw(rng, count)
        others = corruptions[name](rng, base.repeat(CANDIDATES, 0))
        before, after = (
            task.causal_model.outputs(base).repeat(CANDIDATES, 0),
            task.causal_model.outputs(others),
        )
        lost = has_value(before) & ~has_value(after) & (name != RESAMPLE)
        alive = (changed(before, after) | lost).any(1).reshape(count, CANDIDATES)
        rows = np.flatnonzero(alive.any(1))
        clean.append(base[rows])
        corrupted.append(others[rows * CANDIDATES + alive[rows].argmax(1)])
        found, tried = found + len(rows), tried + count
        if tried >= 50 * count and found < count:
            others = [other for other in corruptions if other != name]
            advice = (
                f"choose corruption {' or '.join(others)}" if others else "nearly all outputs are the same"
            )
            raise TaskError(
                f"task {task.name}: corruption {name} changed the output of only {found} of {tried} inputs; "
                f"{advice}"
            )
    tokens = np.concatenate(clean)[:count]
    scored = np.zeros((count, task.length + 1), bool)
    scored[:, 1:] = task.scored(task.causal_model.outputs(tokens))
    return Pairs(
        torch.from_numpy(task.token_ids(tokens)),
        torch.from_numpy(task.token_ids(np.concatenate(corrupted)[:count])),
        torch.from_numpy(scored),
    )
