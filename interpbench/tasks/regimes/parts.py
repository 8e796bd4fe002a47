"""Variables in parts: those of one node are spread over several nodes, and whoever reads them joins them.

Only MLPs can join parts, as what a head reads is linear in each of them. So this is for variables that MLPs
alone read.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from interpbench.causal.model import CausalModel, Intervention, Read, Variable
from interpbench.circuits.naming import EMBED, Node
from interpbench.core import seeds
from interpbench.core.errors import NoPlaceError, TaskError, UnknownNameError
from interpbench.tasks.model_settings import ModelSettings
from interpbench.tasks.regimes.bystanders import Unit, units_of
from interpbench.tasks.regimes.regime import RegimeTask, derived
from interpbench.tasks.shapes import shape
from interpbench.tasks.task import Task

PART = "#"
"""What stands between the name of a variable and the number of its part."""
FIRST = "first"
"""What stands for the first variable that can be in parts."""
WIDER = 2
"""How many times as wide the residual stream is as that of the task alone. With twice the width a network of
`differs_from_both_neighbours[regime=redundant]` was certified after 3,000 steps, with the same width after
4,800."""
PAIRS = 2_000
"""The number of pairs of inputs on which a variable has to change the output, to be worth the trouble."""
Join = Callable[[str], Callable[..., np.ndarray]]
"""The type of functions from a variable's name to how it is joined: a function from its parts' values, and
those of what is read besides, to its own."""


def unit_in_parts(task: Task, regime: str, variable: str, of_mlp: bool = False) -> Unit:
    """Returns the variables of a node that can be in parts: MLPs alone read them, and they matter.

    Args:
        task: the task.
        regime: the name of the regime, in messages.
        variable: a variable of the node, or `FIRST`.
        of_mlp: whether only the variables of an MLP can be.

    Raises:
        InterpBenchError: if there is no such variable, or it cannot be in parts.
    """
    if task.crowd is not None:
        raise TaskError(f"task {task.name} is alive already; regime={regime} comes before regime=alive")
    output, names = task.causal_model.output, task.causal_model.variables
    variables = names.values()

    def can(unit: Unit) -> bool:
        own = {each.name for each in unit.variables}
        slots = {read.slot for each in variables for read in each.reads if read.parent in own}
        fits = slots == {"mlp"} and output not in own and not (of_mlp and unit.home.head is not None)
        return fits and not any(f"{name}{PART}2" in names for name in own) and _matters(task, own)

    fit = {each.name: unit for unit in units_of(task) if can(unit) for each in unit.variables}
    if not fit:
        raise NoPlaceError(
            f"task {task.name} has no variable for regime={regime}: one that only MLPs read and that matters"
        )
    if variable == FIRST:
        return next(iter(fit.values()))
    if variable not in fit:
        raise UnknownNameError(f"variable of task {task.name} for regime={regime}", variable, fit)
    return fit[variable]


def _matters(task: Task, names: set[str]) -> bool:
    """Returns whether swapping variables together changes the output on some of `PAIRS` pairs of inputs."""
    rng, model = seeds.generator(0, "redundant", task.name), task.causal_model
    base = task.domain.draw(rng, PAIRS)
    source, clean = model.run(task.domain.sources(rng, base)), model.run(base)
    swaps = {name: Intervention(source[name], np.ones(PAIRS, bool)) for name in names}
    return bool(model.effective(clean, model.run(base, swaps, clean=clean)).any())


def in_parts(
    task: Task,
    unit: Unit,
    parts_of: Callable[[Variable], Sequence[Variable]],
    join: Join,
    said: str,
    besides: tuple[Read, ...] = (),
) -> RegimeTask:
    """Returns a task in which the variables of a node are in parts, each part on a node of its own.

    The parts of a head are the next free heads of its layer. Those of an MLP are the MLPs of as many layers,
    which move all that comes later.

    Args:
        task: the task.
        unit: the variables of the node.
        parts_of: returns the parts of each variable, which reads what is in parts as any other does.
        join: returns, for a variable's name, how its values come from those of its parts and of `besides`.
        said: what the listing says of it.
        besides: what readers read besides, to join the parts.
    """
    parts: dict[str, Sequence[Variable]] = {}
    variables: list[Variable] = []
    for variable in task.causal_model.variables.values():
        reading = _joining(variable, parts, join, besides)
        if variable in unit.variables:
            parts[variable.name] = parts_of(reading)
            variables += parts[variable.name]
        else:
            variables.append(reading)
    count = max(map(len, parts.values()))
    nodes, n_layers, n_heads = _places(task, unit.home, count)
    alone, homes = shape(task), task.homes
    placed = {name: (homes[name], 1) for name in task.causal_model.variables if name not in parts}
    placed |= {part.name: (unit.home, 1 + at) for some in parts.values() for at, part in enumerate(some)}
    return derived(
        task,
        lambda: CausalModel(variables, task.causal_model.output),
        {name: str(nodes[place]) for name, place in placed.items() if place[0] != EMBED},
        ModelSettings(
            n_layers=max(alone.n_layers, n_layers),
            n_heads=max(alone.n_heads, n_heads),
            d_model=WIDER * alone.d_model,
        ),
        (f"{', '.join(parts)}: {said}",),
    )


def _joining(
    variable: Variable, parts: dict[str, Sequence[Variable]], join: Join, besides: tuple[Read, ...]
) -> Variable:
    """Returns a variable that reads the parts of what is in parts."""
    groups = [
        [replace(read, parent=part.name) for part in parts[read.parent]] + list(besides)
        if read.parent in parts
        else [read]
        for read in variable.reads
    ]
    if not any(read.parent in parts for read in variable.reads):
        return variable

    def with_parts(mechanism: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
        def run(*values: np.ndarray) -> np.ndarray:
            rest, given = iter(values), []
            for group, read in zip(groups, variable.reads):
                mine = [next(rest) for _ in group]
                given.append(join(read.parent)(*mine) if read.parent in parts else mine[0])
            return mechanism(*given)

        return run

    return replace(
        variable,
        reads=tuple(read for group in groups for read in group),
        mechanism=with_parts(variable.mechanism),
        attends=None if variable.attends is None else with_parts(variable.attends),
    )


def _places(task: Task, home: Node, count: int) -> tuple[dict[tuple[Node, int], Node], int, int]:
    """Returns the node of each home and part, and how many layers and heads that takes."""
    homes = [unit.home for unit in units_of(task)]
    shift = count - 1 if home.head is None else 0
    taken = {each.head for each in homes if each.layer == home.layer and each.head is not None}
    free = iter(head for head in range(len(taken) + count) if head not in taken)
    places = {(each, 1): Node(each.layer + shift * (each.layer > home.layer), each.head) for each in homes}
    for number in range(2, count + 1):
        head = None if home.head is None else next(free)
        places[home, number] = Node(home.layer + (number - 1 if head is None else 0), head)
    layers, heads = zip(*((node.layer, node.head or 0) for node in places.values()))
    return places, 1 + max(layers), 1 + max(heads)
