"""Ground truth: the state of every node and edge of a network, at three levels of detail."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Literal, NotRequired

import numpy as np
from pydantic import with_config
from typing_extensions import TypedDict

from interpbench.circuits.graph import Graph
from interpbench.circuits.naming import edge_ends, edge_name
from interpbench.core.config import STRICT
from interpbench.core.errors import CheckpointError
from interpbench.core.files import sha256
from interpbench.core.shown_values import data_frame, html_of
from interpbench.core.text import shown

Level = Literal["node", "head_edge", "qkv_edge"]


@with_config(STRICT)
class Names(TypedDict):
    """The names of the nodes or edges in each state; all others are forbidden."""

    required: list[str]
    allowed: list[str]
    free: NotRequired[list[str]]


@with_config(STRICT)
class TruthNames(TypedDict):
    """Truth as JSON: the names at each level."""

    node: Names
    head_edge: Names
    qkv_edge: Names


LEVELS: tuple[Level, ...] = ("node", "head_edge", "qkv_edge")


class State(IntEnum):
    """What truth says of a node or an edge."""

    ILLEGAL = -1
    FORBIDDEN = 0
    """Outside the circuit: patching it must change nothing."""
    ALLOWED = 1
    """In the program's graph, but without effect on any output of the domain."""
    REQUIRED = 2
    """Patching it changes an output somewhere in the domain."""
    FREE = 3
    """One of the three inputs of a head for what the program reads without saying through which: nothing is
    asked of it alone, in training, certificates or scores. Only q/k/v edges are ever free."""


SHOWN = (State.REQUIRED, State.FREE, State.ALLOWED, State.FORBIDDEN)
"""The states that are counted where a truth is shown, in this order."""
MOST_SHOWN = 12
"""Required edges that the `repr` of a truth names; of more it names some."""


@dataclass(frozen=True)
class Truth:
    """States `[writer]`, `[destination, writer]` and `[reader, writer]`, as int8 `State` values.

    The embedding is a node of the circuit if the program reads it at all; a method that returns no
    score for it is not asked for one, since every level is scored over what is legal there.
    """

    graph: Graph
    nodes: np.ndarray
    head_edges: np.ndarray
    qkv_edges: np.ndarray

    def at(self, level: Level) -> np.ndarray:
        """Returns the states of one level."""
        return {"node": self.nodes, "head_edge": self.head_edges, "qkv_edge": self.qkv_edges}[level]

    @property
    def inert(self) -> np.ndarray:
        """`[reader, writer]` bool: q/k/v edges that must do nothing, the forbidden and the allowed ones.

        An edge of the program that changes nothing on the domain must change nothing in the network either,
        or the network uses it for something else (a query input that reads positions in the program could
        read tokens in the network).
        """
        return (self.qkv_edges == State.FORBIDDEN) | (self.qkv_edges == State.ALLOWED)

    @property
    def circuit(self) -> np.ndarray:
        """`[reader, writer]` bool: the q/k/v edges that are required or free, which together do the task."""
        return np.isin(self.qkv_edges, (State.REQUIRED, State.FREE))

    def count(self, level: Level, state: State) -> int:
        """Returns how many nodes or edges are in `state`."""
        return int((self.at(level) == state).sum())

    def names(self, level: Level, state: State) -> list[str]:
        """Returns the names of the nodes or edges in `state`."""
        return level_names(self.graph, level, self.at(level) == state)

    @property
    def trivial(self) -> str | None:
        """Why the circuit is trivial, if only one node is needed between embedding and output."""
        edges = self.names("head_edge", State.REQUIRED)
        between = {end for edge in edges for end in edge_ends(edge)} - {"embed", "logits"}
        return f"{between.pop()} alone computes the output from the embedding" if len(between) == 1 else None

    @property
    def headline(self) -> Level:
        """The level at which methods are compared: q/k/v edges, or head edges where some of those are free.

        Free edges are not scored one by one, so that next to nothing may be left to score at their level.
        """
        return "head_edge" if (self.qkv_edges == State.FREE).any() else "qkv_edge"

    @property
    def required(self) -> list[str]:
        """The names of the edges that a method has to find.

        They are the required q/k/v edges, and those required head edges of which the program leaves free
        through which of q, k and v they are read (`open_edges`).
        """
        return list(required_edges(self))

    def __repr__(self) -> str:
        lines: list[str] = []
        for level, title in zip(LEVELS, ("nodes", "head edges", "q/k/v edges")):
            counts = [(self.count(level, state), state.name.lower()) for state in SHOWN]
            lines.append(f"  {title}: {', '.join(f'{count:,} {name}' for count, name in counts if count)}")
        names = self.required
        some = names if len(names) <= MOST_SHOWN else [*names[: MOST_SHOWN - 1], f"{len(names):,} in all"]
        return "\n".join(["Truth", *lines, f"  required: {', '.join(some)}"])

    def _repr_html_(self) -> str | None:
        return html_of(self)

    def to_pandas(self, level: Level = "qkv_edge") -> Any:
        """Returns a `pandas.DataFrame` of a level: the name and the state of each node or edge.

        Raises:
            ImportError: if pandas is not installed.
        """
        names = level_names(self.graph, level, self.at(level) != State.ILLEGAL)
        states = self.at(level)[self.at(level) != State.ILLEGAL]
        return data_frame({"name": names, "state": [State(state).name.lower() for state in states.tolist()]})

    @property
    def sha256(self) -> str:
        """Identifies this truth: SHA-256 of its JSON without spaces, keys in the order of the alphabet."""
        return sha256(json.dumps(self.to_json(), sort_keys=True, separators=(",", ":")).encode())

    def to_json(self) -> TruthNames:
        """Returns the names of required, allowed and, if there are any, free edges; the rest is forbidden."""
        node, head_edge, qkv_edge = (
            Names(required=self.names(level, State.REQUIRED), allowed=self.names(level, State.ALLOWED))
            for level in LEVELS
        )
        if (self.qkv_edges == State.FREE).any():
            qkv_edge["free"] = self.names("qkv_edge", State.FREE)
        return TruthNames(node=node, head_edge=head_edge, qkv_edge=qkv_edge)

    @classmethod
    def empty(cls, graph: Graph) -> "Truth":
        """Returns a truth in which everything that exists is forbidden."""
        return cls(
            graph,
            np.zeros(len(graph.nodes), np.int8),
            np.where(graph.legal_head_edges, 0, -1).astype(np.int8),
            np.where(graph.legal, 0, -1).astype(np.int8),
        )

    @classmethod
    def from_json(cls, graph: Graph, data: TruthNames) -> "Truth":
        """Reads what `to_json` wrote; what it costs depends on the names that there are.

        Raises:
            CheckpointError: if a name does not belong to the graph, or comes twice.
        """
        truth = cls.empty(graph)
        for level in LEVELS:
            states, place_of = truth.at(level), _places(graph, level)
            for state in (State.REQUIRED, State.ALLOWED, State.FREE):
                for name in data[level].get(state.name.lower(), ()):
                    place = place_of(name)
                    if place is None or states[place] == State.ILLEGAL:
                        raise CheckpointError(
                            f"truth names {shown(name)!r}, which this network does not have"
                        )
                    if states[place] != State.FORBIDDEN:
                        raise CheckpointError(f"truth names {shown(name)!r} twice at level {level}")
                    states[place] = state
        return truth

    def consistent(self) -> "Truth":
        """Returns the truth itself, if its levels agree.

        A head edge is forbidden just if each of its q/k/v edges is, and required if one of them is; a node
        that is forbidden has no edge that is not.

        Raises:
            CheckpointError: if they contradict each other, naming an edge where they do.
        """
        graph = self.graph
        inside = self.qkv_edges > State.FORBIDDEN
        required = graph.merge(self.qkv_edges == State.REQUIRED, False)
        wrong = (graph.merge(inside, False) != (self.head_edges > State.FORBIDDEN)) | (
            required & (self.head_edges != State.REQUIRED)
        )
        inner = {str(node): self.nodes[index] > State.FORBIDDEN for node, index in graph.node_index.items()}
        ends = np.array([inner.get(name, True) for name in graph.destinations])
        wrong |= (self.head_edges > State.FORBIDDEN) & ~(ends[:, None] & (self.nodes > State.FORBIDDEN)[None])
        if wrong.any():
            target, writer = np.argwhere(wrong)[0]
            name = edge_name(graph.nodes[writer], graph.destinations[target])
            raise CheckpointError(f"truth contradicts itself: its levels say different things of {name}")
        return self


