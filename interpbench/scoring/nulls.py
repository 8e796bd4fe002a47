"""What random scores get, averaged over many: one random draw as the null has flipped verdicts."""

from functools import cache

import numpy as np

from interpbench.core import seeds
from interpbench.scoring.curves import METRICS, numbers

DRAWS = 1_000
NUMBERS = 1 << 21
"""How many items of rankings are scored at once: of more, memory is short before time is."""


@cache
def random_null(positives: int, negatives: int) -> dict[str, np.ndarray]:
    """Returns each metric of many random rankings without ties, `[draw]`, sorted."""
    truth = np.r_[np.ones(positives), np.zeros(negatives)]
    rng = seeds.generator(0, "null", positives, negatives)
    rows = max(1, min(DRAWS, NUMBERS // len(truth)))
    parts: list[dict[str, np.ndarray]] = []
    for first in range(0, DRAWS, rows):
        hits = rng.permuted(np.repeat(truth[None], min(rows, DRAWS - first), 0), axis=1)
        parts.append(numbers(hits, np.ones_like(hits)))
    return {name: np.sort(np.concatenate([part[name] for part in parts])) for name in METRICS}


def beats_random(name: str, value: float, positives: int, negatives: int) -> float:
    """Returns a p-value: the share of random rankings that do as well, the observed one among them."""
    null = random_null(positives, negatives)[name]
    return float((1 + (null >= value - 1e-12).sum()) / (1 + len(null)))
