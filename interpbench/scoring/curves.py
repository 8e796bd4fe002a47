"""What one ranking is worth: ROC, precision-recall, and the named alternatives of older papers.

The headline is the exact rank AUROC, ties counted half. Every number is computed from groups of tied items,
so that no tie is ever broken by position; and for many weightings of the items at once, which is how the
bootstrap and the random null get theirs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from pydantic import with_config

from interpbench.core import seeds
from interpbench.core.config import STRICT
from interpbench.core.estimate import Estimate
from interpbench.scoring.intervals import DRAWS, auroc_interval, percentiles

METRICS: Mapping[str, tuple[str, str]] = {
    "auroc": ("AUROC", "score interval of Newcombe (2006)"),
    "average_precision": ("average precision", "bootstrap of items"),
    "precision_at_size": ("precision = recall at the true size", "exact binomial"),
    "best_f1": ("best F1", "bootstrap of items"),
    "staircase": ("pessimistic staircase", "bootstrap of items"),
}
"""The numbers of a ranking: what tables call them, and where their 95 % intervals come from."""

SIZES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""The sizes of circuits, as shares of all edges, of MIB's circuit track (Mueller et al. 2025)."""


@with_config(STRICT)
@dataclass(frozen=True)
class Curve:
    """How one ranking does. Numbers are None where one class is empty.

    Attributes:
        positives: how many required nodes or edges there are.
        negatives: how many forbidden ones.
        auroc: probability that a required one outranks a forbidden one, ties counted half.
        average_precision: area under precision-recall, steps at distinct scores.
        staircase: area under the pessimistic staircase of the ROC (Conmy et al. 2023, their code).
        precision_at_size: precision, which is also recall, of the top `positives`; ties at the cut count
            with their expected share.
        roc: `(false positive rate, true positive rate)` from (0, 0) to (1, 1), where the curve bends.
        best_f1: the largest F1 of any threshold.
        intervals: metric to its 95 % interval (see `METRICS`).
        mib_auroc: the AUROC of MIB (see `mib.py`), which needs the graph: of q/k/v edges only, and without an
            interval.
    """

    positives: int
    negatives: int
    auroc: float | None
    average_precision: float | None
    staircase: float | None
    precision_at_size: float | None
    roc: tuple[tuple[float, float], ...]
    best_f1: float | None = None
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    mib_auroc: float | None = None


def score(truth: np.ndarray, scores: np.ndarray) -> Curve:
    """Scores a ranking.

    Args:
        truth: bool, whether each item is required.
        scores: finite numbers, larger for more important.
    """
    positives, negatives = int(truth.sum()), int((~truth).sum())
    if not positives or not negatives:
        return Curve(positives, negatives, None, None, None, None, ())
    groups = Groups(scores)
    hits, sizes = groups.sums(truth[None].astype(float)), groups.sums(np.ones((1, len(truth))))
    values = {name: float(value[0]) for name, value in numbers(hits, sizes).items()}
    weights = _resampled(truth)
    drawn = numbers(groups.sums(weights * truth), groups.sums(weights))
    intervals = {name: percentiles(drawn[name]) for name in METRICS}
    intervals["auroc"] = auroc_interval(values["auroc"], positives, negatives)
    exact = Estimate.share(values["precision_at_size"] * positives, positives)
    intervals["precision_at_size"] = exact.ends
    return Curve(positives, negatives, roc=_corners(hits[0], sizes[0]), intervals=intervals, **values)


class Groups:
    """Items in groups of equal scores, the highest first."""

    def __init__(self, scores: np.ndarray):
        self.order = np.argsort(-scores, kind="stable")
        ranked = scores[self.order]
        self.starts = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]])

    def sums(self, weights: np.ndarray) -> np.ndarray:
        """Sums weights `[K, item]` over each group: `[K, group]`."""
        return np.add.reduceat(weights[:, self.order], self.starts, axis=1)


def numbers(hits: np.ndarray, sizes: np.ndarray) -> dict[str, np.ndarray]:
    """Computes every metric for K weightings of the same ranking.

    Args:
        hits: `[K, group]`: the weight of required items in each group of ties, the highest scores first.
        sizes: `[K, group]`: the weight of all items in it.

    Returns:
        Each of `METRICS` as `[K]`.
    """
    taken, found = sizes.cumsum(1), hits.cumsum(1)
    positives = found[:, -1:]
    false = taken - found
    negatives = false[:, -1:]
    before, found_before = taken - sizes, found - hits
    at_size = np.clip(positives - before, 0, sizes) / np.where(sizes, sizes, 1)
    return {
        "auroc": ((sizes - hits) * (found_before + hits / 2)).sum(1) / (positives * negatives)[:, 0],
        "average_precision": (hits * found / np.where(taken, taken, 1)).sum(1) / positives[:, 0],
        "staircase": ((1 - false / negatives) * hits).sum(1) / positives[:, 0],
        "precision_at_size": (hits * at_size).sum(1) / positives[:, 0],
        "best_f1": (2 * found / (taken + positives)).max(1),
    }


def _resampled(truth: np.ndarray) -> np.ndarray:
    """Returns `[draw, item]`: how often each item is drawn, required and forbidden ones separately."""
    rng = seeds.generator(0, "bootstrap", "items")
    weights = np.zeros((DRAWS, len(truth)))
    for members in (truth, ~truth):
        count = int(members.sum())
        weights[:, members] = rng.multinomial(count, np.full(count, 1 / count), size=DRAWS)
    return weights


def _corners(hits: np.ndarray, sizes: np.ndarray) -> tuple[tuple[float, float], ...]:
    """Returns the points of the ROC at which it bends."""
    misses = sizes - hits
    kept = [0, *(np.flatnonzero(misses[1:] * hits[:-1] != misses[:-1] * hits[1:]) + 1), len(hits)]
    true_rate = np.r_[0, hits.cumsum()][kept] / hits.sum()
    false_rate = np.r_[0, misses.cumsum()][kept] / misses.sum()
    return tuple(zip(false_rate.tolist(), true_rate.tolist()))


def to_json(curve: Curve) -> dict[str, Any]:
    """Returns the curve as plain data."""
    intervals = {name: list(interval) for name, interval in curve.intervals.items()}
    return {**curve.__dict__, "roc": [list(point) for point in curve.roc], "intervals": intervals}


def metrics(curve: Curve) -> list[dict[str, Any]]:
    """Returns every number of a curve as plain data: name, title, value, low, high, source of the interval.

    Value, low and high are None where there is nothing to tell apart.
    """
    rows: list[dict[str, Any]] = []
    for name, (title, interval) in METRICS.items():
        low, high = curve.intervals.get(name, (None, None))
        value = getattr(curve, name)
        rows.append(
            {"name": name, "title": title, "value": value, "low": low, "high": high, "interval": interval}
        )
    return rows
