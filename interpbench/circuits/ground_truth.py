"""Ground truth: the state of every node and edge of a network, at three levels of detail.

Letters of shapes: W writers (nodes), R readers, D destinations (readers, with q, k and v of a head merged).
"""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
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
"""A level of detail: nodes; edges with a head's q, k and v merged; edges with q, k and v apart."""


@with_config(STRICT)
class WitnessNames(TypedDict):
    """A witness as plain data; see `Witness`."""

    others: list[str]
    base: list[int]
    source: list[int]


@with_config(STRICT)
class Names(TypedDict):
    """The names of the required, allowed and free nodes or edges, and witnesses; all others are forbidden."""

    required: list[str]
    allowed: list[str]
    free: NotRequired[list[str]]
    witnesses: NotRequired[dict[str, WitnessNames]]


@with_config(STRICT)
class TruthNames(TypedDict):
    """Ground truth as plain data: the names at each level."""

    node: Names
    head_edge: Names
    qkv_edge: Names


LEVELS: tuple[Level, ...] = ("node", "head_edge", "qkv_edge")


class State(IntEnum):
    """The state of a node or an edge in the ground truth."""

    ILLEGAL = -1
    """The network has no such edge."""
    FORBIDDEN = 0
    """It is outside the circuit: patching it must change nothing."""
    ALLOWED = 1
    """It is in the program's graph, but patching it alone changes no output on the domain. If patching it
    together with others does, the truth has a witness for it."""
    REQUIRED = 2
    """Patching it changes the program's output somewhere in the domain."""
    FREE = 3
    """It is one of the q, k and v edges of a required head edge, and the program leaves open which of them is
    used: training, certificates and scores ask nothing of it alone. Only q/k/v edges can be free."""


SHOWN = (State.REQUIRED, State.FREE, State.ALLOWED, State.FORBIDDEN)
"""The states whose nodes and edges are counted in the `repr` of a truth, in this order."""
MOST_ORDER = 3
"""The highest order of being required that is looked for."""
MOST_SHOWN = 12
"""The largest number of required edges that the `repr` of a truth names."""


@dataclass(frozen=True)
class Witness:
    """That something matters once others are patched: these others, and a pair of inputs.

    Patching the others changes no output on this pair, and patching it together with them does. It is then
    *required of order k*, k being their number.

    Attributes:
        others: the names of the others.
        base: the input, as codes of its tokens.
        source: the input that they are patched from.
    """

    others: tuple[str, ...]
    base: tuple[int, ...]
    source: tuple[int, ...]

    @property
    def order(self) -> int:
        """The number of others."""
        return len(self.others)


