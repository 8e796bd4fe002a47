"""Intervals of 95 %: a score interval for AUROC, and the bootstrap. `Estimate.share` has that of shares."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

from interpbench.core import seeds
from interpbench.core.estimate import MISS, Estimate

DRAWS = 1_000
"""The number of bootstrap samples."""


def percentiles(draws: np.ndarray) -> tuple[float, float]:
    """Returns the ends of the middle 95 % of bootstrap samples, `[draw]`; NaN stands for a missing value."""
    low, high = np.nanquantile(draws, (MISS / 2, 1 - MISS / 2))
    return float(low), float(high)


def bootstrap(value: float, draws: np.ndarray) -> Estimate:
    """Returns a number with the interval that its values on bootstrap samples, `[draw]`, have."""
    return Estimate(float(value), *percentiles(draws), "bootstrap")


def auroc_interval(auroc: float, positives: int, negatives: int) -> Estimate:
    """Returns an AUROC with its score interval: method 5 of Newcombe (Statist. Med. 25, 2006, 559–573).

    Its ends solve (θ̂ − θ)² = z² V(θ), where V is Hanley and McNeil's variance at the mean sample size.
    Unlike a bootstrap interval it is not a single point if every required item outranks every forbidden one.

    Args:
        auroc: the AUROC.
        positives: the number of required items.
        negatives: the number of forbidden items.
    """
    z2, half = float(norm.ppf(1 - MISS / 2)) ** 2, (positives + negatives) / 2 - 1

    def variance(x: float) -> float:
        spread = 1 + half * ((1 - x) / (2 - x) + x / (1 + x))
        return x * (1 - x) * spread / (positives * negatives)

    def lower(value: float) -> float:
        near = value - 1e-9
        if near <= 0:
            return 0.0
        found: Any = brentq(lambda x: (value - x) ** 2 - z2 * variance(x), 0.0, near)
        return float(found)

    return Estimate(auroc, lower(auroc), 1 - lower(1 - auroc), "score")


def resampling(count: int, *names: str | int) -> np.ndarray:
    """Returns how often each of `count` things is drawn in each bootstrap sample, `[draw, count]`.

    Args:
        count: the number of things, and of draws in each sample.
        *names: the name of the random generator.
    """
    return seeds.generator(0, "bootstrap", *names).multinomial(count, np.full(count, 1 / count), DRAWS)


def within(clusters: Sequence[str], values: np.ndarray) -> np.ndarray:
    """Returns the mean of each cluster, in order of the clusters' names.

    Args:
        clusters: the name of the cluster of each thing.
        values: numbers of things, the last dimension.
    """
    names, place = np.unique(np.array(clusters), return_inverse=True)
    return np.stack([values[..., place == one].mean(-1) for one in range(len(names))], -1)


def draws_of(count: int) -> np.ndarray:
    """Returns the weights of clusters in the means of bootstrap samples of clusters, `[draw, cluster]`."""
    return resampling(count, "clusters") / count
