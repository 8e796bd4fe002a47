"""The registry of metrics: one that is registered in one place is in records and on the leaderboard."""

import subprocess
import sys

import numpy as np
import pytest

from interpbench.core.estimate import Estimate
from interpbench.reports.leaderboard import leaderboard_markdown
from interpbench.scoring.leaderboard_data import Board
from interpbench.scoring.leaderboard_rows import LeaderboardRow, row
from interpbench.scoring.metric import ROW, RankingCounts, ranking_metric, row_metric
from interpbench.scoring.ranking_metrics import RANKING
from interpbench.scoring.row_metrics import columns
from tests.evaluation_records import REQUIRED, TIED, record


def test_a_new_metric_of_rankings_is_in_records_and_tables() -> None:
    before = leaderboard_markdown(Board.of([TIED]), str)
    try:

        @ranking_metric("recall at one", interval=lambda value, p, n: Estimate.share(value * p, p))
        def recall_at_one(counts: RankingCounts) -> np.ndarray:
            """Returns the share of required items in the first group of ties."""
            return counts.hits[:, 0] / counts.positives[:, 0]

        made = record("hist", "exact", REQUIRED)
        for level in made.levels.values():
            assert level.value("recall_at_one") == 1 and level.metrics["recall_at_one"].kind == "exact"
        assert row(made).levels["node"].value("recall_at_one") == 1
        page = leaderboard_markdown(Board.of([made, TIED]), str)
        assert "recall at one" in page and "recall at one" not in before
        null = Board.of([made]).null(recall_at_one.at("qkv_edge"))
        assert null is not None and null.value < 0.5
    finally:
        RANKING.pop("recall_at_one", None)


def test_a_new_metric_of_rows_is_in_its_table() -> None:
    try:

        @row_metric("models' weights", "behaviour", larger_is_better=False)
        def letters(one: LeaderboardRow) -> Estimate | None:
            """Returns how many letters the hash has."""
            return Estimate(float(len(one.checkpoint)))

        assert columns("behaviour")[-1] is letters
        assert "| models' weights ↓ |" in leaderboard_markdown(Board.of([TIED]), str)
        with pytest.raises(ValueError, match="'letters' is registered twice"):
            row_metric("again", "cost")(letters.of)
    finally:
        ROW.pop("letters", None)


def test_metrics_say_where_they_are_better() -> None:
    smaller = {name for name, metric in ROW.items() if not metric.larger_is_better}
    assert smaller == {"cmd", "gap", "passes", "seconds", "megabytes", "auroc_deviation"}
    assert all(metric.larger_is_better for metric in RANKING.values())
    assert not RANKING["mib_auroc"].at("qkv_edge").has_null and RANKING["auroc"].at("node").has_null


@pytest.mark.parametrize(
    "line",
    [
        "from interpbench.scoring.curves import score; print(*score(np.eye(2)[0] > 0, np.eye(2)[0]).metrics)",
        "from interpbench.scoring.nulls import random_null; print(*random_null(1, 2))",
    ],
)
def test_the_metrics_are_registered_whatever_is_imported_first(line: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import numpy as np; {line}"], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [name for name, metric in RANKING.items() if metric.compute]
