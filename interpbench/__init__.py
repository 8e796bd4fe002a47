"""InterpBench: small transformers whose circuit is known and proved, and discovery methods scored on it.

Examples:
    >>> import interpbench
    >>> checkpoint = interpbench.load("frac_prevs")        # doctest: +SKIP
    >>> scores = interpbench.discover(checkpoint, "acdc")  # doctest: +SKIP
    >>> interpbench.compare(checkpoint.truth, scores)      # doctest: +SKIP

Everything is imported on first use: listing tasks needs neither torch nor Tracr's compiler.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interpbench import tasks
    from interpbench.runs.api import compare, discover, draw, load, load_problem, show, train

__all__ = ["compare", "discover", "draw", "load", "load_problem", "show", "tasks", "train"]


def __getattr__(name: str) -> Any:
    if name == "tasks":
        return import_module("interpbench.tasks")  # a package that can be called
    if name in __all__:
        return getattr(import_module("interpbench.runs.api"), name)
    raise AttributeError(f"module 'interpbench' has no attribute {name!r}; it has {', '.join(__all__)}")
