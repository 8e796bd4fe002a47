"""The exam: how much worse a method does on networks of tasks in regimes than on their clean twins.

The clean twin of a network is that of the same task without regimes. Differences are paired by network, and
only if the method had the same settings and as many pairs of inputs on both; their means are over programs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from interpbench.core.estimate import Estimate
from interpbench.scoring.comparison import holm, mean_interval, wilcoxon
from interpbench.scoring.intervals import within
from interpbench.scoring.leaderboard_data import Board
from interpbench.scoring.leaderboard_rows import HEADLINE_LEVEL, TRUTH, LeaderboardRow
from interpbench.scoring.metric import ScoreMetric
from interpbench.scoring.orders import ALL_ORDERS, PRECISION, RECALL
from interpbench.scoring.ranking_metrics import HEADLINE, precision_at_size
from interpbench.scoring.results import Chosen
from interpbench.tasks.family import split_name
from interpbench.tasks.regimes.regime import regimes_of

NOT_COMPARED = (TRUTH, "random")
"""The rows that are no method's: nothing of a network changes them."""
DIRECTION = "direction="
"""What stands before a direction in the name of a row's method, as in `exact+direction=both`."""
JOINT = " + "
"""What stands between the names of regimes that a network is in together."""


def _of_any_order(name: str, of_order_0: str, title: str) -> ScoreMetric:
    """Returns a metric of what is required of any order; where all is of order 0, that has another name."""

    def of(row: LeaderboardRow) -> Estimate | None:
        metrics = row.at(HEADLINE_LEVEL).metrics
        return metrics.get(name) or metrics.get(of_order_0)

    return ScoreMetric(name, title, of, "accuracy", level=HEADLINE_LEVEL)


def _answers(row: LeaderboardRow) -> Estimate | None:
    return row.sufficiency and row.sufficiency.answers


def _complete(row: LeaderboardRow) -> Estimate | None:
    return row.sufficiency and Estimate(float(row.sufficiency.held >= 1))


def _needed(row: LeaderboardRow) -> Estimate | None:
    found = row.sufficiency
    return None if found is None or found.needed is None else Estimate(found.needed)


def _chosen_size(row: LeaderboardRow) -> Estimate | None:
    if row.smallest is None or row.sufficiency is None or not row.sufficiency.edges:
        return None
    return Estimate(row.smallest.edges / row.sufficiency.edges)


def _chosen_precision(row: LeaderboardRow) -> Estimate | None:
    return row.smallest and Estimate(row.smallest.precision or 0.0)


def _chosen_recall(row: LeaderboardRow) -> Estimate | None:
    return row.smallest and Estimate(row.smallest.held)


METRICS = {
    "precision": _of_any_order(PRECISION, precision_at_size.name, "precision at the true size"),
    "auroc": _of_any_order(ALL_ORDERS, HEADLINE.name, "AUROC"),
    "complete": ScoreMetric("complete", "share of complete circuits", _complete, "accuracy"),
    "answers": ScoreMetric("answers", "share of right answers", _answers, "behaviour"),
    "needed": ScoreMetric("needed", "share of edges that are needed", _needed, "behaviour"),
    "chosen_size": ScoreMetric(
        "chosen_size",
        "edges for right answers, over those required",
        _chosen_size,
        "behaviour",
        range=(0, None),
    ),
    "chosen_precision": ScoreMetric("chosen_precision", "precision of these", _chosen_precision, "accuracy"),
    "chosen_recall": ScoreMetric("chosen_recall", "recall of these", _chosen_recall, "accuracy"),
}
"""What the exam compares: the ranking of edges that are required of any order, and two circuits.

The one has as many edges as are required of any order. It is complete if it holds all of these, sufficient if
all answers are right with everything else patched, and minimal if all its edges are needed. The other, whose
size is chosen without the truth, has as many of the best edges as it takes for right answers."""

