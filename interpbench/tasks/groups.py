"""Groups of tasks and of models by what is known of them: `nontrivial`, `depth:3-`, `regime:alive`.

Terms that are joined by + all have to hold, as in `nontrivial+numerical+edges:-500`. What is in a regime is
in no group but those of its regimes. Needs no torch.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

from interpbench.circuits.ground_truth import Truth
from interpbench.core.errors import ConfigError, did_you_mean
from interpbench.core.text import shown
from interpbench.tasks.catalogue import catalogue, known_task
from interpbench.tasks.family import split_name
from interpbench.tasks.regimes.regime import regimes, regimes_of
from interpbench.tasks.shapes import shape
from interpbench.tasks.task import Task
from interpbench.tasks.task_records import records


@dataclass(frozen=True)
class Member:
    """What groups ask of a task in its network, or of a model.

    Attributes:
        task: the name of the task.
        numerical: says whether its outputs are numbers.
        read_truth: returns the states of the network's nodes and edges.
    """

    task: str
    numerical: Callable[[], bool]
    read_truth: Callable[[], Truth]

    @classmethod
    def of_task(cls, task: Task) -> "Member":
        """Returns what is known of a task of the catalogue in its default network."""

        def truth() -> Truth:
            if task.name not in records():
                said = "has not been measured; `interpbench tasks --write` does that"
                raise ConfigError(f"task {task.name} {said}")
            return Truth.from_json(shape(task).graph, records()[task.name].truth)

        return cls(task.name, lambda: task.causal_model.classes is None, truth)

    @cached_property
    def truth(self) -> Truth:
        """The states of the network's nodes and edges."""
        return self.read_truth()

    @property
    def layers(self) -> int:
        """The number of layers of the network."""
        return self.truth.graph.n_layers


Holds = Callable[[Member], bool]
ALL = "all"
"""The name for everything."""
SMALL = 2
"""The largest number of layers of a small network; any other is deep."""
KINDS: dict[str, Holds] = {
    "trivial": lambda member: member.truth.trivial is not None,
    "nontrivial": lambda member: member.truth.trivial is None,
    "numerical": lambda member: member.numerical(),
    "categorical": lambda member: not member.numerical(),
    "small": lambda member: member.layers <= SMALL,
    "deep": lambda member: member.layers > SMALL,
}
"""The groups that have a name of their own; every file of the catalogue is one, too."""
SIZES: dict[str, Callable[[Member], int]] = {
    "depth": lambda member: member.layers,
    "edges": lambda member: len(member.truth.graph.edges),
    "required": lambda member: len(member.truth.required),
}
"""What groups can be bounded by: the number of layers, of q/k/v edges, and of required ones."""
REGIME = "regime:"
"""What begins the group of what is in a regime."""
_SIZED = re.compile(r"(\w+):([0-9]{0,9})(-?)([0-9]{0,9})")
HOW = (
    f"{', '.join(KINDS)}, a group of tasks, {REGIME}alive, or "
    f"{' '.join(f'{name}:2-5' for name in SIZES)}, joined by +"
)


def is_group(name: str) -> bool:
    """Returns whether a name can only mean a group, right or wrong."""
    of_tasks = name in files() and known_task(name) is None
    return "+" in name or ":" in name or name in KINDS or of_tasks


def files() -> set[str]:
    """Returns the names of the catalogue's files, each of which is a group of tasks."""
    return {task.group for task in catalogue().values()}


def in_group(name: str, members: Iterable[Member], what: str = "tasks") -> list[bool]:
    """Returns which of some tasks or models are in a group.

    Args:
        name: the terms of the group, joined by +.
        members: what is known of the tasks or models.
        what: what they are, in messages.

    Raises:
        ConfigError: if a term is none, or nothing is in the group.
    """
    members, terms = list(members), name.split("+")
    if "" in terms:
        raise ConfigError(f"{shown(name)!r}: a + stands between two groups; groups are {HOW}")
    holds = [_term(term) for term in terms]
    if not any(term.startswith(REGIME) for term in terms):
        holds.append(lambda member: not regimes_of(member.task))
    found = [all(one(member) for one in holds) for member in members]
    if not any(found):
        sizes = [size for size in SIZES if any(term.startswith(f"{size}:") for term in terms)]
        tasks_in_regimes = what == "tasks" and any(term.startswith(REGIME) for term in terms)
        raise ConfigError(
            f"none of {len(members)} {what} is in the group {shown(name)}"
            + ", of which all terms have to hold" * (len(terms) > 1)
            + "".join(f"; {size} is {_range(size, members)}" for size in sizes if members)
            + "; a task in a regime is written as hist[regime=alive]" * tasks_in_regimes
        )
    return found


def _range(size: str, members: list[Member]) -> str:
    sizes = [SIZES[size](member) for member in members]
    return f"{min(sizes)} to {max(sizes)}"


def _term(term: str) -> Holds:
    if term in KINDS:
        return KINDS[term]
    if term == ALL:
        return lambda _: True
    if term in files():
        return lambda member: _file(member) == term
    if term.startswith(REGIME):
        wanted = term.removeprefix(REGIME)
        if wanted not in regimes():
            near = did_you_mean(term, [f"{REGIME}{each}" for each in regimes()])
            raise ConfigError(f"{shown(term)} is no group{near}")
        return lambda member: wanted in regimes_of(member.task)
    sized = _SIZED.fullmatch(term)
    if sized is None or sized[1] not in SIZES or not (sized[2] or sized[4]):
        start, colon, _ = term.partition(":")
        if known_task(split_name(term)[0]) is not None:
            raise ConfigError(f"{shown(term)} is a task, and no group of them")
        near = did_you_mean(start, SIZES if colon else [*KINDS, *SIZES, *files()])
        if term in regimes() or term == "regimes":
            near = f"; did you mean {REGIME}{term if term in regimes() else 'alive'}?"
        if start in SIZES:
            near = f"; {start} is bounded by numbers, as in {start}:2, {start}:2-5, {start}:3- or {start}:-4"
        raise ConfigError(f"{shown(term)} is no group{near}; groups are {HOW}")
    size, low = SIZES[sized[1]], int(sized[2] or 0)
    high = int(sized[4]) if sized[4] else None if sized[3] else low
    if high is not None and low > high:
        raise ConfigError(f"{term}: {low} is more than {high}; {sized[1]}:{high}-{low} is a group")
    return lambda member: low <= size(member) and (high is None or size(member) <= high)


def _file(member: Member) -> str | None:
    task = known_task(member.task) or known_task(split_name(member.task)[0])
    return None if task is None else task.group
