"""Ground truth: the state of every node and edge of a network, at three levels of detail."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Literal

import numpy as np

from interpbench.circuits.graph import Graph
from interpbench.core.errors import CheckpointError

Level = Literal["node", "head_edge", "qkv_edge"]
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
    def idle(self) -> np.ndarray:
        """`[reader, writer]` bool: q/k/v edges that must do nothing, the forbidden and the allowed ones.

        An edge of the program that changes nothing on the domain must change nothing in the network either,
        or the network uses it for something else (a query input that reads positions in the program could
        read tokens in the network).
        """
        return (self.qkv_edges == State.FORBIDDEN) | (self.qkv_edges == State.ALLOWED)

    def count(self, level: Level, state: State) -> int:
        """Returns how many nodes or edges are in `state`."""
        return int((self.at(level) == state).sum())

    def names(self, level: Level, state: State) -> list[str]:
        """Returns the names of the nodes or edges in `state`."""
        where = np.argwhere(self.at(level) == state)
        nodes = self.graph.nodes
        if level == "node":
            return [str(nodes[w]) for (w,) in where]
        targets = self.graph.destinations if level == "head_edge" else list(map(str, self.graph.readers))
        return [f"{nodes[w]}->{targets[r]}" for r, w in where]

    @property
    def trivial(self) -> str | None:
        """Why the circuit is trivial, if only one node is needed between embedding and output."""
        edges = self.names("head_edge", State.REQUIRED)
        between = {end for edge in edges for end in edge.split("->")} - {"embed", "logits"}
        return f"{between.pop()} alone computes the output from the embedding" if len(between) == 1 else None

    def to_json(self) -> dict[str, Any]:
        """Returns the names of required, allowed and, if there are any, free edges; the rest is forbidden."""
        named = (State.REQUIRED, State.ALLOWED)
        data = {level: {state.name.lower(): self.names(level, state) for state in named} for level in LEVELS}
        if (self.qkv_edges == State.FREE).any():
            data["qkv_edge"]["free"] = self.names("qkv_edge", State.FREE)
        return data

    @classmethod
    def from_json(cls, graph: Graph, data: dict[str, Any]) -> "Truth":
        """Reads what `to_json` wrote.

        Raises:
            CheckpointError: if a name does not belong to the graph.
        """
        empty = cls(
            graph,
            np.zeros(len(graph.nodes), np.int8),
            np.where(graph.legal_head_edges, 0, -1).astype(np.int8),
            np.where(graph.legal, 0, -1).astype(np.int8),
        )
        for level in LEVELS:
            states = empty.at(level)
            place = {
                name: tuple(where)
                for name, where in zip(empty.names(level, State.FORBIDDEN), np.argwhere(states == 0))
            }
            named = {"free": [], **data[level]}
            for state in (State.REQUIRED, State.ALLOWED, State.FREE):
                for name in named[state.name.lower()]:
                    if name not in place:
                        raise CheckpointError(f"truth names {name!r}, which this network does not have")
                    states[place[name]] = state
        return empty