BEST = {"chosen_size": 1.0}
"""The best value of metrics of which neither the largest nor the smallest one is."""
OF_CIRCUITS = ("complete", "answers", "needed")
"""The names of those that are of the circuit of the true size."""
OF_CHOSEN = ("chosen_size", "chosen_precision", "chosen_recall")
"""The names of those that are of the circuit whose size is chosen."""


@dataclass(frozen=True)
class RegimeEffect:
    """What regimes do to a method.

    Attributes:
        regimes: the names of the regimes, joined by `JOINT`.
        method: the method.
        models: the number of networks that have a clean twin on which the method was run, too.
        programs: the number of their programs.
        inside: the mean of the method's number on these networks.
        twin: the mean on their twins.
        difference: the mean of the first minus the second.
        p: the two-sided p-value of the exact Wilcoxon signed-rank test on the programs' mean differences.
        adjusted: `p` corrected for all methods and regimes (Holm 1979): of methods in their usual direction,
            or of all in other directions.
    """

    regimes: str
    method: str
    models: int
    programs: int
    inside: Estimate
    twin: Estimate
    difference: Estimate
    p: float
    adjusted: float = 1.0


def direction_of(method: str) -> tuple[str, str | None]:
    """Returns the name of a row's method without the setting `direction`, and its value, if it has one."""
    parts = method.split("+")
    said = [part for part in parts if part.startswith(DIRECTION)]
    usual = "+".join(part for part in parts if not part.startswith(DIRECTION))
    return usual, said[0].removeprefix(DIRECTION) if said else None


def in_usual_direction(board: Board) -> Board:
    """Returns the rows of a board in which methods patch the runs that their authors do."""
    return replace(board, rows=tuple(row for row in board.rows if direction_of(row.method)[1] is None))


def regime_effects(board: Board, clean: Board, metric: ScoreMetric) -> list[RegimeEffect]:
    """Returns what each combination of regimes does to each method, by regimes, then in the board's order.

    Args:
        board: the rows of networks in regimes.
        clean: those of their twins, among others.
        metric: the number that is compared.
    """
    twins = {(row.task, row.method): row for row in clean.rows}
    pairs: dict[tuple[str, str], list[tuple[float, float, str]]] = {}
    for row in board.rows:
        twin = twins.get((split_name(row.task)[0], row.method))
        values = [metric.of(one) for one in (row, twin) if one is not None]
        wanted = bool(combination(row.task)) and row.method not in NOT_COMPARED and not row.left_out
        if wanted and twin is not None and _alike(row, twin) and len(values) == 2 and all(values):
            inside, outside = (one.value for one in values if one is not None)
            pairs.setdefault((combination(row.task), row.method), []).append((inside, outside, row.program))
    order = {method: place for place, method in enumerate(board.methods)}
    found = [
        _effect(*key, pairs[key]) for key in sorted(pairs, key=lambda key: (_depth(key[0]), order[key[1]]))
    ]
    adjusted: dict[int, float] = {}
    for usual in (True, False):
        family = [place for place, one in enumerate(found) if (direction_of(one.method)[1] is None) == usual]
        if family:
            adjusted.update(zip(family, holm([found[place].p for place in family])))
    return [replace(one, adjusted=adjusted[place]) for place, one in enumerate(found)]


@dataclass(frozen=True)
class OrderEffect:
    """What a method finds of the edges that matter alone, and of those that matter with another one only.

    Both are shares of those among its best edges, as many as are required of any order.

    Attributes:
        regimes: the names of the regimes of the networks, joined by `JOINT`.
        method: the method.
        models: the number of networks in which some edge is required of order 1.
        programs: the number of their programs.
        alone: the mean share of what is required of order 0.
        together: the mean share of what is required of order 1.
        difference: the mean of the second minus the first.
    """

    regimes: str
    method: str
    models: int
    programs: int
    alone: Estimate
    together: Estimate
    difference: Estimate