@dataclass(frozen=True)
class Truth:
    """The ground truth of a network: the state of each node and edge, as int8 values of `State`.

    The embedding is a node of the circuit if the program reads it at all.

    Attributes:
        graph: the network's graph.
        nodes: the states of nodes, `[W]`.
        head_edges: the states of edges with q, k and v merged, `[D, W]`.
        qkv_edges: the states of edges with q, k and v apart, `[R, W]`.
        witnesses: for each level, a witness of each allowed node or edge that is required of some order from
            1 to 3, by name. Where the program leaves open which of a head's inputs is used, the name is that
            of the head edge at the level of q/k/v edges, too.
    """

    graph: Graph
    nodes: np.ndarray
    head_edges: np.ndarray
    qkv_edges: np.ndarray
    witnesses: Mapping[Level, Mapping[str, Witness]] = field(
        default_factory=dict[Level, Mapping[str, Witness]]
    )

    def at(self, level: Level) -> np.ndarray:
        """Returns the states of one level."""
        return {"node": self.nodes, "head_edge": self.head_edges, "qkv_edge": self.qkv_edges}[level]

    @property
    def inert(self) -> np.ndarray:
        """The forbidden and allowed q/k/v edges, of which patching must change nothing, bool `[R, W]`.

        An allowed edge changes nothing in the program; if it changed anything in the network, the network
        would use it for something else. (A query that reads positions in the program could read tokens in
        the network.)
        """
        return (self.qkv_edges == State.FORBIDDEN) | (self.qkv_edges == State.ALLOWED)

    @property
    def circuit(self) -> np.ndarray:
        """The q/k/v edges that are required (of any order) or free, which do the task, bool `[R, W]`."""
        circuit = np.isin(self.qkv_edges, (State.REQUIRED, State.FREE))
        for name in self.witnesses.get("qkv_edge", ()):
            circuit |= edge_mask(self.graph, name)
        return circuit

    def count(self, level: Level, state: State) -> int:
        """Returns the number of nodes or edges in a state."""
        return int((self.at(level) == state).sum())

    def names(self, level: Level, state: State) -> list[str]:
        """Returns the names of the nodes or edges in `state`."""
        return level_names(self.graph, level, self.at(level) == state)

    @property
    def trivial(self) -> str | None:
        """The reason why the circuit is trivial, if a single node computes the output; else None."""
        edges = [*self.names("head_edge", State.REQUIRED), *self.witnesses.get("head_edge", ())]
        between = {end for edge in edges for end in edge_ends(edge)} - {"embed", "logits"}
        return f"{between.pop()} alone computes the output from the embedding" if len(between) == 1 else None

    @property
    def headline(self) -> Level:
        """The level at which methods are compared: q/k/v edges, or head edges if some q/k/v edges are free.

        Free edges are not scored, so that almost no edge may be left to score at their level.
        """
        return "head_edge" if (self.qkv_edges == State.FREE).any() else "qkv_edge"

    @property
    def required(self) -> list[str]:
        """The names of the edges that a method has to find.

        They are the required q/k/v edges, the required head edges with free q/k/v edges and no required one
        (`open_edges`), and the edges that are required of a higher order.
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
        """Returns a `pandas.DataFrame` with the name and the state of each node or edge.

        Raises:
            ImportError: if pandas is not installed.
        """
        names = level_names(self.graph, level, self.at(level) != State.ILLEGAL)
        states = self.at(level)[self.at(level) != State.ILLEGAL]
        return data_frame({"name": names, "state": [State(state).name.lower() for state in states.tolist()]})

    @property
    def sha256(self) -> str:
        """The SHA-256 of the truth's JSON, without spaces and with sorted keys."""
        return sha256(json.dumps(self.to_json(), sort_keys=True, separators=(",", ":")).encode())

    def to_json(self) -> TruthNames:
        """Returns the names of required, allowed and (if there are any) free nodes and edges, by level."""
        node, head_edge, qkv_edge = (
            Names(required=self.names(level, State.REQUIRED), allowed=self.names(level, State.ALLOWED))
            for level in LEVELS
        )
        if (self.qkv_edges == State.FREE).any():
            qkv_edge["free"] = self.names("qkv_edge", State.FREE)
        for level, names in zip(LEVELS, (node, head_edge, qkv_edge)):
            if found := self.witnesses.get(level):
                names["witnesses"] = {
                    name: WitnessNames(others=[*each.others], base=[*each.base], source=[*each.source])
                    for name, each in found.items()
                }
        return TruthNames(node=node, head_edge=head_edge, qkv_edge=qkv_edge)

    @classmethod
    def empty(cls, graph: Graph) -> "Truth":
        """Returns a truth in which all nodes and edges of the graph are forbidden."""
        return cls(
            graph,
            np.zeros(len(graph.nodes), np.int8),
            np.where(graph.legal_head_edges, 0, -1).astype(np.int8),
            np.where(graph.legal, 0, -1).astype(np.int8),
        )

    @classmethod
    def from_json(cls, graph: Graph, data: TruthNames) -> "Truth":
        """Reads a truth from names, as `to_json` returns them, in time proportional to their number.

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
                            f"the truth names {shown(name)!r}, which this network does not have"
                        )
                    if states[place] != State.FORBIDDEN:
                        raise CheckpointError(f"the truth names {shown(name)!r} twice at level {level}")
                    states[place] = state
        witnesses: dict[Level, dict[str, Witness]] = {}
        for level in LEVELS:
            if given := data[level].get("witnesses"):
                allowed = set(_in_state(truth, level, State.ALLOWED))
                inside = allowed | set(_in_state(truth, level, State.REQUIRED))
                witnesses[level] = {
                    name: _witness(name, each, allowed, inside) for name, each in given.items()
                }
        return replace(truth, witnesses=witnesses)

    def consistent(self) -> "Truth":
        """Returns this truth, after checking that its levels agree.

        A head edge is forbidden if and only if all its q/k/v edges are, and required if one of them is; all
        edges of a forbidden node are forbidden.

        Raises:
            CheckpointError: if the levels contradict each other; the message names an edge.
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
            raise CheckpointError(f"the truth contradicts itself: its levels disagree about {name}")
        return self


