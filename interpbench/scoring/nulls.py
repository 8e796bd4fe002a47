"""The distribution of the metrics of random rankings (null distribution), from many random rankings.

A comparison with a single random ranking can go either way, so the distribution of many is used.
"""

from functools import cache

import numpy as np

from interpbench.core import seeds
from interpbench.scoring.metric import RankingCounts
from interpbench.scoring.ranking_metrics import RANKING

DRAWS = 1_000
"""The number of random rankings."""
NUMBERS = 1 << 21
"""The number of items, in all rankings together, that are scored in one batch, to bound the memory in use."""


def random_null(positives: int, negatives: int) -> dict[str, np.ndarray]:
    """Returns the values of each metric for random rankings without ties, `[draw]`, sorted.

    Metrics that need the graph are left out. `positives` and `negatives` are the numbers of required and
    forbidden items.
    """
    return _random_null(positives, negatives, tuple(name for name, one in RANKING.items() if one.compute))


@cache
def _random_null(positives: int, negatives: int, metrics: tuple[str, ...]) -> dict[str, np.ndarray]:
    truth = np.r_[np.ones(positives), np.zeros(negatives)]
    rng = seeds.generator(0, "null", positives, negatives)
    rows = max(1, min(DRAWS, NUMBERS // len(truth)))
    drawn: dict[str, list[np.ndarray]] = {name: [] for name in metrics}
    for first in range(0, DRAWS, rows):
        hits = rng.permuted(np.repeat(truth[None], min(rows, DRAWS - first), 0), axis=1)
        counts = RankingCounts(hits, np.ones_like(hits))
        for name, values in drawn.items():
            compute = RANKING[name].compute
            assert compute is not None
            values.append(compute(counts))
    return {name: np.sort(np.concatenate(values)) for name, values in drawn.items()}


def beats_random(name: str, value: float, positives: int, negatives: int) -> float:
    """Returns the p-value of a metric of a ranking: the share of random rankings with at least its value.

    The observed ranking counts as one of them.

    Args:
        name: the name of a metric of rankings.
        value: its value for the observed ranking.
        positives: the number of required items.
        negatives: the number of forbidden items.
    """
    null = random_null(positives, negatives)[name]
    return float((1 + (null >= value - 1e-12).sum()) / (1 + len(null)))
