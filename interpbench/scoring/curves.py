"""ROC and precision-recall numbers of one ranking.

The headline is the exact rank AUROC, ties counted half. The pessimistic staircase of the ACDC paper's code
(Conmy et al. 2023) is a named alternative for comparison with older tables; never mix the two.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Curve:
    """How one ranking does. Numbers are None where one class is empty.

    Attributes:
        positives: how many required nodes or edges there are.
        negatives: how many forbidden ones.
        auroc: probability that a required one outranks a forbidden one, ties counted half.
        average_precision: area under precision-recall, steps at distinct scores.
        staircase: area under the pessimistic staircase of the ROC's upper envelope.
        precision_at_size: precision, which is also recall, of the top `positives`; ties at the cut count
            with their expected share.
        roc: `(false positive rate, true positive rate)` at every distinct score, from (0, 0).
    """

    positives: int
    negatives: int
    auroc: float | None
    average_precision: float | None
    staircase: float | None
    precision_at_size: float | None
    roc: tuple[tuple[float, float], ...]


def score(truth: np.ndarray, scores: np.ndarray) -> Curve:
    """Scores a ranking.

    Args:
        truth: bool, whether each item is required.
        scores: finite numbers, larger for more important.
    """
    positives, negatives = int(truth.sum()), int((~truth).sum())
    if not positives or not negatives:
        return Curve(positives, negatives, None, None, None, None, ())
    from sklearn.metrics import average_precision_score, roc_auc_score

    values, places = np.unique(-scores, return_inverse=True)
    hits = np.bincount(places, weights=truth, minlength=len(values))
    sizes = np.bincount(places, minlength=len(values))
    true_rate = np.concatenate([[0.0], np.cumsum(hits) / positives])
    false_rate = np.concatenate([[0.0], np.cumsum(sizes - hits) / negatives])
    return Curve(
        positives,
        negatives,
        float(roc_auc_score(truth, scores)),
        float(average_precision_score(truth, scores)),
        _staircase(false_rate, true_rate),
        _precision_at(positives, hits, sizes),
        tuple(zip(false_rate.tolist(), true_rate.tolist())),
    )


def _staircase(false_rate: np.ndarray, true_rate: np.ndarray) -> float:
    """Sums `(1 - x_i)(y_i - y_{i-1})`: each rise counts only to the right of where it is complete."""
    return float(((1 - false_rate[1:]) * np.diff(true_rate)).sum())


def _precision_at(size: int, hits: np.ndarray, sizes: np.ndarray) -> float:
    """Returns the expected precision of the top `size` items when ties are broken at random."""
    before = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    taken = np.clip(size - before, 0, sizes)
    return float((hits * taken / sizes).sum() / size)


def to_json(curve: Curve) -> dict[str, Any]:
    """Returns the curve as plain data."""
    return {**curve.__dict__, "roc": [list(point) for point in curve.roc]}
