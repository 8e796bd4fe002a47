"""Comparisons of methods, paired by model.

Models that were trained on the same program are not independent. Means are therefore over programs, each with
the mean over its models; tests use the mean difference of each program, and the bootstrap draws programs.
"""

import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from scipy.stats import rankdata

from interpbench.core.estimate import Estimate
from interpbench.scoring.intervals import bootstrap, draws_of, within


@dataclass(frozen=True)
class Comparison:
    """The comparison of two methods on the models for which both have a number.

    Attributes:
        first: the name of the first method.
        second: the name of the second method.
        models: the number of models.
        programs: the number of programs that these models were trained on.
        difference: the mean over programs of the first method's number minus the second's.
        a12: the probability that the first method's number is above the second's, each on a model of a
            program drawn at random, with ties counted half (Vargha and Delaney 2000).
        p: the two-sided p-value of the exact Wilcoxon signed-rank test on the programs' mean differences.
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
    """Returns the mean over programs, with the interval of a bootstrap of programs.

    Args:
        values: the number of each model.
        programs: the program of each model.
    """
    means = within(programs, np.array(values, float))
    return bootstrap(means.mean(), draws_of(len(means)) @ means)


def compare_methods(
    values: Mapping[str, Mapping[str, float]], programs: Mapping[str, str]
) -> list[Comparison]:
    """Compares every two methods.

    Args:
        values: for each method, its number on each model; larger is better.
        programs: the program of each model.
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
    wins = within(programs, within(programs, above(x, y)).T).T  # [program, program]
    weights = draws_of(len(wins))
    drawn = np.einsum("di,ij,dj->d", weights, wins, weights)
    means = within(programs, x - y)
    return Comparison(
        first,
        second,
        len(x),
        len(means),
        mean_interval((x - y).tolist(), programs),
        bootstrap(wins.mean(), drawn),
        wilcoxon(means),
    )


def above(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Returns 1 where a number of `x` is larger than one of `y`, ½ where they tie, and else 0, `[x, y]`."""
    return (np.sign(x[:, None] - y[None]) + 1) / 2


def wilcoxon(differences: np.ndarray) -> float:
    """Returns the exact two-sided p-value of the Wilcoxon signed-rank test.

    Zeros are dropped and ties have their mean rank. The null distribution is that of the observed ranks over
    all choices of signs, so that the p-value is exact with ties as well.
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
    from statsmodels.stats.multitest import multipletests  # takes a second to import; only tables need it

    gc.freeze()  # `multipletests` collects garbage, which takes seconds where there are many objects
    try:
        return np.asarray(multipletests(p, method="holm")[1]).tolist()
    finally:
        gc.unfreeze()


def mean_ranks(values: Mapping[str, Mapping[str, float]], programs: Mapping[str, str]) -> dict[str, float]:
    """Returns the mean rank of each method over the models for which all methods have a number; 1 is best.

    Args:
        values: for each method, its number on each model; larger is better. Ties have their mean rank.
        programs: the program of each model; all programs count the same.
    """
    models = set.intersection(*(set(of) for of in values.values())) if values else set[str]()
    if not models:
        return {}
    table = np.array([[values[method][model] for model in sorted(models)] for method in values])
    ranks = rankdata(-np.round(table, 12), axis=0)
    return dict(zip(values, within([programs[model] for model in sorted(models)], ranks).mean(1).tolist()))
