"""The stability of a method: the agreement of its runs on samples of the pairs, or with other seeds.

Méloux et al. (2025, arXiv 2510.00845) call a method stable if the Jaccard index of its circuits is at least
0.8.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import torch
from scipy.stats import rankdata

from interpbench.circuits.ground_truth import LEVELS, Level, Truth
from interpbench.circuits.scores import Scores
from interpbench.core import seeds
from interpbench.core.estimate import Estimate
from interpbench.scoring.circuits_from_scores import best_edges
from interpbench.scoring.curves import labels_and_scores
from interpbench.scoring.intervals import bootstrap, resampling
from interpbench.scoring.metric import RankingCounts
from interpbench.scoring.ranking_groups import Groups
from interpbench.scoring.ranking_metrics import auroc
from interpbench.scoring.results import Rerun, Spread, Stability
from interpbench.tasks.problem import Problem


def stability(
    method: Callable[[Problem], Scores], problem: Problem, truth: Truth, size: int, samples: int, others: int
) -> dict[Rerun, Stability]:
    """Runs a method several times and compares the results.

    Args:
        method: the method.
        problem: the network and the pairs of inputs.
        truth: the ground truth, against which each run is scored.
        size: the number of q/k/v edges in the circuits that are compared.
        samples: the number of bootstrap samples of the pairs; 0 for none.
        others: the number of seeds besides that of the problem; 0 for no runs with other seeds.

    Returns:
        The agreement of the runs on samples of `pairs`, and of those with several `seeds`, if there are any.
    """
    count = len(problem.clean)
    drawn = [
        np.sort(seeds.generator(problem.seed, "stability", sample).integers(count, size=count))
        for sample in range(samples)
    ]
    again: dict[Rerun, list[Problem]] = {
        "pairs": [_taken(problem, rows) for rows in drawn],
        "seeds": [replace(problem, seed=problem.seed + step) for step in range(others + 1)] if others else [],
    }
    return {
        name: agreement([method(one) for one in problems], truth, size)
        for name, problems in again.items()
        if problems
    }


def agreement(found: Sequence[Scores], truth: Truth, size: int) -> Stability:
    """Returns the agreement of the scores of several runs.

    Equal scores are ordered in the same way in each run, so that the circuits of runs that agree are equal.
    In rank correlations, ties have their mean rank. Intervals are those of a bootstrap of runs, in which a
    pair of a run with itself does not count.

    Args:
        found: the scores of each run.
        truth: the ground truth.
        size: the number of q/k/v edges in the circuits that are compared.
    """
    graph, runs = truth.graph, [scores.edges for scores in found]
    circuits = [best_edges(graph, run, size, seeds.generator(0, "stability", "ties")) for run in runs]
    ranks = np.stack([rankdata(run[graph.legal]) for run in runs])
    varied = bool((np.ptp(ranks, axis=1) > 0).all())
    correlation = np.corrcoef(ranks) if varied and len(runs) > 1 else None
    weights = resampling(len(runs), "runs")

    def estimate(value: Callable[[int, int], float]) -> Estimate:
        pairs = list(combinations(range(len(runs)), 2))
        values = np.array([value(a, b) for a, b in pairs])
        shares = np.stack([weights[:, a] * weights[:, b] for a, b in pairs], 1)
        shares = shares[shares.sum(1) > 0]
        return bootstrap(values.mean(), shares @ values / shares.sum(1))

    def jaccard(a: int, b: int) -> float:
        union = (circuits[a] | circuits[b]).sum()
        return float((circuits[a] & circuits[b]).sum() / union) if union else 1.0

    if len(runs) < 2:
        return Stability(len(runs), None, None, _aurocs(truth, found))
    return Stability(
        len(runs),
        estimate(jaccard),
        None if correlation is None else estimate(lambda a, b: float(correlation[a, b])),
        _aurocs(truth, found),
    )


def _taken(problem: Problem, rows: np.ndarray) -> Problem:
    """Returns the problem with the pairs whose indices are `rows`, in which a pair may come several times."""
    index = torch.from_numpy(rows).to(problem.clean.device)
    return replace(
        problem,
        clean=problem.clean[index],
        corrupted=problem.corrupted[index],
        scored=problem.scored[:, index],
    )


def _aurocs(truth: Truth, runs: Sequence[Scores]) -> dict[Level, Spread]:
    """Returns mean and standard deviation over runs of the AUROC at each level of detail."""
    found: dict[Level, Spread] = {}
    compute = auroc.compute
    assert compute is not None
    for level in LEVELS:
        values: list[float] = []
        for scores in runs:
            required, ranking = labels_and_scores(truth, scores, level)
            if required.any() and not required.all():
                groups = Groups(ranking)
                hits, sizes = (groups.sums(x[None].astype(float)) for x in (required, np.ones(len(required))))
                values.append(float(compute(RankingCounts(hits, sizes))[0]))
        if values:
            found[level] = Spread(float(np.mean(values)), float(np.std(values, ddof=len(values) > 1)))
    return found
