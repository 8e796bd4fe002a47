"""Bystanders: copies of a program's variables on all nodes outside the circuit, which the output ignores.

In a network that is trained for its output alone, what the output does not need is dead, and the size of
weights or activations gives the circuit away. Here every node computes something. The nodes of the network
are filled with *units*, which are the variables that one node of the program carries. Each copy of a unit
reads copies of the units that it needs, so that whole circuits arise that compute the output several times.
One of them, drawn last and at random, is the circuit, whose output the logits give. As it is drawn from
copies that were made alike, nothing but what is read from the network's end tells it from the others.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from interpbench.causal.model import CausalModel, Read, Variable, has_value
from interpbench.causal.selection import positions, selected
from interpbench.circuits.graph import Graph
from interpbench.circuits.naming import EMBED, Node
from interpbench.core import seeds
from interpbench.core.errors import TaskError
from interpbench.tasks.task import CausalTask, Task

COPY = "~"
"""What stands between the name of a variable and the number of its copy."""
PLACES, PREVIOUS, CLASSES = "bystanders: place", "bystanders: previous token", "bystanders: class"
"""The variables of bystanders where a program has no unit that fits."""
N_CLASSES = 4
"""The number of classes of tokens."""


@dataclass(frozen=True)
class Unit:
    """The variables that one node of a program carries.

    Attributes:
        home: their node in the task's alignment.
        variables: the variables.
        parents: the other nodes whose variables they read, in layer order, without the embedding.
        filler: whether it is of no program, and `home` the node that it fills.
    """

    home: Node
    variables: tuple[Variable, ...]
    parents: tuple[Node, ...]
    filler: bool = False


@dataclass(frozen=True)
class Copy:
    """A copy of a unit.

    Attributes:
        unit: the unit.
        node: the copy's node in the network.
        reads: the copies that it reads, by their home.
    """

    unit: Unit
    node: Node
    reads: dict[Node, "Copy"]

    @cached_property
    def closure(self) -> dict[Node, "Copy"]:
        """This copy and all that it reads, directly or not: one copy of each unit, by its home."""
        found: dict[Node, Copy] = {}
        for copy in self.reads.values():
            found |= copy.closure
        return found | {self.unit.home: self}


@dataclass(frozen=True)
class Crowd:
    """A circuit among bystanders.

    Attributes:
        task: the task of all copies together; its causal model reads out all outputs and all copies that
            nothing else reads.
        circuit: the node of each variable of the program, by name.
    """

    task: CausalTask
    circuit: dict[str, str]


def crowd(task: Task, graph: Graph, seed: int, copies: int = 2) -> Crowd:
    """Fills a network with copies of a task's variables, and draws its circuit from those of its output.

    Args:
        task: the task.
        graph: the graph of the network.
        seed: the seed of what is drawn.
        copies: how many copies of every variable there have to be at least.

    Raises:
        TaskError: if there are fewer.
    """
    rng = seeds.generator(seed, "bystanders", task.name)
    units = units_of(task)
    made = _filled(units, graph, rng)
    fewest = min(len(_of(made, unit.home)) for unit in units)
    if fewest < copies:
        raise TaskError(
            f"task {task.name}: a network of {graph.n_layers} layers of {graph.n_heads} heads has room for "
            f"{fewest} copies of its variables, not {copies}; try model.n_layers={2 * graph.n_layers}"
        )
    output = task.homes[task.causal_model.output]
    ends = _of(made, output)
    end = ends[rng.integers(len(ends))]
    circuit = _with_unneeded(task, made, units, end.closure)
    chosen = {copy.node for copy in circuit.values()}
    names = {copy.node: "" if copy.node in chosen else f"{COPY}{copy.node}" for copy in made}
    return Crowd(_joint(task, made, names), _circuit(circuit))


def said_of(made: Crowd) -> list[str]:
    """Returns a line for each variable that bystanders carry: its name and their nodes."""
    nodes: dict[str, list[str]] = {}
    for name, node in made.task.alignment.items():
        if COPY in name:
            nodes.setdefault(name.partition(COPY)[0], []).append(node)
    return [f"{name} also at {' '.join(places)}, which the output ignores" for name, places in nodes.items()]


def copies_of(name: str, names: Iterable[str]) -> list[str]:
    """Returns, of the names of variables, that of a variable and those of its copies."""
    return [each for each in names if base_name(each) == name]


def base_name(name: str) -> str:
    """Returns the name of the variable that one is a copy of, or its own."""
    return name.partition(COPY)[0]


def units_of(task: Task) -> list[Unit]:
    """Returns the units of a task, in layer order, without the embedding's."""
    homes, variables = task.homes, task.causal_model.variables
    order = sorted({home for home in homes.values() if home != EMBED}, key=_layer_order)
    units: list[Unit] = []
    for home in order:
        carried = tuple(variables[name] for name, place in homes.items() if place == home)
        read = {homes[each.parent] for variable in carried for each in variable.reads}
        units.append(Unit(home, carried, tuple(sorted(read - {EMBED, home}, key=_layer_order))))
    return units


def _layer_order(node: Node) -> tuple[int, bool, int]:
    return node.layer, node.head is None, node.head or 0


