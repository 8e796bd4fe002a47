"""What a file says of a graph's edges and nodes, collected name by name and checked.

What is allocated is of the graph's size, whatever the file holds; every name has to be one of the graph's.
An edge into a head without `<q>`, `<k>` or `<v>` is all three.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from interpbench.circuits.graph import Graph
from interpbench.circuits.naming import Edge, edge_name, parse_edges, parse_node
from interpbench.circuits.scores import Scores, edges_from_nodes
from interpbench.core.errors import ScoresError, did_you_mean

LONGEST_NAME = 80
"""The largest number of characters in the name of a node, an edge or a hook."""


@dataclass(frozen=True)
class Imported:
    """What a file says.

    Attributes:
        scores: larger for more important; of a file without scores, 1 in the circuit and 0 outside.
        circuit: `[reader, writer]` bool, the edges in the circuit, if the file says so.
        form: the name of the file's form.
        problem: the problem that the file says it answers, if it does.
    """

    scores: Scores
    circuit: np.ndarray | None
    form: str
    problem: str | None = None


@dataclass
class FoundScores:
    """What has been read so far.

    Attributes:
        graph: of the network.
        edges: `[reader, writer]`, the scores; NaN where nothing was said.
        member: `[reader, writer]`, 1 in the circuit, 0 outside, -1 where nothing was said.
        nodes: index of a node to its score.
        problem: the problem that the file says it answers.
    """

    graph: Graph
    edges: np.ndarray = field(init=False)
    member: np.ndarray = field(init=False)
    nodes: dict[int, float] = field(default_factory=dict[int, float])
    problem: str | None = None

    def __post_init__(self) -> None:
        self.edges = np.full(self.graph.legal.shape, np.nan)
        self.member = np.full(self.graph.legal.shape, -1, np.int8)

    def edge(self, name: str, score: float | None, member: bool | None) -> None:
        """Takes one edge by its name, ours or EAP-IG's."""
        edges = [self.place(edge, name) for edge in parse_edges(checked_name(name), self.graph.n_layers)]
        for place in edges:
            if not (np.isnan(self.edges[place]) and self.member[place] == -1):
                raise ScoresError(f"names {self._name(place)} twice")
            self.put(place, score, member)

    def put(self, place: tuple[int, int], score: float | None, member: bool | None) -> None:
        """Takes what is said of the edge at a place `(reader, writer)`."""
        if score is not None:
            self.edges[place] = score
        if member is not None:
            self.member[place] = member

    def node(self, name: str, score: float | None) -> None:
        """Takes one node; NaN, as in EAP-IG, for one that is always in the circuit."""
        index = self.graph.node_index.get(parse_node(checked_name(name)))
        if index is None:
            raise ScoresError(f"names {name!r}, which this network does not have")
        if index in self.nodes:
            raise ScoresError(f"names {name!r} twice")
        if score is not None:
            self.nodes[index] = score

    def place(self, edge: Edge, name: str) -> tuple[int, int]:
        """Returns the place `(reader, writer)` of an edge that a file calls `name`."""
        graph = self.graph
        reader, writer = graph.reader_index.get(edge.target), graph.node_index.get(edge.source)
        if reader is None or writer is None or not graph.legal[reader, writer]:
            near = did_you_mean(name, map(str, graph.edges))
            raise ScoresError(f"names {name!r}, an edge that this network does not have{near}")
        return reader, writer

    def finish(self, form: str) -> Imported:
        """Checks that the file is complete, and returns what it says."""
        legal = self.graph.legal
        nodes = self._own_nodes()
        missing = np.isnan(self.edges) & legal
        says = (self.member >= 0).any() if missing.any() else (self.member == 1).any()
        circuit = self.member == 1 if says else None
        if not missing.any():
            values = self.edges
        elif not missing[legal].all():
            first = self._name(tuple(np.argwhere(missing)[0]))
            raise ScoresError(
                f"gives no score to {missing.sum():,} of {legal.sum():,} edges, for one {first}"
            )
        elif nodes is not None:
            values = edges_from_nodes(self.graph, nodes)
        elif circuit is not None:
            values = np.where(legal, circuit, np.nan)
        else:
            raise ScoresError("holds neither scores nor a circuit")
        return Imported(Scores(self.graph, values, nodes), circuit, form, self.problem)

    def _name(self, place: tuple[int, int]) -> str:
        return edge_name(self.graph.nodes[place[1]], self.graph.readers[place[0]])

    def _own_nodes(self) -> np.ndarray | None:
        """Returns the nodes' scores; those that have none by intention, and the embedding, rank first."""
        given = np.array([self.nodes.get(index, np.nan) for index in range(len(self.graph.nodes))])
        if np.isnan(given).all():
            return None
        for index in range(1, len(given)):
            if index not in self.nodes:
                raise ScoresError(f"gives scores to nodes, but none to {self.graph.nodes[index]}")
        return np.where(np.isnan(given), np.nanmax(given), given)


def finite_number(name: str, value: object, unscored: bool = False) -> float:
    """Returns a finite number, or NaN where that may stand for no score.

    Raises:
        ScoresError: for anything else, naming what it was to be the score of.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ScoresError(f"{short(name)}: {short(value)} is not a score")
    if isinstance(value, int) and abs(value) > 1e300:
        value = math.inf
    if not (math.isfinite(value) or (unscored and math.isnan(value))):
        raise ScoresError(f"{short(name)}: the score is {value}, not a finite number")
    return float(value)


def checked_name(text: str) -> str:
    """Returns a name as it is.

    Raises:
        ScoresError: if it is too long for one.
    """
    if len(text) > LONGEST_NAME:
        raise ScoresError(f"{short(text)} is not a name")
    return text


def short(value: object) -> str:
    """Returns a value for an error line."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
