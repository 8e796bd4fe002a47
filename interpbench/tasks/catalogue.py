"""The registry of tasks. Adding one is writing one decorated function in `programs/`."""

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from interpbench.core.registry import Registry
from interpbench.tasks.samplers import Edit, mixture
from interpbench.tasks.task import Attention, Task

_tasks: Registry[Task] = Registry("task")


def task(
    name: str,
    *,
    vocab: Sequence[Any],
    length: int,
    attention: Attention,
    legacy_id: int | None = None,
    alignment: Mapping[str, str] | None = None,
    balance: Sequence[Edit] = (),
    description: str | None = None,
    duplicate_of: str | None = None,
) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Registers the decorated function, which returns a RASP expression, as a task.

    Its docstring is the task's description unless one is given; the file that it is written in is the
    task's family. `balance` lists edits of uniform inputs that make rare answers common (`samplers.py`).
    The other arguments are those of `Task`.
    """

    def register(build: Callable[[], Any]) -> Callable[[], Any]:
        made = Task(
            name=name,
            description=" ".join((description or build.__doc__ or "").split()),
            build=build,
            vocab=tuple(sorted(vocab)),
            length=length,
            attention=attention,
            legacy_id=legacy_id,
            alignment=dict(alignment or {}),
            sampler=mixture(balance, len(vocab), length) if balance else None,
            family=build.__module__.rpartition(".")[2],
            duplicate_of=duplicate_of,
        )
        _tasks.add(name, made, () if legacy_id is None else (str(legacy_id),))
        return build

    return register


@cache
def catalogue() -> Registry[Task]:
    """Returns all tasks, importing every file of `programs/` once."""
    package = importlib.import_module("interpbench.tasks.programs")
    for module in sorted(info.name for info in pkgutil.iter_modules(package.__path__)):
        importlib.import_module(f"{package.__name__}.{module}")
    return _tasks


def get_task(name: str | int) -> Task:
    """Returns the task with this name or published number.

    Raises:
        UnknownNameError: with the nearest names.
    """
    return catalogue()[name]
