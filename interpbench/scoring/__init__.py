"""Scores against the truth: how well a ranking separates required from forbidden."""

from typing import TYPE_CHECKING

from interpbench.core.exports import exports

if TYPE_CHECKING:
    from interpbench.scoring.curves import compare
    from interpbench.scoring.evaluation_record import EvaluationRecord
    from interpbench.scoring.results import LevelScores

__all__ = ["EvaluationRecord", "LevelScores", "compare"]
__getattr__, __dir__ = exports(
    __name__,
    {
        "EvaluationRecord": "interpbench.scoring.evaluation_record",
        "LevelScores": "interpbench.scoring.results",
        "compare": "interpbench.scoring.curves",
    },
)
