"""The regime `redundant`: a variable has several copies on different nodes, and its readers take their vote.

A method that patches one node or edge at a time sees nothing of such copies: two others outvote it.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from interpbench.causal.model import CausalModel, Intervention, Variable
from interpbench.circuits.naming import EMBED, Node
from interpbench.core import seeds
from interpbench.core.config import STRICT
from interpbench.core.errors import TaskError, UnknownNameError
from interpbench.tasks.model_settings import ModelSettings
from interpbench.tasks.regimes.bystanders import Unit, units_of
from interpbench.tasks.regimes.regime import RegimeTask, network_of, regime
from interpbench.tasks.shapes import shape
from interpbench.tasks.task import Task

COPY = "#"
"""What stands between the name of a variable and the number of its copy, from 2."""


PAIRS = 2_000
"""The number of pairs of inputs on which a variable has to change the output, to be worth copying."""


@regime("redundant")
@dataclass(frozen=True, config=STRICT)
class Redundant:
    """The variables of one node are computed at several, and whoever reads them takes the vote.

    The vote of categories is the most frequent value, and of equally frequent ones that of the earliest copy;
    the vote of numbers is their median.

    Attributes:
        copies: the number of copies, an odd one, so that one cannot block the vote.
        variable: a variable of the node; `first` for the first one that only MLPs read.
    """

    copies: Annotated[int, Field(ge=3, le=9)] = 3
    variable: str = "first"

    def __call__(self, task: Task) -> RegimeTask:
        """Copies the node's variables to nodes of their own, and makes room for them."""
        if task.crowd is not None:
            raise TaskError(f"task {task.name} is alive already; regime=redundant comes before regime=alive")
        if any(COPY in name for name in task.causal_model.variables):
            raise TaskError(f"task {task.name} is redundant already")
        if self.copies % 2 == 0:
            raise TaskError(f"regime redundant: copies={self.copies} is even; use {self.copies + 1}")
        unit = self._unit(task)
        nodes, n_layers, n_heads = _places(task, unit.home, self.copies)
        alone = shape(task)
        network = ModelSettings(
            n_layers=max(alone.n_layers, n_layers), n_heads=max(alone.n_heads, n_heads), d_model=alone.d_model
        )
        model = task.causal_model
        variables = copied(
            list(model.variables.values()), {each.name for each in unit.variables}, self.copies
        )
        return RegimeTask(
            base=task,
            build=lambda: CausalModel(variables, model.output),
            vocab=task.vocab,
            length=task.length,
            attention=task.attention,
            domain=task.domain,
            alignment={
                variable.name: str(nodes[place])
                for variable in variables
                if (place := _place(task, variable.name))[0] != EMBED
            },
            network=network_of(task, network),
            added=(
                f"{', '.join(variable.name for variable in unit.variables)}: {self.copies} copies, of which "
                "readers take the vote",
            ),
        )

    def _unit(self, task: Task) -> Unit:
        """Returns the node's variables.

        Raises:
            InterpBenchError: if there is no such variable, or its readers cannot take a vote.
        """
        units, output = units_of(task), task.causal_model.output
        variables = task.causal_model.variables.values()

        def can(unit: Unit) -> bool:
            """Returns whether only MLPs read a unit: a vote is not linear, as what heads read off keys is."""
            own = {variable.name for variable in unit.variables}
            slots = {read.slot for variable in variables for read in variable.reads if read.parent in own}
            return slots == {"mlp"} and output not in own and _matters(task, own)

        fit = {variable.name: unit for unit in units if can(unit) for variable in unit.variables}
        if not fit:
            raise TaskError(
                f"task {task.name} has no variable that only MLPs read and that matters, to make it redundant"
            )
        if self.variable == "first":
            return next(iter(fit.values()))
        if self.variable not in fit:
            raise UnknownNameError(f"variable of task {task.name} that only MLPs read", self.variable, fit)
        return fit[self.variable]


