"""The metrics of a leaderboard's row that are not metrics of rankings, in the order of the columns of tables.

Each is a function from a row to a number, which `@row_metric` registers as a column of a table.
"""

from interpbench.core.estimate import Estimate
from interpbench.scoring.leaderboard_rows import LeaderboardRow
from interpbench.scoring.metric import ROW, ScoreMetric, Table, row_metric

AMOUNT = (0, None)
"""The range of metrics that are not negative."""


@row_metric("CPR", "behaviour", range=(None, None))
def cpr(row: LeaderboardRow) -> Estimate | None:
    """Returns the area under the faithfulness curve of circuits of ten sizes (Mueller et al. 2025)."""
    return row.faithfulness and row.faithfulness.cpr


@row_metric("CMD", "behaviour", larger_is_better=False, range=AMOUNT)
def cmd(row: LeaderboardRow) -> Estimate | None:
    """Returns the area between the faithfulness curve and 1 (Mueller et al. 2025)."""
    return row.faithfulness and row.faithfulness.cmd


@row_metric("% loss recovered", "behaviour", range=(None, None))
def recovered(row: LeaderboardRow) -> Estimate | None:
    """Returns the percentage of the loss that causal scrubbing recovers (Chan et al. 2022)."""
    return row.recovered


@row_metric("gap", "behaviour", larger_is_better=False, range=AMOUNT)
def gap(row: LeaderboardRow) -> Estimate | None:
    """Returns the largest difference of circuit and network under knock-outs (Wang et al. 2023)."""
    return row.completeness and row.completeness.gap


@row_metric("least effect", "behaviour", range=AMOUNT)
def least_effect(row: LeaderboardRow) -> Estimate | None:
    """Returns the largest effect of knocking out the least necessary node (Wang et al. 2023)."""
    return row.completeness and row.completeness.least_effect


@row_metric("passes", "cost", larger_is_better=False, range=AMOUNT)
def passes(row: LeaderboardRow) -> Estimate | None:
    """Returns the number of examples in the method's forward and backward passes."""
    return Estimate(row.cost.passes)


@row_metric("CPU seconds", "cost", larger_is_better=False, range=AMOUNT)
def seconds(row: LeaderboardRow) -> Estimate | None:
    """Returns the CPU time of the method, in seconds."""
    return Estimate(row.cost.seconds)


@row_metric("MB", "cost", larger_is_better=False, range=AMOUNT)
def megabytes(row: LeaderboardRow) -> Estimate | None:
    """Returns by how much memory rose while the method ran, in MiB."""
    return None if row.cost.megabytes is None else Estimate(row.cost.megabytes)


@row_metric("Jaccard", "stability")
def jaccard(row: LeaderboardRow) -> Estimate | None:
    """Returns the Jaccard index of the circuits found on bootstrap samples of the pairs of inputs."""
    found = row.stability.get("pairs")
    return found and found.jaccard


@row_metric("rank correlation", "stability", range=(-1, 1))
def rank_correlation(row: LeaderboardRow) -> Estimate | None:
    """Returns Spearman's correlation of the scores on bootstrap samples of the pairs of inputs."""
    found = row.stability.get("pairs")
    return found and found.rank_correlation


@row_metric("deviation of AUROC", "stability", larger_is_better=False)
def auroc_deviation(row: LeaderboardRow) -> Estimate | None:
    """Returns the standard deviation of the AUROC of edges on bootstrap samples of the pairs."""
    found = row.stability.get("pairs")
    return None if found is None or found.auroc_deviation is None else Estimate(found.auroc_deviation)


@row_metric("Jaccard over seeds", "stability")
def jaccard_over_seeds(row: LeaderboardRow) -> Estimate | None:
    """Returns the Jaccard index of the circuits that are found with several seeds."""
    found = row.stability.get("seeds")
    return found and found.jaccard


def columns(table: Table) -> list[ScoreMetric]:
    """Returns the metrics of rows that are the columns of a table, in order."""
    return [one for one in ROW.values() if one.table == table]
