"""What tells certified networks from natural ones, and whether methods rank alike on both."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import kendalltau
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from benchmarks.realism.measurements import DECODABILITY
from benchmarks.realism.rankings import Ranked, mean_over_seeds
from interpbench.core import seeds
from interpbench.core.estimate import Estimate
from interpbench.scoring.comparison import mean_interval

PERMUTATIONS = 200
LEAST_P = 1 / (PERMUTATIONS + 1)
"""The least p there can be: no exchange of labels does as well."""


@dataclass(frozen=True)
class Row:
    """The measurements of one network of the study.

    Attributes:
        task: the name of its task.
        regime: how it was trained.
        features: its features by name.
        ranked: the numbers of methods on it.
    """

    task: str
    regime: str
    features: Mapping[str, float]
    ranked: Ranked


@dataclass(frozen=True)
class Apart:
    """How well networks of two regimes can be told apart.

    Attributes:
        auroc: the AUROC of a classifier on tasks that it was not fitted on, mean over tasks.
        p: the share of random exchanges of labels within tasks that reach this AUROC.
        blind: the AUROC without the features that need the program, not only its inputs and outputs.
        features: the AUROC of each feature alone, within tasks.
    """

    auroc: Estimate
    p: float
    blind: Estimate
    features: dict[str, Estimate]


def apart(rows: Sequence[Row], first: str, second: str) -> Apart:
    """Returns how well the networks of the second regime can be told from those of the first.

    The classifier is a logistic regression with an L2 penalty on features that have mean 0 and deviation 1
    within each task, over the networks of both regimes. It is fitted on all tasks but one and tested on that
    one, for each task. The interval is that of a bootstrap of tasks.
    """
    some = [row for row in rows if row.regime in (first, second)]
    tasks = np.array([row.task for row in some])
    labels = np.array([row.regime == second for row in some])
    names = list(some[0].features)
    x = np.array([[row.features[name] for name in names] for row in some])
    x = _standardised(x, tasks)
    each = _held_out(x, labels, tasks)
    generator = seeds.generator(0, "realism", "labels")
    reached = 1
    for _ in range(PERMUTATIONS):
        mixed = labels.copy()
        for task in np.unique(tasks):
            here = tasks == task
            mixed[here] = generator.permutation(mixed[here])
        reached += np.mean(_held_out(x, mixed, tasks)) >= np.mean(each)
    places = sorted(set(tasks.tolist()))
    single = {
        name: mean_interval(
            [float(roc_auc_score(labels[tasks == task], x[tasks == task, column])) for task in places], places
        )
        for column, name in enumerate(names)
    }
    known = [not name.startswith(DECODABILITY) for name in names]
    blind = mean_interval(_held_out(x[:, known], labels, tasks), places)
    return Apart(mean_interval(each, places), reached * LEAST_P, blind, single)


def auroc(rows: Sequence[Row], first: str, second: str) -> Estimate:
    """Returns the AUROC of the classifier of `apart` alone."""
    some = [row for row in rows if row.regime in (first, second)]
    tasks, labels = np.array([row.task for row in some]), np.array([row.regime == second for row in some])
    x = _standardised(np.array([list(row.features.values()) for row in some]), tasks)
    return mean_interval(_held_out(x, labels, tasks), sorted(set(tasks.tolist())))


def _standardised(x: np.ndarray, tasks: np.ndarray) -> np.ndarray:
    """Returns features `[row, feature]` with mean 0 and deviation 1 within each task."""
    made = np.zeros_like(x)
    for task in np.unique(tasks):
        here = x[tasks == task]
        deviation = here.std(0)
        made[tasks == task] = (here - here.mean(0)) / np.where(deviation > 1e-9, deviation, 1)
    return made


def _held_out(x: np.ndarray, labels: np.ndarray, tasks: np.ndarray) -> list[float]:
    """Returns the AUROC on each task of a classifier that was fitted on the others, tasks in order."""
    found: list[float] = []
    for task in sorted(set(tasks.tolist())):
        here = tasks == task
        fitted = LogisticRegression(C=0.1, max_iter=1000).fit(x[~here], labels[~here])
        found.append(float(roc_auc_score(labels[here], fitted.decision_function(x[here]))))
    return found


@dataclass(frozen=True)
class Agreement:
    """How far two rankings of methods agree: Kendall's τ of each task, mean over tasks, with its interval.

    Attributes:
        cmd: that of rankings by CMD.
        cpr: that of rankings by CPR.
    """

    cmd: Estimate
    cpr: Estimate


def agreement(rows: Sequence[Row], first: str, second: str) -> Agreement:
    """Returns how methods' rankings on networks of two regimes agree, on the same tasks."""

    def of(number: Callable[[Ranked], Mapping[str, float]]) -> Estimate:
        return _over_tasks(
            rows,
            lambda here: (
                mean_over_seeds([number(row.ranked) for row in here if row.regime == first]),
                mean_over_seeds([number(row.ranked) for row in here if row.regime == second]),
            ),
        )

    return Agreement(of(lambda ranked: ranked.cmd), of(lambda ranked: ranked.cpr))


def agreement_lost(rows: Sequence[Row], first: str, second: str, control: str) -> Agreement:
    """Returns by how much τ with the first regime is less on the second regime than on the control.

    Differences are taken within tasks, so that what a task does to both does not count.
    """

    def of(number: Callable[[Ranked], Mapping[str, float]]) -> Estimate:
        def mean(here: Sequence[Row], regime: str) -> np.ndarray:
            return mean_over_seeds([number(row.ranked) for row in here if row.regime == regime])

        there, here = (
            _taus(rows, lambda some, other=other: (mean(some, first), mean(some, other)))
            for other in (control, second)
        )
        tasks = sorted(there.keys() & here.keys())
        return mean_interval([there[task] - here[task] for task in tasks], tasks)

    return Agreement(of(lambda ranked: ranked.cmd), of(lambda ranked: ranked.cpr))


def truth_agreement(rows: Sequence[Row], regime: str) -> Agreement:
    """Returns how methods' rankings by faithfulness agree with those by the known circuit, on one regime."""

    def of(number: Callable[[Ranked], Mapping[str, float]], sign: int) -> Estimate:
        def both(here: Sequence[Row]) -> tuple[np.ndarray, np.ndarray]:
            mine = [row.ranked for row in here if row.regime == regime]
            return sign * mean_over_seeds([number(one) for one in mine]), mean_over_seeds(
                [one.auroc for one in mine]
            )

        return _over_tasks(rows, both)

    return Agreement(of(lambda ranked: ranked.cmd, -1), of(lambda ranked: ranked.cpr, 1))


Both = Callable[[Sequence[Row]], tuple[np.ndarray, np.ndarray]]
"""Returns two numbers of each method on the networks of a task."""


def _over_tasks(rows: Sequence[Row], both: Both) -> Estimate:
    """Returns the mean over tasks of Kendall's τ between two numbers of each method."""
    taus = _taus(rows, both)
    return mean_interval(list(taus.values()), list(taus))


def _taus(rows: Sequence[Row], both: Both) -> dict[str, float]:
    """Returns Kendall's τ on each task, but those on which a ranking is not defined, or a single tie."""
    taus: dict[str, float] = {}
    for task in sorted({row.task for row in rows}):
        one, other = both([row for row in rows if row.task == task])
        result: Any = kendalltau(one, other)
        tau = float(result.statistic)
        if np.isfinite(tau):
            taus[task] = tau
    return taus
