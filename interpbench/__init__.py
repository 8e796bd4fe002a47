"""InterpBench: small transformers whose circuit is known and certified, and discovery methods scored on it.

Examples:
    >>> import interpbench
    >>> checkpoint = interpbench.load("frac_prevs")        # doctest: +SKIP
    >>> scores = interpbench.discover(checkpoint, "acdc")  # doctest: +SKIP
    >>> interpbench.compare(checkpoint.truth, scores)      # doctest: +SKIP

Everything is imported on first use: listing tasks needs neither torch nor Tracr's compiler.
"""

from typing import TYPE_CHECKING, Any

from interpbench.core import exports as _exports

if TYPE_CHECKING:
    from interpbench import tasks
    from interpbench.checkpoints.format import Checkpoint
    from interpbench.circuits.ground_truth import State, Truth
    from interpbench.circuits.scores import Scores
    from interpbench.core.errors import InterpBenchError
    from interpbench.runs.api import (
        compare,
        discover,
        draw,
        load,
        load_problem,
        plot_circuit,
        plot_roc,
        scrub,
        show,
        train,
    )
    from interpbench.tasks.problem import Problem

    __version__: str

__all__ = [
    "Checkpoint",
    "InterpBenchError",
    "Problem",
    "Scores",
    "State",
    "Truth",
    "__version__",
    "compare",
    "discover",
    "draw",
    "load",
    "load_problem",
    "plot_circuit",
    "plot_roc",
    "scrub",
    "show",
    "tasks",
    "train",
]
_find, _names = _exports.exports(
    __name__,
    {
        **dict.fromkeys(__all__, "interpbench.runs.api"),
        "Checkpoint": "interpbench.checkpoints.format",
        "InterpBenchError": "interpbench.core.errors",
        "Problem": "interpbench.tasks.problem",
        "Scores": "interpbench.circuits.scores",
        **dict.fromkeys(("State", "Truth"), "interpbench.circuits.ground_truth"),
        "tasks": "interpbench.tasks",  # a package that can be called
    },
)


def __getattr__(name: str) -> Any:
    return _exports.version_of(__name__) if name == "__version__" else _find(name)


def __dir__() -> list[str]:
    return _names()
