"""Tasks: a program or causal model, its domain, its data; and what a discovery method sees of them.

The package is also what `interpbench.tasks()` calls: as soon as any part of it is imported, Python puts the
package in the place of a function of that name.
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interpbench.tasks.task import Task


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
