"""Scores of a ranking by the orders of what is required (`Truth.witnesses`).

The headline asks for what is required of order 0, whose patch alone changes an answer. Here everything counts
that is required of any order: a ranking may put it above what is forbidden, or miss what only matters
together with others.
"""

import numpy as np

from interpbench.circuits.ground_truth import Level, State, Truth
from interpbench.circuits.order_arrays import orders_of
from interpbench.circuits.scores import Scores
from interpbench.core.estimate import Estimate
from interpbench.scoring.intervals import auroc_interval
from interpbench.scoring.metric import RankingCounts
from interpbench.scoring.ranking_groups import Groups
from interpbench.scoring.ranking_metrics import auroc

ALL_ORDERS = "auroc_all_orders"
"""The AUROC of what is required of any order against what is forbidden."""
PRECISION = "precision_all_orders"
"""The share of what is required of any order among the best items, as many as are."""
RECALL = "recall_order_"
"""The share of what is required of an order among the best items, as many as are required of any."""


def by_order(truth: Truth, scores: Scores, level: Level) -> dict[str, Estimate]:
    """Returns the scores by order at a level; none where everything required is of order 0.

    The embedding is not counted as a node. Of edges with equal scores at the cut, the expected share counts.

    Args:
        truth: the ground truth.
        scores: the scores of a method.
        level: the level of detail.
    """
    orders = orders_of(truth, level)
    if orders.max(initial=0) < 1:
        return {}
    counts = (orders >= 0) | (truth.at(level) == State.FORBIDDEN)
    orders, values = orders[counts], scores.at(level)[counts].astype(np.float64)
    groups, required = Groups(values), orders >= 0
    sizes = groups.sums(np.ones((1, len(orders))))
    ranking = RankingCounts(groups.sums(required[None].astype(float)), sizes)
    total, others = int(required.sum()), int((~required).sum())
    found: dict[str, Estimate] = {}
    if others:
        value = float(auroc.compute(ranking)[0]) if auroc.compute else 0.0
        found[ALL_ORDERS] = auroc_interval(value, total, others)
    taken = np.clip(total - (ranking.taken - sizes), 0, sizes) / sizes
    among = {f"{RECALL}{order}": orders == order for order in sorted({*orders[required].tolist()})}
    for name, some in {PRECISION: required, **among}.items():
        share = float((groups.sums(some[None].astype(float)) * taken).sum() / some.sum())
        low, high = Estimate.share(share * int(some.sum()), int(some.sum())).ends
        found[name] = Estimate(share, low, high, "exact")
    return found


def true_ranking(truth: Truth) -> Scores:
    """Returns the truth as if a method had found it: what is required of order k scores 1 / (k + 1)."""
    edges, nodes = (
        np.maximum(states == whole, (orders >= 0) / (1.0 + orders.clip(0)))
        for states, whole, orders in (
            (truth.qkv_edges, State.FREE, orders_of(truth, "qkv_edge")),
            (truth.nodes, State.REQUIRED, orders_of(truth, "node")),
        )
    )
    return Scores(truth.graph, np.where(truth.graph.legal, edges, np.nan), nodes)
