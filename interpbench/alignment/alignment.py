"""Alignment: the node of a network that carries each variable of a program.

By default it is that of the network that Tracr compiles; a task or a user can override it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from interpbench.causal.model import Read
from interpbench.circuits.graph import Graph
from interpbench.circuits.naming import EMBED, SLOTS, Node, Reader, parse_node
from interpbench.core.errors import TaskError, UnknownNameError
from interpbench.tasks.regimes.bystanders import base_name
from interpbench.tasks.task import Task


@dataclass(frozen=True)
class Alignment:
    """The node of every variable of a task, in a network of some graph.

    If a node carries several variables (such as an MLP that computes two maps), swapping its activation must
    act like swapping all of them together. An input variable is at the embedding, or at an MLP that carries
    it to the nodes that read it.

    Attributes:
        task: the task.
        graph: the graph of the network.
        nodes: the node of each variable, by the variable's name.
    """

    task: Task
    graph: Graph
    nodes: Mapping[str, Node]

    @cached_property
    def aligned_nodes(self) -> dict[Node, tuple[str, ...]]:
        """The variables of each node that has any, in layer order, without the embedding."""
        order = [node for node in self.graph.nodes if node != EMBED and node in self.nodes.values()]
        return {node: self.variables_at(node) for node in order}

    @cached_property
    def carried(self) -> dict[Node, tuple[str, ...]]:
        """What each node but the embedding carries: its variables, or those that a bystander copies."""
        carried = dict(self.aligned_nodes)
        copies = {} if self.task.crowd is None else self.task.crowd.homes
        for name, node in copies.items():
            if node != EMBED and node not in self.aligned_nodes:
                carried[node] = (*carried.get(node, ()), base_name(name))
        return carried

    def variables_at(self, node: Node) -> tuple[str, ...]:
        """Returns the variables that a node carries."""
        return tuple(name for name, place in self.nodes.items() if place == node)

    @cached_property
    def unaligned_nodes(self) -> tuple[Node, ...]:
        """The nodes that carry no variable; the embedding always belongs to the circuit."""
        return tuple(node for node in self.graph.nodes if node != EMBED and node not in self.aligned_nodes)

    @cached_property
    def relay_nodes(self) -> tuple[Node, ...]:
        """The MLPs that carry an input variable to the nodes that read it."""
        causal_model = self.task.causal_model
        places = [node for name, node in self.nodes.items() if not causal_model.variables[name].reads]
        return tuple(node for node in self.graph.nodes if node != EMBED and node in places)

    def readers(self, variable: str, read: Read) -> tuple[Reader, ...]:
        """Returns the readers through which a variable's node may read a parent: one, or a head's three."""
        node = self.nodes[variable]
        slots = SLOTS if read.slot is None else (read.slot,)
        return tuple(Reader(node.layer, slot, node.head) for slot in slots)

    @property
    def logits(self) -> Reader:
        """The reader of the logits."""
        return Reader(self.graph.n_layers, "logits")


def align(task: Task, graph: Graph, overrides: Mapping[str, str] | None = None) -> Alignment:
    """Returns the alignment of a task with a network.

    Args:
        task: the task; its `alignment` overrides that of the network that Tracr compiles.
        graph: the graph of the network.
        overrides: nodes of variables, by name (`{"frac_prevs": "a1.h2"}`), which override both.

    Raises:
        TaskError: if a node does not exist, an attention variable is at an MLP (or the reverse), or the node
            of a variable comes before, or is, that of a variable that it reads.
        UnknownNameError: if there is no variable of a name in `overrides`.
    """
    nodes = dict(task.default_alignment)
    for name, text in {**task.alignment, **(overrides or {})}.items():
        if name not in nodes:
            raise UnknownNameError(f"variable of task {task.name}", name, nodes)
        nodes[name] = parse_node(text)
        if not task.causal_model.variables[name].reads and nodes[name].head is not None:
            raise TaskError(
                f"task {task.name}: {name} is an input and cannot be at {nodes[name]}; align it with embed "
                "or an MLP"
            )
    alignment = Alignment(task, graph, nodes)
    for name, node in nodes.items():
        if node not in graph.node_index:
            raise TaskError(
                f"task {task.name}: {name} is at {node}, but the network has {graph.n_layers} layers of "
                f"{graph.n_heads} heads; change the alignment of {name}, model.n_layers or model.n_heads"
            )
        for read in task.causal_model.variables[name].reads:
            reader = alignment.readers(name, read)[0]
            if reader not in graph.reader_index:
                kind = "an MLP" if reader.slot == "mlp" else "a head"
                raise TaskError(
                    f"task {task.name}: {name} is at {node}, which has no input {reader.slot!r}; "
                    f"align it with {kind}"
                )
            if graph.node_index[nodes[read.parent]] >= graph.writers_before(reader):
                raise TaskError(
                    f"task {task.name}: {name} at {node} cannot read {read.parent} at {nodes[read.parent]}, "
                    f"which does not come before {node}; change alignment.{name} or alignment.{read.parent}"
                )
    return alignment