def _filled(units: Sequence[Unit], graph: Graph, rng: np.random.Generator) -> list[Copy]:
    """Returns a copy for each node but the embedding: of the unit that fits and has the fewest copies so far.

    It reads the copies that the fewest others read. Draws decide between equals. Where no unit fits, the
    node gets a head that reads the previous token, or an MLP that sorts tokens into classes.
    """
    made: list[Copy] = []
    read_by: Counter[Node] = Counter()
    for node in graph.nodes[1:]:
        kind = [unit for unit in units if (unit.home.head is None) == (node.head is None)]
        before = [copy for copy in made if _comes_before(copy.node, node)]
        there = [
            (unit, reads) for unit in kind if (reads := _parents(unit, before, read_by, rng)) is not None
        ]
        there = there or [(_filler(node), {})]
        unit, reads = min(there, key=lambda each: (len(_of(made, each[0].home)), rng.random()))
        read_by.update(copy.node for copy in reads.values())
        made.append(Copy(unit, node, reads))
    return made


def _parents(
    unit: Unit, before: Sequence[Copy], read_by: Counter[Node], rng: np.random.Generator
) -> dict[Node, Copy] | None:
    """Returns the copies that a copy of a unit reads, by their home: those that the fewest others read.

    All that it reads, directly or not, is of the same copy of each unit.

    Args:
        unit: the unit.
        before: the copies that it can read.
        read_by: by how many copies each node is read.
        rng: the generator of draws between equals.

    Returns:
        The copies; None if there are none.
    """

    def chosen(homes: Sequence[Node], closure: dict[Node, Copy]) -> dict[Node, Copy] | None:
        """Returns copies of these homes that agree with a closure, and with one another."""
        if not homes:
            return {}
        some = [copy for copy in _of(before, homes[0]) if _agree(copy.closure, closure)]
        for copy in sorted(some, key=lambda each: (read_by[each.node], rng.random())):
            if (rest := chosen(homes[1:], closure | copy.closure)) is not None:
                return {homes[0]: copy, **rest}
        return None

    return chosen(unit.parents, {})


def _agree(some: dict[Node, Copy], others: dict[Node, Copy]) -> bool:
    """Returns whether two closures have the same copies of the units that both have."""
    return all(others[home] is copy for home, copy in some.items() if home in others)


def _comes_before(first: Node, second: Node) -> bool:
    """Returns whether a node can read another one."""
    same_layer = first.layer == second.layer and first.head is not None and second.head is None
    return first.layer < second.layer or same_layer


def _of(made: Sequence[Copy], home: Node) -> list[Copy]:
    return [copy for copy in made if copy.unit.home == home and not copy.unit.filler]


def _filler(node: Node) -> Unit:
    """Returns a unit of no program: the previous token for a head, or a class of tokens for an MLP."""
    if node.head is None:
        reads = (Read("tokens", "mlp"),)
        variable = Variable(CLASSES, reads, _classes, tuple(range(N_CLASSES)), "a class of the token")
    else:
        reads = (Read(PLACES, "q"), Read(PLACES, "k"), Read("tokens", "v"))
        variable = Variable(PREVIOUS, reads, _previous, None, "the previous token", _before)
    return Unit(node, (variable,), (), filler=True)


def _classes(tokens: np.ndarray) -> np.ndarray:
    return np.where(has_value(tokens), tokens % N_CLASSES, tokens)


def _before(query: np.ndarray, key: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    return (key[:, None, :] == query[:, :, None] - 1) & has_value(tokens)[:, None, :]


def _previous(query: np.ndarray, key: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    return selected(_before(query, key, tokens), tokens)


def _joint(task: Task, made: Sequence[Copy], names: dict[Node, str]) -> CausalTask:
    """Returns the task of all copies together."""
    model = task.causal_model
    inputs = [variable for variable in model.variables.values() if _at_embedding(task, variable)]
    variables, places, read = [*inputs, Variable(PLACES, (), positions, tuple(range(task.length)))], {}, set()
    for copy in made:
        for variable in copy.unit.variables:
            reads: list[Read] = []
            for each in variable.reads:
                home = task.homes.get(each.parent, EMBED)
                name = each.parent + ("" if home == EMBED else names[copy.reads[home].node])
                reads.append(replace(each, parent=name))
                read.add(name)
            values = task.vocab if variable.name == PREVIOUS else variable.values
            name = variable.name + names[copy.node]
            variables.append(replace(variable, name=name, reads=tuple(reads), values=values))
            places[name] = str(copy.node)
    ends = [name for name in places if name not in read and name != model.output]
    return CausalTask(
        name=f"{task.name}{COPY}",
        build=lambda: CausalModel(variables, model.output, ends),
        vocab=task.vocab,
        length=task.length,
        attention=task.attention,
        alignment=places,
        tolerance=task.tolerance,
        domain=task.domain,
    )


def _at_embedding(task: Task, variable: Variable) -> bool:
    return task.homes[variable.name] == EMBED


def _with_unneeded(
    task: Task, made: Sequence[Copy], units: Sequence[Unit], closure: dict[Node, Copy]
) -> dict[Node, Copy]:
    """Returns a circuit with a copy of each unit that its output does not need, by home.

    Raises:
        TaskError: if none of these copies reads what the circuit has.
    """
    circuit = dict(closure)
    for unit in units:
        if unit.home not in circuit:
            fit = [copy for copy in _of(made, unit.home) if _agree(copy.closure, circuit)]
            if not fit:
                raise TaskError(
                    f"task {task.name}: its output does not need {unit.variables[0].name}, of which no copy "
                    "fits the circuit; try another draw"
                )
            circuit |= fit[0].closure
    return circuit


def _circuit(circuit: dict[Node, Copy]) -> dict[str, str]:
    """Returns the node of each variable of a circuit, by name."""
    return {variable.name: str(copy.node) for copy in circuit.values() for variable in copy.unit.variables}