def _matters(task: Task, names: set[str]) -> bool:
    """Returns whether swapping variables together changes the output on some of `PAIRS` pairs of inputs."""
    rng, model = seeds.generator(0, "redundant", task.name), task.causal_model
    base = task.domain.draw(rng, PAIRS)
    source, clean = model.run(task.domain.sources(rng, base)), model.run(base)
    swaps = {name: Intervention(source[name], np.ones(PAIRS, bool)) for name in names}
    return bool(model.effective(clean, model.run(base, swaps, clean=clean)).any())


def copied(variables: Sequence[Variable], names: set[str], copies: int) -> list[Variable]:
    """Returns variables with copies of some, and with readers that take the vote of all copies.

    Args:
        variables: the variables, parents first.
        names: the names of those that are copied.
        copies: the number of copies, the variable itself among them.
    """
    made: list[Variable] = []
    for variable in variables:
        counts = [copies if read.parent in names else 1 for read in variable.reads]
        reads = tuple(
            replace(read, parent=copy_name(read.parent, number))
            for read, count in zip(variable.reads, counts)
            for number in range(1, count + 1)
        )
        voting = replace(
            variable,
            reads=reads,
            mechanism=_of_votes(variable.mechanism, counts),
            attends=None if variable.attends is None else _of_votes(variable.attends, counts),
        )
        numbers = range(1, copies + 1) if variable.name in names else (1,)
        made += [replace(voting, name=copy_name(variable.name, number)) for number in numbers]
    return made


def copy_name(name: str, number: int) -> str:
    """Returns the name of a variable's copy; that of the first is the variable's own."""
    return name if number == 1 else f"{name}{COPY}{number}"


def _of_votes(mechanism: Callable[..., np.ndarray], counts: Sequence[int]) -> Callable[..., np.ndarray]:
    """Returns a mechanism that takes the vote of each argument's copies.

    Args:
        mechanism: the mechanism.
        counts: the number of copies of each of its arguments.
    """
    if set(counts) <= {1}:
        return mechanism
    ends = np.cumsum(counts).tolist()

    def voted(*values: np.ndarray) -> np.ndarray:
        return mechanism(*(vote(values[end - count : end]) for count, end in zip(counts, ends)))

    return voted


def vote(values: Sequence[np.ndarray]) -> np.ndarray:
    """Returns the vote of copies, codes or numbers of the same shape.

    It is the most frequent code, and of equally frequent ones that of the earliest copy; of numbers the
    median, where None counts as more than any number.
    """
    if len(values) == 1:
        return values[0]
    stacked = np.stack(values)
    if stacked.dtype.kind == "f":
        middle = np.median(np.where(np.isnan(stacked), np.inf, stacked), axis=0)
        return np.where(np.isinf(middle), np.nan, middle)
    votes = (stacked[:, None] == stacked[None]).sum(1)
    return np.take_along_axis(stacked, votes.argmax(0)[None], 0)[0]


def _place(task: Task, name: str) -> tuple[Node, int]:
    """Returns the home of the variable that one is a copy of, and the number of the copy."""
    original, _, number = name.partition(COPY)
    return task.default_alignment[original], int(number or 1)


def _places(task: Task, home: Node, copies: int) -> tuple[dict[tuple[Node, int], Node], int, int]:
    """Returns the node of each home and copy, and how many layers and heads that takes.

    Copies of a head are the next free heads of its layer. Copies of an MLP are the MLPs of as many layers,
    which move all that comes later.
    """
    homes = [unit.home for unit in units_of(task)]
    shift = copies - 1 if home.head is None else 0
    taken = {each.head for each in homes if each.layer == home.layer and each.head is not None}
    free = iter(head for head in range(len(taken) + copies) if head not in taken)
    places = {(each, 1): Node(each.layer + shift * (each.layer > home.layer), each.head) for each in homes}
    for number in range(2, copies + 1):
        head = None if home.head is None else next(free)
        places[home, number] = Node(home.layer + (number - 1 if head is None else 0), head)
    layers, heads = zip(*((node.layer, node.head or 0) for node in places.values()))
    return places, 1 + max(layers), 1 + max(heads)
