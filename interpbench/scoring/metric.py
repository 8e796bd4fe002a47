"""Metrics, which are numbers by which methods are compared, and their registries.

There are two kinds. A metric of rankings is computed from a ranking and the ground truth (`ranking_metrics`).
Any other metric is a function of a leaderboard's row (`row_metrics`). Both are registered by a decorator;
tables, comparisons and figures use all that are registered.

Letters of shapes: K weightings of the items of a ranking (the observed one, or bootstrap samples), G groups
of items with equal scores, from the highest score to the lowest.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeVar

import numpy as np

from interpbench.circuits.graph import Graph
from interpbench.circuits.ground_truth import Level
from interpbench.core.estimate import Estimate
from interpbench.scoring.leaderboard_rows import Headline, LeaderboardRow

Table = Literal["accuracy", "behaviour", "cost", "stability"]
"""The tables of a leaderboard; each metric is a column of one of them."""
FromRow = Callable[[LeaderboardRow], Estimate | None]
"""The type of functions that return the number of a metric in a row; None if the row has none."""


@dataclass(frozen=True)
class ScoreMetric:
    """A metric as a function of a leaderboard's row.

    Attributes:
        name: the name of the metric.
        title: the title of its column in tables.
        of: returns the number in a row; None if the row has none.
        table: the table that it is a column of.
        larger_is_better: whether larger numbers are better.
        range: the smallest and the largest possible value; None for an end that is open.
        level: for a metric of rankings, the level of detail of the ranking; else None.
        has_null: whether its distribution for random scores can be computed.
    """

    name: str
    title: str
    of: FromRow
    table: Table
    larger_is_better: bool = True
    range: tuple[float | None, float | None] = (0, 1)
    level: Level | Headline | None = None
    has_null: bool = False


class RankingCounts:
    """A ranking with K weightings of its items.

    Attributes:
        hits: the weight of required items in each group, `[K, G]`.
        sizes: the weight of all items in each group, `[K, G]`.
    """

    def __init__(self, hits: np.ndarray, sizes: np.ndarray):
        self.hits, self.sizes = hits, sizes

    @cached_property
    def taken(self) -> np.ndarray:
        """The weight of all items in the groups up to and including each, `[K, G]`."""
        return self.sizes.cumsum(1)

    @cached_property
    def found(self) -> np.ndarray:
        """The weight of required items in the groups up to and including each, `[K, G]`."""
        return self.hits.cumsum(1)

    @property
    def positives(self) -> np.ndarray:
        """The weight of required items in all groups, `[K, 1]`."""
        return self.found[:, -1:]

    @cached_property
    def false(self) -> np.ndarray:
        """The weight of forbidden items in the groups up to and including each, `[K, G]`."""
        return self.taken - self.found

    @property
    def negatives(self) -> np.ndarray:
        """The weight of forbidden items in all groups, `[K, 1]`."""
        return self.false[:, -1:]


Compute = Callable[[RankingCounts], np.ndarray]
"""The type of functions from a ranking with K weightings to K numbers."""
OnGraph = Callable[[Graph, np.ndarray, np.ndarray], float | None]
"""The type of functions from a graph, the true circuit and scores, `[reader, writer]`, to a number."""
Interval = Callable[[float, int, int], Estimate]
"""The type of functions from a value and the numbers of required and forbidden items to an estimate."""


@dataclass(frozen=True)
class RankingMetric:
    """A metric of rankings of nodes or edges.

    Attributes:
        name: the name of the metric, under which it is in `LevelScores.metrics`.
        title: the title of its column in tables.
        compute: computes it from a ranking; None for a metric that needs the graph.
        on_graph: computes it from the graph and the scores of q/k/v edges; None for a metric of any ranking.
        interval: computes its interval; None for the interval of a bootstrap of items.
        larger_is_better: whether larger numbers are better.
        range: the smallest and the largest possible value.
    """

    name: str
    title: str
    compute: Compute | None = None
    on_graph: OnGraph | None = None
    interval: Interval | None = None
    larger_is_better: bool = True
    range: tuple[float, float] = (0, 1)

    def at(self, level: Level | Headline) -> ScoreMetric:
        """Returns the metric at a level of detail, as a function of rows.

        A metric that needs the graph is that of q/k/v edges at every level.
        """
        own = level if self.on_graph is None else "qkv_edge"

        def of(row: LeaderboardRow) -> Estimate | None:
            return row.at(own).metrics.get(self.name)

        null = self.compute is not None
        return ScoreMetric(
            self.name, self.title, of, "accuracy", self.larger_is_better, self.range, level, null
        )


RANKING: dict[str, RankingMetric] = {}
"""The registry of metrics of rankings, in the order of the columns of tables; `ranking_metrics` fills it."""
ROW: dict[str, ScoreMetric] = {}
"""The registry of all other metrics, in the order of the columns of tables; `row_metrics` fills it."""


def ranking_metric(
    title: str,
    *,
    interval: Interval | None = None,
    larger_is_better: bool = True,
    range: tuple[float, float] = (0, 1),
) -> Callable[[Compute], RankingMetric]:
    """Returns a decorator that registers a function of `RankingCounts` as a metric with the function's name.

    Args:
        title: the title of its column in tables.
        interval: computes its interval; None for the interval of a bootstrap of items.
        larger_is_better: whether larger numbers are better.
        range: the smallest and the largest possible value.

    Raises:
        ValueError: if there is a metric of this name already.
    """

    def register(compute: Compute) -> RankingMetric:
        name = compute.__name__
        return register_metric(
            RankingMetric(name, title, compute, None, interval, larger_is_better, range), RANKING
        )

    return register


M = TypeVar("M", RankingMetric, ScoreMetric)


def register_metric(made: M, registry: dict[str, M]) -> M:
    """Adds a metric to a registry, `RANKING` or `ROW`, and returns it.

    Raises:
        ValueError: if there is a metric of this name already.
    """
    if made.name in registry:
        raise ValueError(f"metric {made.name!r} is registered twice; choose another name")
    registry[made.name] = made
    return made


def row_metric(
    title: str,
    table: Table,
    *,
    larger_is_better: bool = True,
    range: tuple[float | None, float | None] = (0, 1),
) -> Callable[[FromRow], ScoreMetric]:
    """Returns a decorator that registers a function of rows as a metric with the function's name.

    Args:
        title: the title of its column.
        table: the table that it is a column of.
        larger_is_better: whether larger numbers are better.
        range: the smallest and the largest possible value; None for an end that is open.

    Raises:
        ValueError: if there is a metric of this name already.
    """

    def register(of: FromRow) -> ScoreMetric:
        return register_metric(ScoreMetric(of.__name__, title, of, table, larger_is_better, range), ROW)

    return register
