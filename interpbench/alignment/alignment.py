"""Alignment: which node carries which variables. By default Tracr's, overridable per task."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from interpbench.causal.model import Read
from interpbench.circuits.graph import Graph
from interpbench.circuits.naming import EMBED, SLOTS, Node, Reader, parse_node
from interpbench.core.errors import TaskError, UnknownNameError
from interpbench.tasks.task import Task


@dataclass(frozen=True)
class Alignment:
    """Variable to node, total and legal.

    A node that carries several variables (an MLP that computes two maps) is intervened on as one:
    swapping its activation must act like swapping all of them together. An input variable is at the
    embedding, or at an MLP that carries it to whatever reads it.
    """

    task: Task
    graph: Graph
    nodes: Mapping[str, Node]

    @cached_property
    def aligned_nodes(self) -> dict[Node, tuple[str, ...]]:
        """Node to its variables, in layer order, without the embedding, which is the input itself."""
        order = [node for node in self.graph.nodes if node != EMBED and node in self.nodes.values()]
        return {node: self.variables_at(node) for node in order}

    def variables_at(self, node: Node) -> tuple[str, ...]:
        """Returns the variables that a node carries."""
        return tuple(name for name, place in self.nodes.items() if place == node)

    @cached_property
    def unaligned_nodes(self) -> tuple[Node, ...]:
        """The nodes that carry no variable; the embedding always belongs to the circuit."""
        return tuple(node for node in self.graph.nodes if node != EMBED and node not in self.aligned_nodes)

    @cached_property
    def relay_nodes(self) -> tuple[Node, ...]:
        """The MLPs that only relay an input variable to whatever reads it."""
        causal_model = self.task.causal_model
        places = [node for name, node in self.nodes.items() if not causal_model.variables[name].reads]
        return tuple(node for node in self.graph.nodes if node != EMBED and node in places)

    def readers(self, variable: str, read: Read) -> tuple[Reader, ...]:
        """Returns the readers through which `variable`'s node may read: one, or a head's three."""
        node = self.nodes[variable]
        slots = SLOTS if read.slot is None else (read.slot,)
        return tuple(Reader(node.layer, slot, node.head) for slot in slots)

    @property
    def logits(self) -> Reader:
        """The sink."""
        return Reader(self.graph.n_layers, "logits")


def align(task: Task, graph: Graph, overrides: Mapping[str, str] | None = None) -> Alignment:
    """Aligns a task with a network of this graph.

    Args:
        task: the task; its own `alignment` overrides Tracr's.
        graph: the graph of the low-level network.
        overrides: variable to node name, over both.

    Raises:
        TaskError: if a node does not exist, an attention variable is at an MLP (or the reverse), or a
            variable could not read what it needs.
        UnknownNameError: if an override names no variable.
    """
    nodes = dict(task.default_alignment)
    for name, text in {**task.alignment, **(overrides or {})}.items():
        if name not in nodes:
            raise UnknownNameError(f"variable of task {task.name}", name, nodes)
        nodes[name] = parse_node(text)
        if not task.causal_model.variables[name].reads and nodes[name].head is not None:
            raise TaskError(f"task {task.name}: {name} is an input, at embed or an MLP, not at {nodes[name]}")
    alignment = Alignment(task, graph, nodes)
    for name, node in nodes.items():
        if node not in graph.node_index:
            raise TaskError(
                f"task {task.name}: {name} is at {node}, but the network has {graph.n_layers} layers of "
                f"{graph.n_heads} heads"
            )
        for read in task.causal_model.variables[name].reads:
            reader = alignment.readers(name, read)[0]
            if reader not in graph.reader_index:
                raise TaskError(f"task {task.name}: {name} reads by {reader.slot!r}, which {node} has not")
            if graph.node_index[nodes[read.parent]] >= graph.writers_before(reader):
                raise TaskError(
                    f"task {task.name}: {name} at {node} reads {read.parent} at {nodes[read.parent]}, "
                    "which comes too late"
                )
    return alignment
