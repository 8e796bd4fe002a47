"""One file a command, the only layer that knows all others; `import interpbench` offers its functions."""

from typing import TYPE_CHECKING

from interpbench.core.exports import exports

if TYPE_CHECKING:
    from interpbench.runs.certify import certify_checkpoints
    from interpbench.runs.evaluate_settings import EvaluateConfig
    from interpbench.runs.score import convert_file, score_file
    from interpbench.runs.train import TrainOutcome
    from interpbench.runs.train_settings import TrainConfig

__all__ = [
    "EvaluateConfig",
    "TrainConfig",
    "TrainOutcome",
    "certify_checkpoints",
    "convert_file",
    "score_file",
]
__getattr__, __dir__ = exports(
    __name__,
    {
        **dict.fromkeys(("convert_file", "score_file"), "interpbench.runs.score"),
        "EvaluateConfig": "interpbench.runs.evaluate_settings",
        "TrainConfig": "interpbench.runs.train_settings",
        "TrainOutcome": "interpbench.runs.train",
        "certify_checkpoints": "interpbench.runs.certify",
    },
)