def order_effects(board: Board) -> list[OrderEffect]:
    """Returns what methods find by order, by regimes, then in the board's order.

    Args:
        board: the rows of networks, of which those without an edge of order 1 say nothing.
    """
    shares: dict[tuple[str, str], list[tuple[float, float, str]]] = {}
    for row in board.rows:
        metrics = row.at(HEADLINE_LEVEL).metrics
        both = [metrics.get(f"{RECALL}{order}") for order in (0, 1)]
        if all(both) and row.method not in NOT_COMPARED and not row.left_out:
            alone, together = (one.value for one in both if one is not None)
            shares.setdefault((combination(row.task), row.method), []).append((alone, together, row.program))
    order = {method: place for place, method in enumerate(board.methods)}
    found: list[OrderEffect] = []
    for regimes, method in sorted(shares, key=lambda key: (_depth(key[0]), order[key[1]])):
        those = shares[regimes, method]
        alone, together = (np.array(side, float) for side in list(zip(*those))[:2])
        programs = [program for _, _, program in those]
        means = (mean_interval(each.tolist(), programs) for each in (alone, together, together - alone))
        found.append(OrderEffect(regimes, method, len(those), len(set(programs)), *means))
    return found


@dataclass(frozen=True)
class ThresholdEffect:
    """The circuits that a method itself returns at a threshold, as means over programs.

    Attributes:
        group: the names of the regimes of the networks, joined by `JOINT`; empty for their clean twins.
        method: the method.
        threshold: the threshold.
        size: the number of edges, over that of those required of any order.
        precision: the share of edges that are right, 0 for a circuit without any.
        recall: the share of what is required that is in the circuit.
    """

    group: str
    method: str
    threshold: str
    size: float
    precision: float
    recall: float


def threshold_effects(board: Board, clean: Board) -> list[ThresholdEffect]:
    """Returns what methods return at thresholds of their own, on networks in regimes and on their twins.

    Only networks that both were run on, with the same settings, count.

    Args:
        board: the rows of networks in regimes.
        clean: those of their twins, among others.
    """
    twins = {(row.task, row.method): row for row in clean.rows}
    rows: list[LeaderboardRow] = []
    for row in board.rows:
        twin = twins.get((split_name(row.task)[0], row.method))
        if twin is not None and _alike(row, twin):
            rows += [row] if twin in rows else [twin, row]
    found: dict[tuple[str, str, str], list[tuple[LeaderboardRow, Chosen]]] = {}
    for row in (row for row in rows if not row.left_out and row.sufficiency and row.sufficiency.edges):
        for threshold, each in row.own.items():
            found.setdefault((combination(row.task), row.method, threshold), []).append((row, each))
    effects: list[ThresholdEffect] = []
    for (group, method, threshold), those in found.items():
        programs = [row.program for row, _ in those]
        numbers = [
            (each.edges / row.sufficiency.edges, each.precision or 0.0, each.held)
            for row, each in those
            if row.sufficiency
        ]
        means = within(programs, np.array(numbers).T).mean(-1)
        effects.append(ThresholdEffect(group, method, threshold, *map(float, means)))
    return sorted(effects, key=lambda one: (one.method, _depth(one.group), float(one.threshold)))


def _alike(row: LeaderboardRow, twin: LeaderboardRow) -> bool:
    """Returns whether two rows are of a method with the same settings on as many pairs of inputs."""
    return (row.settings, row.examples, row.structural) == (twin.settings, twin.examples, twin.structural)


def combination(task: str) -> str:
    """Returns the names of the regimes that a task is in, joined by `JOINT`, without their dials."""
    return JOINT.join(regimes_of(task))


def _depth(regimes: str) -> tuple[int, str]:
    return regimes.count(JOINT), regimes


def _effect(regimes: str, method: str, pairs: Sequence[tuple[float, float, str]]) -> RegimeEffect:
    inside, outside = (np.array(side, float) for side in list(zip(*pairs))[:2])
    programs = [program for _, _, program in pairs]
    means = within(programs, inside - outside)
    return RegimeEffect(
        regimes,
        method,
        len(pairs),
        len(means),
        mean_interval(inside.tolist(), programs),
        mean_interval(outside.tolist(), programs),
        mean_interval((inside - outside).tolist(), programs),
        wilcoxon(means),
    )
