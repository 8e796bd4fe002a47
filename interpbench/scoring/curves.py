"""Scores of a ranking against the ground truth: the ROC curve, and every registered metric with its interval.

The headline is the exact rank AUROC, in which ties count half. Letters of shapes: K weightings of the items,
N items (nodes or edges).
"""

from dataclasses import replace

import numpy as np

from interpbench.circuits.ground_truth import LEVELS, Level, State, Truth
from interpbench.circuits.scores import Scores
from interpbench.core import seeds
from interpbench.core.estimate import Estimate
from interpbench.scoring.intervals import DRAWS, bootstrap
from interpbench.scoring.metric import RankingCounts
from interpbench.scoring.orders import by_order
from interpbench.scoring.ranking_groups import Groups
from interpbench.scoring.ranking_metrics import RANKING
from interpbench.scoring.results import LevelScores


def score(truth: np.ndarray, scores: np.ndarray) -> LevelScores:
    """Returns how well a ranking separates required items from forbidden ones.

    Args:
        truth: whether each item is required, bool `[N]`.
        scores: the finite scores of the items, `[N]`, larger for more important items.
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
    """Returns how well a method separates required from forbidden nodes and edges, at every level of detail.

    Nodes and edges that are allowed or free do not count, nor does the embedding, which is the input itself.
    Metrics that need the graph, such as MIB's AUROC, count every edge: edges of the circuit as positive, and
    all others as negative.

    Args:
        truth: the ground truth.
        scores: the scores of the method.
        structural: whether allowed nodes and edges count as required, as in older papers.
    """
    found: dict[Level, LevelScores] = {
        level: score(*labels_and_scores(truth, scores, level, structural)) for level in LEVELS
    }
    circuit = truth.circuit | (structural & (truth.qkv_edges == State.ALLOWED))
    of_graph = {
        name: Estimate(value)
        for name, metric in RANKING.items()
        if metric.on_graph and (value := metric.on_graph(truth.graph, circuit, scores.edges)) is not None
    }
    more = {level: by_order(truth, scores, level) for level in LEVELS}
    more["qkv_edge"] |= of_graph
    return {
        level: replace(levels, metrics={**levels.metrics, **more[level]}) for level, levels in found.items()
    }


def labels_and_scores(
    truth: Truth, scores: Scores, level: Level, structural: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Returns which nodes or edges are required, and their scores.

    Nodes or edges that do not count (allowed or free ones, and the embedding) are left out.

    Args:
        truth: the ground truth.
        scores: the scores of a method.
        level: the level of detail.
        structural: whether allowed nodes and edges count as required, as in older papers.

    Returns:
        Whether each is required, bool `[N]`, and the scores, `[N]`.
    """
    states, values = truth.at(level).copy(), scores.at(level)
    if level == "node":
        states[0] = State.ILLEGAL
    if structural:
        states[states == State.ALLOWED] = State.REQUIRED
    counts = (states == State.REQUIRED) | (states == State.FORBIDDEN)
    return states[counts] == State.REQUIRED, values[counts].astype(np.float64)


def _resampled(truth: np.ndarray) -> np.ndarray:
    """Returns how often each item is drawn in each bootstrap sample, `[draw, N]`.

    Required and forbidden items are resampled separately, so that their numbers stay.
    """
    rng = seeds.generator(0, "bootstrap", "items")
    weights = np.zeros((DRAWS, len(truth)))
    for members in (truth, ~truth):
        count = int(members.sum())
        weights[:, members] = rng.multinomial(count, np.full(count, 1 / count), size=DRAWS)
    return weights


def _corners(hits: np.ndarray, sizes: np.ndarray) -> tuple[tuple[float, float], ...]:
    """Returns the points of the ROC curve at which its slope changes."""
    misses = sizes - hits
    kept = [0, *(np.flatnonzero(misses[1:] * hits[:-1] != misses[:-1] * hits[1:]) + 1), len(hits)]
    true_rate = np.r_[0, hits.cumsum()][kept] / hits.sum()
    false_rate = np.r_[0, misses.cumsum()][kept] / misses.sum()
    return tuple(zip(false_rate.tolist(), true_rate.tolist()))
