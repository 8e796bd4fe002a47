"""Scores as records hold them: numbers in the order of a graph's nodes or edges, with a hash of the names."""

from collections.abc import Iterable
from typing import Self

import numpy as np
from pydantic.dataclasses import dataclass

from interpbench.circuits.graph import Graph
from interpbench.circuits.scores import Scores
from interpbench.core.config import STRICT, Finite, Sha256
from interpbench.core.errors import ScoresError
from interpbench.core.files import sha256


@dataclass(frozen=True, config=STRICT)
class OrderedScores:
    """A number for each of many names, without the names.

    Attributes:
        order: the SHA-256 of the names, a line each, in their order.
        values: a score for each name.
    """

    order: Sha256
    values: tuple[Finite, ...]

    @classmethod
    def of(cls, names: Iterable[object], values: Iterable[float]) -> Self:
        """Returns the scores of things, whose names are what `str` makes of them."""
        return cls(order_of(names), tuple(map(float, values)))

    def array(self, names: Iterable[object]) -> np.ndarray:
        """Returns the scores `[name]`.

        Raises:
            ScoresError: if they are scores of other names, or of these in another order.
        """
        names = list(names)
        if len(names) != len(self.values) or order_of(names) != self.order:
            raise ScoresError(f"{len(self.values)} scores are not those of these {len(names)} names")
        return np.array(self.values, np.float64)


def order_of(names: Iterable[object]) -> str:
    """Returns the SHA-256 of names in their order."""
    return sha256("\n".join(map(str, names)).encode())


def edge_scores(scores: Scores) -> OrderedScores:
    """Returns the score of every q/k/v edge, in the order of the graph's edges."""
    return OrderedScores.of(scores.graph.edges, scores.edges[scores.graph.legal])


def node_scores(scores: Scores) -> OrderedScores:
    """Returns the score of every node, in the order of the graph's nodes."""
    return OrderedScores.of(scores.graph.nodes, scores.at("node"))


def scores_of(graph: Graph, edges: OrderedScores, nodes: OrderedScores | None) -> Scores:
    """Returns a method's scores from a record's.

    Raises:
        ScoresError: if they are those of another graph.
    """
    values = np.full(graph.legal.shape, np.nan)
    values[graph.legal] = edges.array(graph.edges)
    return Scores(graph, values, None if nodes is None else nodes.array(graph.nodes))
