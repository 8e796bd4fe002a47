"""The metrics of rankings, one function each, in the order of the columns of tables.

Every metric is computed from groups of items with equal scores, so that the order of ties has no influence;
and for many weightings of the items at once, for the bootstrap and for the null distribution of random
rankings.
"""

import numpy as np

from interpbench.core.estimate import Estimate
from interpbench.scoring.intervals import auroc_interval
from interpbench.scoring.leaderboard_rows import HEADLINE_LEVEL
from interpbench.scoring.metric import RANKING, RankingCounts, RankingMetric, ranking_metric, register_metric
from interpbench.scoring.mib import mib_auroc


@ranking_metric("AUROC", interval=auroc_interval)
def auroc(counts: RankingCounts) -> np.ndarray:
    """Returns the probability that a required item scores higher than a forbidden one; ties count half."""
    wins = (counts.sizes - counts.hits) * (counts.found - counts.hits + counts.hits / 2)
    return wins.sum(1) / (counts.positives * counts.negatives)[:, 0]


@ranking_metric("average precision")
def average_precision(counts: RankingCounts) -> np.ndarray:
    """Returns the area under the precision-recall curve, with a step at each distinct score."""
    precision = np.where(counts.taken, counts.taken, 1)
    return (counts.hits * counts.found / precision).sum(1) / counts.positives[:, 0]


def _share_of_required(value: float, positives: int, negatives: int) -> Estimate:
    return Estimate(value, *Estimate.share(value * positives, positives).ends, "exact")


@ranking_metric("precision = recall at the true size", interval=_share_of_required)
def precision_at_size(counts: RankingCounts) -> np.ndarray:
    """Returns the precision of the best items, as many as are required; it equals their recall.

    Of items with equal scores at the cut, the expected share of required ones counts.
    """
    before = counts.taken - counts.sizes
    at_size = np.clip(counts.positives - before, 0, counts.sizes) / np.where(counts.sizes, counts.sizes, 1)
    return (counts.hits * at_size).sum(1) / counts.positives[:, 0]


@ranking_metric("best F1")
def best_f1(counts: RankingCounts) -> np.ndarray:
    """Returns the largest F1 over all thresholds."""
    return (2 * counts.found / (counts.taken + counts.positives)).max(1)


@ranking_metric("pessimistic staircase")
def staircase(counts: RankingCounts) -> np.ndarray:
    """Returns the area under the ROC curve's pessimistic staircase, as in the code of Conmy et al. 2023."""
    return ((1 - counts.false / counts.negatives) * counts.hits).sum(1) / counts.positives[:, 0]


MIB_AUROC = register_metric(RankingMetric("mib_auroc", "MIB's AUROC", on_graph=mib_auroc), RANKING)
HEADLINE = auroc.at(HEADLINE_LEVEL)
"""The headline metric, by which methods are ordered: the AUROC at each network's level of comparison."""
