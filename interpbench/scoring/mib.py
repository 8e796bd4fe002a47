"""The AUROC of MIB's circuit track for networks whose circuit is known (Mueller et al. 2025, section 3.2)."""

import math

import numpy as np

from interpbench.circuits.graph import Graph
from interpbench.core import seeds
from interpbench.scoring.circuits_from_scores import SIZES, connected, grown

TIE_BREAKS = 16
"""Random orders of equal edges into one node, whose mean is taken. In MIB's code it is the order of a set of
names, which differs from one run of Python to the next."""


def mib_auroc(graph: Graph, circuit: np.ndarray, scores: np.ndarray) -> float | None:
    """Returns the area under the ROC through circuits of ten sizes, computed as MIB's code does.

    A circuit grows from the logits: the next edge is always the best one into what is already there. At each
    size, a share of all edges rounded up, what does not lead back to the embedding is pruned. Every edge
    outside the true circuit is a negative. Straight lines join the ten points; area counts from the first of
    them, not from (0, 0).

    MIB compares magnitudes in single precision; here what is compared is the score, of which a method that
    ranks by magnitude has taken it.

    Args:
        graph: the graph.
        circuit: `[reader, writer]` bool, the true circuit.
        scores: `[reader, writer]`, larger for more important.

    Returns:
        None if no edge, or every edge, is in the circuit.
    """
    edges, positives = int(graph.legal.sum()), int((circuit & graph.legal).sum())
    if positives in (0, edges):
        return None
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
