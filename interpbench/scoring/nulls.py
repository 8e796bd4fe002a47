"""What random scores get, averaged over many: one random draw as the null has flipped verdicts."""

from functools import cache

import numpy as np

from interpbench.core import seeds
from interpbench.scoring.metric import RankingCounts
from interpbench.scoring.ranking_metrics import RANKING

DRAWS = 1_000
NUMBERS = 1 << 21
"""How many items of rankings are scored at once: of more, memory is short before time is."""


def random_null(positives: int, negatives: int) -> dict[str, np.ndarray]:
    """Returns each metric that has a null of many random rankings without ties, `[draw]`, sorted."""
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
    """Returns a p-value: the share of random rankings that do as well, the observed one among them."""
    null = random_null(positives, negatives)[name]
    return float((1 + (null >= value - 1e-12).sum()) / (1 + len(null)))
