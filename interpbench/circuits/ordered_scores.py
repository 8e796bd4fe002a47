"""Scores as stored in records: numbers in the order of a graph's nodes or edges, without their names."""

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
    """The scores of nodes or edges, without their names.

    Attributes:
        order: the SHA-256 of the names, in order, one on each line.
        values: the scores, in the same order.
    """

    order: Sha256
    values: tuple[Finite, ...]

    @classmethod
    def of(cls, names: Iterable[object], values: Iterable[float]) -> Self:
        """Makes them from nodes or edges, of which `str` gives the names, and their scores."""
        return cls(order_of(names), tuple(map(float, values)))

    def array(self, names: Iterable[object]) -> np.ndarray:
        """Returns the scores as an array, after checking that they belong to these names in this order.

        Raises:
            ScoresError: if they are scores of other names, or of these names in another order.
        """
        names = list(names)
        if len(names) != len(self.values) or order_of(names) != self.order:
            raise ScoresError(
                f"the record's {len(self.values)} scores are not of the {len(names)} nodes or edges of this "
                "network"
            )
        return np.array(self.values, np.float64)


def order_of(names: Iterable[object]) -> str:
    """Returns the SHA-256 of names, in order, one on each line."""
    return sha256("\n".join(map(str, names)).encode())


def edge_scores(scores: Scores) -> OrderedScores:
    """Returns the score of every q/k/v edge, in the order of the graph's edges."""
    return OrderedScores.of(scores.graph.edges, scores.edges[scores.graph.legal])


def node_scores(scores: Scores) -> OrderedScores:
    """Returns the score of every node, in the order of the graph's nodes."""
    return OrderedScores.of(scores.graph.nodes, scores.at("node"))


def scores_of(graph: Graph, edges: OrderedScores, nodes: OrderedScores | None) -> Scores:
    """Returns the scores of a method, as they are stored in a record.

    Args:
        graph: the network's graph.
        edges: the stored scores of edges.
        nodes: the stored scores of nodes; None for a method that does not score nodes itself.

    Raises:
        ScoresError: if they are scores of another graph.
    """
    values = np.full(graph.legal.shape, np.nan)
    values[graph.legal] = edges.array(graph.edges)
    return Scores(graph, values, None if nodes is None else nodes.array(graph.nodes))
