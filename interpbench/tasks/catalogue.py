"""The registry of tasks. Adding one is writing one decorated function in `programs/` or `handwritten/`."""

import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from interpbench.causal.model import CausalModel
from interpbench.core.errors import TaskError, UnknownNameError, did_you_mean
from interpbench.core.registry import Registry
from interpbench.tasks.domain import Domain
from interpbench.tasks.samplers import Edit, mixture
from interpbench.tasks.task import Attention, CausalTask, RaspTask, Task

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
    The other arguments are those of `RaspTask`.
    """

    def register(build: Callable[[], Any]) -> Callable[[], Any]:
        made = RaspTask(
            name=name,
            description=_sentence(description or build.__doc__),
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


def causal_task(
    name: str,
    *,
    vocab: Sequence[Any],
    length: int,
    inputs: Domain,
    placement: Mapping[str, str],
    attention: Attention = "causal",
    network: Mapping[str, Any] | None = None,
    published: Mapping[str, Any] | None = None,
    description: str | None = None,
) -> Callable[[Callable[[], CausalModel]], Callable[[], CausalModel]]:
    """Registers the decorated function, which returns a hand-written causal model, as a task.

    `placement` says which node carries each variable (`{"duplicate": "a1.h1"}`). The other arguments are
    those of `CausalTask`, and docstring and file give description and family, as for `task`.
    """

    def register(build: Callable[[], CausalModel]) -> Callable[[], CausalModel]:
        made = CausalTask(
            name=name,
            description=_sentence(description or build.__doc__),
            build=build,
            vocab=tuple(vocab),
            length=length,
            inputs=inputs,
            nodes=dict(placement),
            attention=attention,
            network=dict(network or {}),
            published=dict(published or {}),
            family=build.__module__.rpartition(".")[2],
        )
        _tasks.add(name, made)
        return build

    return register


def _sentence(text: str | None) -> str:
    return " ".join((text or "").split())


@cache
def _import_all(folder: str) -> None:
    package = importlib.import_module(f"interpbench.tasks.{folder}")
    for module in sorted(info.name for info in pkgutil.iter_modules(package.__path__)):
        importlib.import_module(f"{package.__name__}.{module}")


@cache
def catalogue() -> Registry[Task]:
    """Returns all tasks, importing every file of `programs/` and `handwritten/` once."""
    for folder in ("programs", "handwritten"):
        _import_all(folder)
    return _tasks


def get_task(name: str | int) -> Task:
    """Returns the task with this name or published number, or a user's own.

    Args:
        name: `hist`, `7`, or for a task of one's own `path/to/file.py:name` or `package.module:name`, which
            imports that file; the name may be left out if the file declares one task.

    Raises:
        UnknownNameError: with the nearest names.
        TaskError: if the file cannot be imported.
    """
    text = str(name)
    _import_all("handwritten")  # these need no Tracr
    if text in _tasks:
        return _tasks[text]
    if text.endswith(".py") or ":" in text or ("." in text and text not in catalogue()):
        return _own_task(text)
    return catalogue()[name]


def _own_task(text: str) -> Task:
    place, _, wanted = text.partition(":")
    names = _declared_in(str(Path(place).resolve()) if place.endswith(".py") else place)
    if wanted and wanted not in names:
        raise UnknownNameError(f"task in {place}", wanted, names)
    if not wanted and len(names) != 1:
        which = (
            f"several tasks; say {place}:{' or :'.join(names)}"
            if names
            else "no task; decorate it with @task"
        )
        raise TaskError(f"{place} declares {which}")
    return _tasks[wanted or names[0]]


@cache
def _declared_in(place: str) -> tuple[str, ...]:
    """Imports a user's file or module, once, and returns the names of the tasks that it declares."""
    before, path = set(catalogue()), Path(place)
    is_file = path.suffix == ".py"
    if is_file and not path.is_file():
        files = [file.name for file in path.parent.glob("*.py")]
        raise TaskError(f"there is no file {place}{did_you_mean(path.name, files)}")
    folder = str(path.parent if is_file else Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        module = _execute(path) if is_file else importlib.import_module(place)
    except Exception as error:
        raise TaskError(f"cannot import {place}: {type(error).__name__}: {error}") from error
    return tuple(
        name
        for name, task in catalogue().items()
        if name not in before or task.build.__module__ == module.__name__
    )


def _execute(path: Path) -> ModuleType:
    """Runs a file as a module."""
    spec = importlib.util.spec_from_file_location(f"own_tasks.{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
