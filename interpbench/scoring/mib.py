"""The AUROC of MIB's circuit track, for networks with a known circuit (Mueller et al. 2025, section 3.2)."""

import math

import numpy as np

from interpbench.circuits.graph import Graph
from interpbench.core import seeds
from interpbench.scoring.circuits_from_scores import SIZES, connected, grown

TIE_BREAKS = 16
"""The number of random orders of edges with equal scores into one node, over which the AUROC is averaged. In
MIB's code the order is that of a set of names, which differs from one run of Python to the next."""


def mib_auroc(graph: Graph, circuit: np.ndarray, scores: np.ndarray) -> float | None:
    """Returns the area under the ROC curve through circuits of ten sizes, computed as in MIB's code.

    A greedy search adds edges to a circuit, starting at the logits: the next edge is the one with the highest
    score among those into the logits or into a node of the circuit. Each size is a share of all edges,
    rounded up. Edges that are on no path from the embedding to the logits are pruned. Every edge outside the
    true circuit is a negative. Straight lines join the ten points, and the area is that from the first point
    on, not from (0, 0).

    MIB compares absolute values of scores, in single precision. Here scores are compared as they are; a
    method that ranks by absolute value returns absolute values.

    Args:
        graph: the network's graph.
        circuit: the edges in the true circuit, bool `[reader, writer]`.
        scores: the scores of edges, `[reader, writer]`, larger for more important edges.

    Returns:
        The area; None if no edge, or every edge, is in the circuit.
    """
    edges, positives = int(graph.legal.sum()), int((circuit & graph.legal).sum())
    if positives in (0, edges):
        return None
    with np.errstate(over="ignore"):  # what is too large is infinite, and alike
        values = scores.astype(np.float32)
    ties = len(np.unique(values[graph.legal])) < edges
    areas: list[float] = []
    for draw in range(TIE_BREAKS if ties else 1):
        order = grown(graph, values, seeds.generator(0, "mib", "ties", draw))
        points: list[tuple[float, float]] = []
        for share in SIZES:
            found = np.zeros_like(circuit)
            found[tuple(order[: math.ceil(share * edges)].T)] = True
            found = connected(graph, found)
            hits = int((found & circuit).sum())
            points.append(((int(found.sum()) - hits) / (edges - positives), hits / positives))
        x, y = np.array(points).T
        areas.append(float((np.diff(x / x[-1]) * (y[1:] + y[:-1]) / 2).sum()))
    return float(np.mean(areas))
