"""What one ranking is worth: its ROC curve, and every registered metric with its interval.

The headline is the exact rank AUROC, ties counted half.
"""

from dataclasses import replace

import numpy as np

from interpbench.circuits.ground_truth import LEVELS, Level, State, Truth
from interpbench.circuits.scores import Scores
from interpbench.core import seeds
from interpbench.core.estimate import Estimate
from interpbench.scoring.intervals import DRAWS, bootstrap
from interpbench.scoring.metric import RankingCounts
from interpbench.scoring.ranking_metrics import RANKING
from interpbench.scoring.results import LevelScores


def score(truth: np.ndarray, scores: np.ndarray) -> LevelScores:
    """Scores a ranking.

    Args:
        truth: bool, whether each item is required.
        scores: finite numbers, larger for more important.
    """
    positives, negatives = int(truth.sum()), int((~truth).sum())
    if not positives or not negatives:
        return LevelScores(positives, negatives)
    groups = Groups(scores)
    hits, sizes = groups.sums(truth[None].astype(float)), groups.sums(np.ones((1, len(truth))))
    counts = RankingCounts(hits, sizes)
    weights = _resampled(truth)
    drawn = RankingCounts(groups.sums(weights * truth), groups.sums(weights))
    metrics: dict[str, Estimate] = {}
    for name, metric in RANKING.items():
        if metric.compute is not None:
            value = float(metric.compute(counts)[0])
            exact = metric.interval and metric.interval(value, positives, negatives)
            metrics[name] = exact or bootstrap(value, metric.compute(drawn))
    return LevelScores(positives, negatives, metrics, _corners(hits[0], sizes[0]))


def compare(truth: Truth, scores: Scores, structural: bool = False) -> dict[Level, LevelScores]:
    """Scores a method at every level: required against forbidden, allowed left out.

    The embedding, which is the input itself, is left out at node level. Metrics that need the graph, as MIB's
    AUROC, have no such distinctions.

    Args:
        truth: the states.
        scores: the method's.
        structural: count allowed as positive, as older papers did.
    """
    found: dict[Level, LevelScores] = {
        level: score(*labels_and_scores(truth, scores, level, structural)) for level in LEVELS
    }
    circuit, edges = truth.circuit | (structural & (truth.qkv_edges == State.ALLOWED)), found["qkv_edge"]
    of_graph = {
        name: Estimate(value)
        for name, metric in RANKING.items()
        if metric.on_graph and (value := metric.on_graph(truth.graph, circuit, scores.edges)) is not None
    }
    return {**found, "qkv_edge": replace(edges, metrics={**edges.metrics, **of_graph})}


def labels_and_scores(
    truth: Truth, scores: Scores, level: Level, structural: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Returns, for what counts at a level, whether it is required `[item]` bool, and its score `[item]`."""
    states, values = truth.at(level).copy(), scores.at(level)
    if level == "node":
        states[0] = State.ILLEGAL
    if structural:
        states[states == State.ALLOWED] = State.REQUIRED
    counts = (states == State.REQUIRED) | (states == State.FORBIDDEN)
    return states[counts] == State.REQUIRED, values[counts].astype(np.float64)


class Groups:
    """Items in groups of equal scores, the highest first."""

    def __init__(self, scores: np.ndarray):
        self.order = np.argsort(-scores, kind="stable")
        ranked = scores[self.order]
        self.starts = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]])

    def sums(self, weights: np.ndarray) -> np.ndarray:
        """Sums weights `[K, item]` over each group: `[K, group]`."""
        return np.add.reduceat(weights[:, self.order], self.starts, axis=1)


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
