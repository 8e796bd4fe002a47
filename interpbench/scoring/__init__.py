"""Scores of methods and circuits: rankings against the ground truth, faithfulness, tests, leaderboards."""

from typing import TYPE_CHECKING

from interpbench.core.exports import exports

if TYPE_CHECKING:
    from interpbench.scoring.behaviour import Behaviour
    from interpbench.scoring.comparison import Comparison, compare_methods
    from interpbench.scoring.curves import compare, score
    from interpbench.scoring.evaluation_record import EvaluationRecord
    from interpbench.scoring.hypotheses import HypothesisSettings, hypothesis_tests
    from interpbench.scoring.leaderboard_data import Board
    from interpbench.scoring.leaderboard_rows import LeaderboardRow, read_rows
    from interpbench.scoring.metric import RankingMetric, ScoreMetric, ranking_metric, row_metric
    from interpbench.scoring.results import (
        CircuitBehaviour,
        Completeness,
        Faithfulness,
        HypothesisTest,
        LevelScores,
        Stability,
    )

__all__ = [
    "Behaviour",
    "Board",
    "CircuitBehaviour",
    "Comparison",
    "Completeness",
    "EvaluationRecord",
    "Faithfulness",
    "HypothesisSettings",
    "HypothesisTest",
    "LeaderboardRow",
    "LevelScores",
    "RankingMetric",
    "ScoreMetric",
    "Stability",
    "compare",
    "compare_methods",
    "hypothesis_tests",
    "ranking_metric",
    "read_rows",
    "row_metric",
    "score",
]

__getattr__, __dir__ = exports(
    __name__,
    {
        "Behaviour": "interpbench.scoring.behaviour",
        **dict.fromkeys(("Comparison", "compare_methods"), "interpbench.scoring.comparison"),
        **dict.fromkeys(("compare", "score"), "interpbench.scoring.curves"),
        "EvaluationRecord": "interpbench.scoring.evaluation_record",
        **dict.fromkeys(("HypothesisSettings", "hypothesis_tests"), "interpbench.scoring.hypotheses"),
        "Board": "interpbench.scoring.leaderboard_data",
        **dict.fromkeys(("LeaderboardRow", "read_rows"), "interpbench.scoring.leaderboard_rows"),
        **dict.fromkeys(
            ("RankingMetric", "ScoreMetric", "ranking_metric", "row_metric"), "interpbench.scoring.metric"
        ),
        **dict.fromkeys(
            (
                "CircuitBehaviour",
                "Completeness",
                "Faithfulness",
                "HypothesisTest",
                "LevelScores",
                "Stability",
            ),
            "interpbench.scoring.results",
        ),
    },
)