def level_names(graph: Graph, level: Level, where: np.ndarray) -> list[str]:
    """Returns the names of some nodes or edges, in the order of the graph.

    Args:
        graph: whose nodes and edges.
        level: which of them.
        where: bool, `[writer]`, `[destination, writer]` or `[reader, writer]`: those that are named.
    """
    if level == "node":
        return [str(graph.nodes[w]) for (w,) in np.argwhere(where)]
    targets = graph.destinations if level == "head_edge" else list(map(str, graph.readers))
    return [edge_name(graph.nodes[w], targets[r]) for r, w in np.argwhere(where)]


def open_edges(truth: Truth) -> dict[str, np.ndarray]:
    """Returns required head edges that no single q/k/v edge stands for: name to mask `[reader, writer]`."""
    graph = truth.graph
    masks: dict[str, np.ndarray] = {}
    for place, writer in np.argwhere(truth.head_edges == State.REQUIRED):
        mask = np.zeros(graph.legal.shape, bool)
        mask[graph.reader_destination == place, writer] = True
        slots = set(truth.qkv_edges[mask].tolist())
        if State.FREE in slots and State.REQUIRED not in slots:
            masks[edge_name(graph.nodes[writer], graph.destinations[place])] = mask
    return masks


def required_edges(truth: Truth) -> dict[str, np.ndarray]:
    """Returns required q/k/v edges, and the head edges in `open_edges`: name to mask `[reader, writer]`."""
    graph = truth.graph
    masks: dict[str, np.ndarray] = {}
    for reader, writer in np.argwhere(truth.qkv_edges == State.REQUIRED):
        mask = np.zeros(graph.legal.shape, bool)
        mask[reader, writer] = True
        masks[edge_name(graph.nodes[writer], graph.readers[reader])] = mask
    return masks | open_edges(truth)


def _places(graph: Graph, level: Level) -> Callable[[str], tuple[int, ...] | None]:
    """Returns a function from a name of a level to its place in the states, None for a name that is none."""
    writers = {str(node): index for index, node in enumerate(graph.nodes)}
    if level == "node":
        return lambda name: (writers[name],) if name in writers else None
    ends = graph.destinations if level == "head_edge" else map(str, graph.readers)
    targets = {name: index for index, name in enumerate(ends)}

    def place_of(name: str) -> tuple[int, ...] | None:
        source, target = edge_ends(name)
        return (targets[target], writers[source]) if source in writers and target in targets else None

    return place_of
