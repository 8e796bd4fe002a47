"""Does a method say the same again: on bootstrap samples of the pairs, and with other seeds?

Méloux et al. (2025, arXiv 2510.00845) ask for a Jaccard index of circuits of at least 0.8.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import torch
from scipy.stats import rankdata

from interpbench.circuits.ground_truth import LEVELS, Truth
from interpbench.circuits.scores import Scores
from interpbench.core import seeds
from interpbench.scoring.circuits_from_scores import best_edges
from interpbench.scoring.curves import Groups, numbers
from interpbench.scoring.evaluation_record import labels_and_scores
from interpbench.scoring.intervals import percentiles, resampling
from interpbench.tasks.problem import Problem


def stability(
    method: Callable[[Problem], Scores], problem: Problem, truth: Truth, size: int, samples: int, others: int
) -> dict[str, Any]:
    """Runs a method again and compares what it says.

    Args:
        method: the method.
        problem: what it was run on.
        truth: to score each of the runs.
        size: of the circuits that are compared, in q/k/v edges.
        samples: bootstrap samples of the pairs.
        others: seeds, besides the problem's own.

    Returns:
        For `pairs` and `seeds`: agreement between runs (`agreement`), and the mean and standard deviation of
        each level's AUROC over them.
    """
    count = len(problem.clean)
    drawn = [
        np.sort(seeds.generator(problem.seed, "stability", sample).integers(count, size=count))
        for sample in range(samples)
    ]
    again = {
        "pairs": [_taken(problem, rows) for rows in drawn],
        "seeds": [replace(problem, seed=problem.seed + step) for step in range(others + 1)] if others else [],
    }
    return {
        name: {
            "runs": len(problems),
            **agreement([scores.edges for scores in found], truth, size),
            "auroc": _aurocs(truth, found),
        }
        for name, problems in again.items()
        if problems and (found := [method(one) for one in problems])
    }


def agreement(runs: Sequence[np.ndarray], truth: Truth, size: int) -> dict[str, Any]:
    """Returns how alike scores `[reader, writer]` of several runs are, the mean over pairs of runs.

    `jaccard` is that of the circuits of the given size (ties broken in the same order in each run),
    `rank_correlation` Spearman's of all edges, ties at their mean rank; None if a run scores all alike.
    Intervals: bootstrap of the runs, pairs of a run with itself left out.
    """
    graph = truth.graph
    circuits = [best_edges(graph, run, size, seeds.generator(0, "stability", "ties")) for run in runs]
    ranks = np.stack([rankdata(run[graph.legal]) for run in runs])
    varied = bool((np.ptp(ranks, axis=1) > 0).all())
    correlation = np.corrcoef(ranks) if varied and len(runs) > 1 else None
    weights = resampling(len(runs), "runs")

    def estimate(value: Callable[[int, int], float]) -> dict[str, float]:
        pairs = list(combinations(range(len(runs)), 2))
        values = np.array([value(a, b) for a, b in pairs])
        shares = np.stack([weights[:, a] * weights[:, b] for a, b in pairs], 1)
        shares = shares[shares.sum(1) > 0]
        low, high = percentiles(shares @ values / shares.sum(1))
        return {"value": float(values.mean()), "low": low, "high": high}

    def jaccard(a: int, b: int) -> float:
        union = (circuits[a] | circuits[b]).sum()
        return float((circuits[a] & circuits[b]).sum() / union) if union else 1.0

    if len(runs) < 2:
        return {"jaccard": None, "rank_correlation": None}
    return {
        "jaccard": estimate(jaccard),
        "rank_correlation": None if correlation is None else estimate(lambda a, b: float(correlation[a, b])),
    }


def _taken(problem: Problem, rows: np.ndarray) -> Problem:
    """Returns the problem on some of its pairs, possibly several times the same."""
    index = torch.from_numpy(rows).to(problem.clean.device)
    return replace(
        problem,
        clean=problem.clean[index],
        corrupted=problem.corrupted[index],
        scored=problem.scored[:, index],
    )


def _aurocs(truth: Truth, runs: Sequence[Scores]) -> dict[str, Any]:
    """Returns mean and standard deviation over runs of each level's AUROC."""
    found: dict[str, Any] = {}
    for level in LEVELS:
        values: list[float] = []
        for scores in runs:
            required, ranking = labels_and_scores(truth, scores, level)
            if required.any() and not required.all():
                groups = Groups(ranking)
                hits, sizes = (groups.sums(x[None].astype(float)) for x in (required, np.ones(len(required))))
                values.append(float(numbers(hits, sizes)["auroc"][0]))
        if values:
            found[level] = {
                "mean": float(np.mean(values)),
                "deviation": float(np.std(values, ddof=len(values) > 1)),
            }
    return found
