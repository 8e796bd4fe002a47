"""Tasks: a program or causal model, its domain, its data; and what a discovery method sees of them.

The package is also what `interpbench.tasks()` calls: as soon as any part of it is imported, Python puts the
package in the place of a function of that name.
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING

from interpbench.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from interpbench.tasks.catalogue import causal_task, get_task, task_family
    from interpbench.tasks.data import draw_pairs
    from interpbench.tasks.domain import Domain, Sequences
    from interpbench.tasks.model_settings import ModelSettings
    from interpbench.tasks.problem import Metric, Pairs, Problem
    from interpbench.tasks.shapes import shape
    from interpbench.tasks.slots import Slots
    from interpbench.tasks.strata import Strata
    from interpbench.tasks.stratum import Stratum
    from interpbench.tasks.task import CausalTask, RaspTask, Task

__all__ = [
    "CausalTask",
    "Domain",
    "Metric",
    "ModelSettings",
    "Pairs",
    "Problem",
    "RaspTask",
    "Sequences",
    "Slots",
    "Strata",
    "Stratum",
    "Task",
    "causal_task",
    "draw_pairs",
    "get_task",
    "shape",
    "task_family",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "CausalTask": "task",
        "Domain": "domain",
        "Metric": "problem",
        "ModelSettings": "model_settings",
        "Pairs": "problem",
        "Problem": "problem",
        "RaspTask": "task",
        "Sequences": "domain",
        "Slots": "slots",
        "Strata": "strata",
        "Stratum": "stratum",
        "Task": "task",
        "causal_task": "catalogue",
        "draw_pairs": "data",
        "get_task": "catalogue",
        "shape": "shapes",
        "task_family": "catalogue",
    },
)


class _Tasks(ModuleType):
    """The package, which can be called."""

    def __call__(self) -> "list[Task]":
        """Returns every task, in the order of their names.

        >>> import interpbench
        >>> "frac_prevs" in [task.name for task in interpbench.tasks()]
        True
        """
        from interpbench.tasks.catalogue import catalogue

        return catalogue().values()


sys.modules[__name__].__class__ = _Tasks
