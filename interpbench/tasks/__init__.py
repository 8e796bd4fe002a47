"""Tasks: a program or causal model, its domain, its data; and what a discovery method sees of them.

The package is also what `interpbench.tasks()` calls: as soon as any part of it is imported, Python puts the
package in the place of a function of that name.
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING

from interpbench.core.exports import exports

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

__getattr__, __dir__ = exports(
    __name__,
    {
        "CausalTask": "interpbench.tasks.task",
        "Domain": "interpbench.tasks.domain",
        "Metric": "interpbench.tasks.problem",
        "ModelSettings": "interpbench.tasks.model_settings",
        "Pairs": "interpbench.tasks.problem",
        "Problem": "interpbench.tasks.problem",
        "RaspTask": "interpbench.tasks.task",
        "Sequences": "interpbench.tasks.domain",
        "Slots": "interpbench.tasks.slots",
        "Strata": "interpbench.tasks.strata",
        "Stratum": "interpbench.tasks.stratum",
        "Task": "interpbench.tasks.task",
        "causal_task": "interpbench.tasks.catalogue",
        "draw_pairs": "interpbench.tasks.data",
        "get_task": "interpbench.tasks.catalogue",
        "shape": "interpbench.tasks.shapes",
        "task_family": "interpbench.tasks.catalogue",
    },
)


class _Tasks(ModuleType):
    """The package, which can be called."""

    def __call__(self) -> "list[Task]":
        """Returns every task, in the order of their names.

        Examples:
            >>> import interpbench
            >>> "frac_prevs" in [task.name for task in interpbench.tasks()]
            True
        """
        from interpbench.tasks.catalogue import catalogue

        return catalogue().values()


sys.modules[__name__].__class__ = _Tasks
