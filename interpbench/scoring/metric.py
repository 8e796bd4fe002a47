"""What a metric is: a number by which methods are compared, drawn from the row of a leaderboard.

A metric of rankings is a decorated function (`ranking_metrics.py`); any other number of a row is a
`ScoreMetric`
(`row_metrics.py`). Tables, comparisons, figures and records take them from the registry here.
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
"""The table of a leaderboard that a metric is a column of."""


FromRow = Callable[[LeaderboardRow], Estimate | None]


@dataclass(frozen=True)
class ScoreMetric:
    """One number of a leaderboard's row.

    Attributes:
        name: of the metric.
        title: what tables call it.
        of: draws the number from a row; None where the row has none.
        table: of which it is a column.
        larger_is_better: its direction.
        range: the least and the largest value; None for an end that is open.
        level: what it scores, if that is a ranking of nodes or edges.
        has_null: whether it is known what random scores get.
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
    """One ranking whose items are weighted in K ways.

    Attributes:
        hits: `[K, group]`: the weight of required items in each group of ties, the highest scores first.
        sizes: `[K, group]`: the weight of all items in it.
    """

    def __init__(self, hits: np.ndarray, sizes: np.ndarray):
        self.hits, self.sizes = hits, sizes

    @cached_property
    def taken(self) -> np.ndarray:
        """`[K, group]`: the weight of all items up to and with each group."""
        return self.sizes.cumsum(1)

    @cached_property
    def found(self) -> np.ndarray:
        """`[K, group]`: the weight of required items up to and with each group."""
        return self.hits.cumsum(1)

    @property
    def positives(self) -> np.ndarray:
        """`[K, 1]`: the weight of required items."""
        return self.found[:, -1:]

    @cached_property
    def false(self) -> np.ndarray:
        """`[K, group]`: the weight of forbidden items up to and with each group."""
        return self.taken - self.found

    @property
    def negatives(self) -> np.ndarray:
        """`[K, 1]`: the weight of forbidden items."""
        return self.false[:, -1:]


Compute = Callable[[RankingCounts], np.ndarray]
OnGraph = Callable[[Graph, np.ndarray, np.ndarray], float | None]
Interval = Callable[[float, int, int], Estimate]


@dataclass(frozen=True)
class RankingMetric:
    """A number of a ranking of nodes or edges.

    Attributes:
        name: in records, `LevelScores.metrics`.
        title: what tables call it.
        compute: from K weightings of a ranking to K numbers; None for one that needs the graph.
        on_graph: from the graph, the true circuit and the scores `[reader, writer]` to the number of q/k/v
            edges; None for one that needs the ranking alone.
        interval: from a number and the counts of required and forbidden items to the number with its
            interval; None for a bootstrap of items.
        larger_is_better: its direction.
        range: the least and the largest value.
    """

    name: str
    title: str
    compute: Compute | None = None
    on_graph: OnGraph | None = None
    interval: Interval | None = None
    larger_is_better: bool = True
    range: tuple[float, float] = (0, 1)

    def at(self, level: Level | Headline) -> ScoreMetric:
        """Returns the metric of a row at a level; one that needs the graph is always of q/k/v edges."""
        own = level if self.on_graph is None else "qkv_edge"

        def of(row: LeaderboardRow) -> Estimate | None:
            return row.at(own).metrics.get(self.name)

        null = self.compute is not None
        return ScoreMetric(
            self.name, self.title, of, "accuracy", self.larger_is_better, self.range, level, null
        )


RANKING: dict[str, RankingMetric] = {}
"""The metrics of rankings, in the order of the columns of tables; `ranking_metrics` fills it."""
ROW: dict[str, ScoreMetric] = {}
"""All other metrics, in the order of the columns of tables; `row_metrics` fills it."""


def ranking_metric(
    title: str,
    *,
    interval: Interval | None = None,
    larger_is_better: bool = True,
    range: tuple[float, float] = (0, 1),
) -> Callable[[Compute], RankingMetric]:
    """Registers a function of `RankingCounts` as a metric of the function's name.

    Raises:
        ValueError: if the name is taken.
    """

    def register(compute: Compute) -> RankingMetric:
        name = compute.__name__
        return register_metric(
            RankingMetric(name, title, compute, None, interval, larger_is_better, range), RANKING
        )

    return register


M = TypeVar("M", RankingMetric, ScoreMetric)


def register_metric(made: M, registry: dict[str, M]) -> M:
    """Adds a metric to `RANKING` or to `ROW`.

    Raises:
        ValueError: if the name is taken.
    """
    if made.name in registry:
        raise ValueError(f"metric {made.name!r} is registered twice")
    registry[made.name] = made
    return made


def row_metric(
    title: str,
    table: Table,
    *,
    larger_is_better: bool = True,
    range: tuple[float | None, float | None] = (0, 1),
) -> Callable[[FromRow], ScoreMetric]:
    """Registers a function of a leaderboard's row as a metric of the function's name.

    Raises:
        ValueError: if the name is taken.
    """

    def register(of: FromRow) -> ScoreMetric:
        return register_metric(ScoreMetric(of.__name__, title, of, table, larger_is_better, range), ROW)

    return register
