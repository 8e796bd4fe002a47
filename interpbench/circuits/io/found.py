"""The scores and circuit that are read from a file, collected and checked name by name.

Every name must be one of the graph's, and memory is used for the graph alone, whatever the file holds. An
edge into a head without `<q>`, `<k>` or `<v>` stands for all three.

Letters of shapes: W writers (nodes), R readers.
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
    """The scores and circuit that were read from a file.

    Attributes:
        scores: the scores; if the file has a circuit only, 1 for edges in the circuit and 0 for others.
        circuit: the edges in the circuit, bool `[R, W]`; None if the file has none.
        form: the name of the file's format.
        problem: the blind problem that the file says it answers; None if it names none.
    """

    scores: Scores
    circuit: np.ndarray | None
    form: str
    problem: str | None = None


@dataclass
class FoundScores:
    """The scores and circuit that have been read from a file so far.

    Attributes:
        graph: the network's graph.
        edges: the scores of edges, `[R, W]`; NaN where the file has given none.
        member: 1 for edges in the circuit, 0 for edges outside, -1 where the file has not said, `[R, W]`.
        nodes: the scores of nodes, by the node's index.
        problem: the blind problem that the file says it answers; None if it names none.
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
        """Adds what a file says of an edge.

        Args:
            name: the edge's name, ours or EAP-IG's; that of a head edge stands for its q, k and v edges.
            score: its score; None if the file gives none.
            member: whether it is in the circuit; None if the file does not say.

        Raises:
            InterpBenchError: if the graph has no such edge, or the file names it twice.
        """
        edges = [self.place(edge, name) for edge in parse_edges(checked_name(name), self.graph.n_layers)]
        for place in edges:
            if not (np.isnan(self.edges[place]) and self.member[place] == -1):
                raise ScoresError(f"the file names {self._name(place)} twice")
            self.put(place, score, member)

    def put(self, place: tuple[int, int], score: float | None, member: bool | None) -> None:
        """Sets what a file says of an edge.

        Args:
            place: the edge's place `(reader, writer)`.
            score: its score; None if the file gives none.
            member: whether it is in the circuit; None if the file does not say.
        """
        if score is not None:
            self.edges[place] = score
        if member is not None:
            self.member[place] = member

    def node(self, name: str, score: float | None) -> None:
        """Adds the score of a node; as in EAP-IG, NaN means that the node is always in the circuit.

        Raises:
            InterpBenchError: if the graph has no such node, or the file names it twice.
        """
        index = self.graph.node_index.get(parse_node(checked_name(name)))
        if index is None:
            raise ScoresError(f"the file names {name!r}, which this network does not have")
        if index in self.nodes:
            raise ScoresError(f"the file names {name!r} twice")
        if score is not None:
            self.nodes[index] = score

    def place(self, edge: Edge, name: str) -> tuple[int, int]:
        """Returns the place `(reader, writer)` of an edge, which the file calls `name`.

        Raises:
            ScoresError: if the graph has no such edge.
        """
        graph = self.graph
        reader, writer = graph.reader_index.get(edge.target), graph.node_index.get(edge.source)
        if reader is None or writer is None or not graph.legal[reader, writer]:
            near = did_you_mean(name, map(str, graph.edges))
            raise ScoresError(f"the file names {name!r}, an edge that this network does not have{near}")
        return reader, writer

    def finish(self, form: str) -> Imported:
        """Checks that the file is complete, and returns its scores and circuit; `form` is its format.

        Raises:
            ScoresError: if some edges or nodes have a score and others have none, or nothing was read.
        """
        legal = self.graph.legal
        nodes = self._own_nodes()
        missing = np.isnan(self.edges) & legal
        has_circuit = (self.member >= 0).any() if missing.any() else (self.member == 1).any()
        circuit = self.member == 1 if has_circuit else None
        if not missing.any():
            values = self.edges
        elif not missing[legal].all():
            first = self._name(tuple(np.argwhere(missing)[0]))
            raise ScoresError(
                f"the file gives no score to {missing.sum():,} of {legal.sum():,} edges, such as {first}"
            )
        elif nodes is not None:
            values = edges_from_nodes(self.graph, nodes)
        elif circuit is not None:
            values = np.where(legal, circuit, np.nan)
        else:
            raise ScoresError("the file holds neither scores nor a circuit")
        return Imported(Scores(self.graph, values, nodes), circuit, form, self.problem)

    def _name(self, place: tuple[int, int]) -> str:
        return edge_name(self.graph.nodes[place[1]], self.graph.readers[place[0]])

    def _own_nodes(self) -> np.ndarray | None:
        """Returns the scores of nodes, or None; the embedding and nodes with NaN have the highest score."""
        given = np.array([self.nodes.get(index, np.nan) for index in range(len(self.graph.nodes))])
        if np.isnan(given).all():
            return None
        for index in range(1, len(given)):
            if index not in self.nodes:
                raise ScoresError(f"the file gives scores to nodes, but none to {self.graph.nodes[index]}")
        return np.where(np.isnan(given), np.nanmax(given), given)


def finite_number(name: str, value: object, unscored: bool = False) -> float:
    """Returns a score as a float, after checking that it is a finite number.

    Args:
        name: the name of the edge or node, for the error message.
        value: the score as it was read.
        unscored: whether NaN is allowed, which stands for no score.

    Raises:
        ScoresError: if the score is not a number, or not finite.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ScoresError(f"{short(name)}: {short(value)} is not a score")
    if isinstance(value, int) and abs(value) > 1e300:
        value = math.inf
    if not (math.isfinite(value) or (unscored and math.isnan(value))):
        raise ScoresError(f"{short(name)}: the score is {value}, not a finite number")
    return float(value)


def checked_name(text: str) -> str:
    """Returns a name unchanged, after checking its length.

    Raises:
        ScoresError: if it has more than `LONGEST_NAME` characters.
    """
    if len(text) > LONGEST_NAME:
        raise ScoresError(f"{short(text)} is not a name: names have at most {LONGEST_NAME} characters")
    return text


def short(value: object) -> str:
    """Returns the representation of a value for an error message, cut to 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