def level_names(graph: Graph, level: Level, where: np.ndarray) -> list[str]:
    """Returns the names of some nodes or edges, in the order of the graph.

    Args:
        graph: the graph.
        level: the level of detail.
        where: which of its nodes or edges, bool `[W]`, `[D, W]` or `[R, W]`.
    """
    if level == "node":
        return [str(graph.nodes[w]) for (w,) in np.argwhere(where)]
    targets = graph.destinations if level == "head_edge" else list(map(str, graph.readers))
    return [edge_name(graph.nodes[w], targets[r]) for r, w in np.argwhere(where)]


def open_edges(truth: Truth) -> dict[str, np.ndarray]:
    """Returns the required head edges with free q/k/v edges and no required one.

    Returns:
        For the name of each head edge, which q/k/v edges belong to it, bool `[R, W]`.
    """
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
    """Returns the edges that have to be found (`Truth.required`), with what is patched to see their effect.

    Returns:
        For the name of each edge, which q/k/v edges belong to it, bool `[R, W]`; for one that is required of
        a higher order, these and those of the others of its witness.
    """
    graph = truth.graph
    masks: dict[str, np.ndarray] = {}
    for reader, writer in np.argwhere(truth.qkv_edges == State.REQUIRED):
        mask = np.zeros(graph.legal.shape, bool)
        mask[reader, writer] = True
        masks[edge_name(graph.nodes[writer], graph.readers[reader])] = mask
    masks |= open_edges(truth)
    for name, witness in truth.witnesses.get("qkv_edge", {}).items():
        parts = [edge_mask(graph, each) for each in (name, *witness.others)]
        masks[name] = np.any(parts, axis=0)
    return masks


def edge_mask(graph: Graph, name: str) -> np.ndarray:
    """Returns which q/k/v edges a q/k/v edge or a head edge consists of, bool `[R, W]`."""
    source, target = edge_ends(name)
    readers = [target in (reader.destination, str(reader)) for reader in graph.readers]
    writers = [str(node) == source for node in graph.nodes]
    return np.outer(readers, writers) & graph.legal


def _witness(name: str, data: WitnessNames, allowed: Collection[str], inside: Collection[str]) -> Witness:
    """Reads a witness.

    Args:
        name: the node or edge that it is for.
        data: the witness as plain data.
        allowed: the names that may have one.
        inside: the names that it may consist of.

    Raises:
        CheckpointError: if there can be no such witness.
    """
    made = Witness(tuple(data["others"]), tuple(data["base"]), tuple(data["source"]))
    if name not in allowed or not set(made.others) <= set(inside) - {name}:
        raise CheckpointError(f"the truth has a witness for {shown(name)!r} that is not of its circuit")
    if not 1 <= made.order <= MOST_ORDER or len(set(made.others)) < made.order:
        raise CheckpointError(
            f"the truth has a witness for {shown(name)!r} that is not 1 to {MOST_ORDER} others"
        )
    if len(made.base) != len(made.source) or min(*made.base, *made.source, 0) < -1:
        raise CheckpointError(f"the truth has a witness for {shown(name)!r} that is no pair of inputs")
    return made


def _in_state(truth: Truth, level: Level, state: State) -> list[str]:
    """Returns the names in a state; for q/k/v edges also those of head edges, which stand for open ones."""
    more = truth.names("head_edge", state) if level == "qkv_edge" else []
    return [*truth.names(level, state), *more]


def _places(graph: Graph, level: Level) -> Callable[[str], tuple[int, ...] | None]:
    """Returns a function from names to places in a level's states; it returns None for an unknown name."""
    writers = {str(node): index for index, node in enumerate(graph.nodes)}
    if level == "node":
        return lambda name: (writers[name],) if name in writers else None
    ends = graph.destinations if level == "head_edge" else map(str, graph.readers)
    targets = {name: index for index, name in enumerate(ends)}

    def place_of(name: str) -> tuple[int, ...] | None:
        source, target = edge_ends(name)
        return (targets[target], writers[source]) if source in writers and target in targets else None

    return place_of
