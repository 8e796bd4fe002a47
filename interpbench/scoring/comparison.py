"""Methods against each other, paired across models: every method has seen every model.

Models that share a program are not independent: tests use the mean of each program, and the bootstrap draws
whole programs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from scipy.stats import rankdata

from interpbench.core.estimate import Estimate
from interpbench.scoring.intervals import bootstrap, clustered


@dataclass(frozen=True)
class Comparison:
    """Two methods on the models that both have a number for.

    Attributes:
        first, second: the methods.
        models: how many models; `programs` how many programs they are of.
        difference: the mean over models of first minus second.
        a12: probability that first is above second on models drawn at random, ties half (Vargha & Delaney
            2000).
        p: two-sided, of the exact Wilcoxon signed-rank test on the programs' differences.
        adjusted: `p` corrected for all comparisons of the table (Holm 1979).
    """

    first: str
    second: str
    models: int
    programs: int
    difference: Estimate
    a12: Estimate
    p: float
    adjusted: float = 1.0


def mean_interval(values: Sequence[float], programs: Sequence[str]) -> Estimate:
    """Returns the mean over models with the interval of a bootstrap that draws programs."""
    weights, array = clustered(programs), np.array(values, float)
    return bootstrap(array.mean(), weights @ array / weights.sum(1))


def compare_methods(
    values: Mapping[str, Mapping[str, float]], programs: Mapping[str, str]
) -> list[Comparison]:
    """Compares every two methods.

    Args:
        values: method to model to number, larger being better.
        programs: model to its program.
    """
    found: list[Comparison] = []
    for first, second in combinations(values, 2):
        shared = [model for model in values[first] if model in values[second]]
        if shared:
            x, y = (np.array([values[method][model] for model in shared]) for method in (first, second))
            found.append(_pair(first, second, x, y, [programs[model] for model in shared]))
    adjusted = holm([one.p for one in found])
    return [replace(one, adjusted=p) for one, p in zip(found, adjusted)]


def _pair(first: str, second: str, x: np.ndarray, y: np.ndarray, programs: Sequence[str]) -> Comparison:
    weights = clustered(programs)
    wins = (np.sign(x[:, None] - y[None]) + 1) / 2
    drawn = np.einsum("di,ij,dj->d", weights, wins, weights) / weights.sum(1) ** 2
    names = sorted(set(programs))
    means = [float(np.mean([d for d, name in zip(x - y, programs) if name == one])) for one in names]
    return Comparison(
        first,
        second,
        len(x),
        len(names),
        mean_interval((x - y).tolist(), programs),
        bootstrap(a12(x, y), drawn),
        wilcoxon(np.array(means)),
    )


def a12(x: np.ndarray, y: np.ndarray) -> float:
    """Returns the share of all pairs in which `x` is above `y`, ties half."""
    return float(((np.sign(x[:, None] - y[None]) + 1) / 2).mean())


def wilcoxon(differences: np.ndarray) -> float:
    """Returns the exact two-sided p-value of the signed-rank test.

    Zeros are dropped, ties share their mean rank, and the null is that of the observed ranks under all sign
    flips, counted by adding one difference after another; so it is exact with ties, where tables are not.
    """
    differences = np.round(differences[differences != 0], 12)
    doubled = np.rint(2 * rankdata(abs(differences))).astype(int)
    ways = np.ones(1)
    for rank in doubled:
        longer = np.zeros(len(ways) + rank)
        longer[: len(ways)] += ways / 2
        longer[rank:] += ways / 2
        ways = longer
    positive = int(doubled[differences > 0].sum())
    tail = min(ways[: positive + 1].sum(), ways[positive:].sum())
    return float(min(1.0, 2 * tail))


def holm(p: Sequence[float]) -> list[float]:
    """Returns p-values corrected for their number by Holm's step-down rule (Holm 1979)."""
    from statsmodels.stats.multitest import multipletests  # a second, which tables alone need

    return np.asarray(multipletests(p, method="holm")[1]).tolist()


def mean_ranks(values: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Returns each method's mean rank (1 is best, ties share) over the models that all have a number for."""
    models = set.intersection(*(set(of) for of in values.values())) if values else set[str]()
    if not models:
        return {}
    table = np.array([[values[method][model] for model in sorted(models)] for method in values])
    return dict(zip(values, rankdata(-np.round(table, 12), axis=0).mean(1).tolist()))
