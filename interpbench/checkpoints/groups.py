"""Groups of released models by what their records say: `nontrivial`, `counting`, `depth:3-`, `regime:alive`.

Terms that are joined by + all have to hold, as in `nontrivial+numerical+edges:-500`. Models of tasks in
regimes are in no group but those of their regimes. Needs no torch.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from interpbench.checkpoints.record import ModelRecord, read_record
from interpbench.core.errors import CheckpointError, did_you_mean
from interpbench.core.text import shown
from interpbench.tasks.catalogue import catalogue, known_task
from interpbench.tasks.family import split_name
from interpbench.tasks.regimes.regime import regimes, regimes_of

Holds = Callable[[ModelRecord], bool]
SMALL = 2
"""The largest number of layers of a small model; any other is deep."""
KINDS: dict[str, Holds] = {
    "trivial": lambda record: record.read_truth.trivial is not None,
    "nontrivial": lambda record: record.read_truth.trivial is None,
    "numerical": lambda record: record.classes is None,
    "categorical": lambda record: record.classes is not None,
    "small": lambda record: record.shape.n_layers <= SMALL,
    "deep": lambda record: record.shape.n_layers > SMALL,
}
"""The groups that have a name of their own; every group of tasks is one of models, too."""
SIZES: dict[str, Callable[[ModelRecord], int]] = {
    "depth": lambda record: record.shape.n_layers,
    "edges": lambda record: len(record.shape.graph.edges),
    "required": lambda record: len(record.read_truth.required),
}
"""What groups can be bounded by: the number of layers, of q/k/v edges, and of required ones."""
REGIME = "regime:"
"""What begins the group of models of tasks in a regime."""
_SIZED = re.compile(r"(\w+):(\d*)(-?)(\d*)")
HOW = (
    f"{', '.join(KINDS)}, a group of tasks, {REGIME}alive, or "
    f"{' '.join(f'{name}:2-5' for name in SIZES)}, joined by +"
)


def kinds_of(record: ModelRecord) -> list[str]:
    """Returns which of `KINDS` a model is of."""
    return [kind for kind, holds in KINDS.items() if holds(record)]


def is_group(name: str) -> bool:
    """Returns whether a name can only mean a group of models, right or wrong."""
    of_tasks = name in _task_groups() and known_task(name) is None
    return "+" in name or ":" in name or name in KINDS or of_tasks


def in_group(name: str, models: Mapping[str, Path]) -> list[Path]:
    """Returns the folders of the models of a group, in order.

    Args:
        name: the terms of the group, joined by +.
        models: the folders of all models, by name.

    Raises:
        CheckpointError: if a term is none, or no model is in the group.
    """
    terms = name.split("+")
    if "" in terms:
        raise CheckpointError(f"{shown(name)!r}: a + stands between two groups; groups are {HOW}")
    holds = [_term(term) for term in terms]
    if not any(term.startswith(REGIME) for term in terms):
        holds.append(lambda record: not regimes_of(record.task))
    found = [path for path in models.values() if all(one(read_record(path)) for one in holds)]
    if not found:
        raise CheckpointError(f"no model of {len(models)} is in the group {shown(name)}")
    return found


def _term(term: str) -> Holds:
    if term in KINDS:
        return KINDS[term]
    if term in _task_groups():
        return lambda record: _task_group(record) == term
    if term.startswith(REGIME):
        wanted = term.removeprefix(REGIME)
        if wanted not in regimes():
            near = did_you_mean(term, [f"{REGIME}{each}" for each in regimes()])
            raise CheckpointError(f"{shown(term)} is no group of models{near}")
        return lambda record: wanted in regimes_of(record.task)
    sized = _SIZED.fullmatch(term)
    if sized is None or sized[1] not in SIZES or not (sized[2] or sized[4]):
        start, colon, _ = term.partition(":")
        if known_task(split_name(term)[0]) is not None:
            raise CheckpointError(f"{shown(term)} is a model; only groups are joined by +")
        near = did_you_mean(start, SIZES if colon else [*KINDS, *SIZES, *_task_groups()])
        if start in SIZES:
            near = f"; {start} is bounded by numbers, as in {start}:2, {start}:2-5, {start}:3- or {start}:-4"
        raise CheckpointError(f"{shown(term)} is no group of models{near}; groups are {HOW}")
    size, low = SIZES[sized[1]], int(sized[2] or 0)
    high = int(sized[4]) if sized[4] else None if sized[3] else low
    return lambda record: low <= size(record) and (high is None or size(record) <= high)


def _task_groups() -> set[str]:
    return {task.group for task in catalogue().values()}


def _task_group(record: ModelRecord) -> str | None:
    task = known_task(record.task) or known_task(split_name(record.task)[0])
    return None if task is None else task.group
