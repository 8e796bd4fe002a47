"""The registry of tasks. Adding one is writing one decorated function in `programs/` or `handwritten/`."""

import importlib
import pkgutil
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from types import MappingProxyType
from typing import Any, TypeVar, get_args

from interpbench.causal.model import CausalModel
from interpbench.core.config import TASK, Unchecked, convert
from interpbench.core.errors import TaskError
from interpbench.core.old_names import renamed_task, takes_old_names
from interpbench.core.registry import Registry
from interpbench.core.text import shown
from interpbench.core.user_code import is_own, own_name
from interpbench.tasks.domain import Domain
from interpbench.tasks.family import Family, check_parameters, split_name
from interpbench.tasks.model_settings import ModelSettings
from interpbench.tasks.samplers import Edit, mixture
from interpbench.tasks.task import AttentionKind, CausalTask, RaspTask, Task

P = TypeVar("P")
_tasks: Registry[Task] = Registry("task")
_families: dict[str, Family] = {}
_members: dict[str, Task] = {}
"""The members of families that the user has named, by their names."""
_NAME = re.compile(TASK)
MOST_TOKENS = 4096
"""The longest input of a task."""


def task(
    name: str,
    *,
    vocab: Sequence[Any],
    length: int,
    attention: AttentionKind,
    legacy_id: int | None = None,
    alignment: Mapping[str, str] | None = None,
    balance: Sequence[Edit] = (),
    description: str | None = None,
    duplicate_of: str | None = None,
) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Registers the decorated function, which returns a RASP expression, as a task.

    Its docstring is the task's description unless one is given; the file that it is written in is the
    task's group. `balance` lists edits of uniform inputs that make rare answers common (`samplers.py`).
    The other arguments are those of `RaspTask`.
    """

    def register(build: Callable[[], Any]) -> Callable[[], Any]:
        made = RaspTask(
            description=description or "",
            build=build,
            vocab=tuple(vocab),
            length=length,
            attention=attention,
            legacy_id=legacy_id,
            alignment=dict(alignment or {}),
            sampler=mixture(balance, len(vocab), length) if balance else None,
            duplicate_of=duplicate_of,
        )
        _add(name, made, build)
        return build

    return register


@takes_old_names(inputs="domain", placement="alignment")
def causal_task(
    name: str,
    *,
    vocab: Sequence[Any],
    length: int,
    domain: Domain,
    alignment: Mapping[str, str],
    attention: AttentionKind = "causal",
    network: Unchecked = MappingProxyType({}),
    published: Unchecked = MappingProxyType({}),
    variant_of: str | None = None,
    description: str | None = None,
) -> Callable[[Callable[[], CausalModel]], Callable[[], CausalModel]]:
    """Registers the decorated function, which returns a hand-written causal model, as a task.

    `alignment` says which node carries each variable (`{"duplicate": "a1.h1"}`). The other arguments are
    those of `CausalTask`, and docstring and file give description and group, as for `task`.
    """

    def register(build: Callable[[], CausalModel]) -> Callable[[], CausalModel]:
        made = CausalTask(
            description=description or "",
            build=build,
            vocab=tuple(vocab),
            length=length,
            domain=domain,
            alignment=dict(alignment),
            attention=attention,
            network=convert(ModelSettings, network, f"task {name}: network"),
            published=convert(ModelSettings, published, f"task {name}: published"),
            variant_of=variant_of,
        )
        _add(name, made, build)
        return build

    return register


def task_family(
    name: str, parameters: type[P], *, one_program: bool = False
) -> Callable[[Callable[[P], Task]], Callable[[P], Task]]:
    """Registers the decorated function, which makes the task of some parameters, as a family of tasks.

    It returns a `RaspTask` or a `CausalTask`; its docstring is the description of members that have none. The
    member with the defaults is a task of the catalogue under `name`; the others are `name[parameter=value]`.
    The other arguments are those of `Family`.

    Raises:
        TaskError: for parameters without defaults or documentation.
    """
    check_parameters(name, parameters)

    def register(build: Callable[[P], Task]) -> Callable[[P], Task]:
        family = Family(name, parameters, build, one_program)
        _add(name, build(parameters()), build)
        _families[name] = family
        return build

    return register


def _add(name: str, made: Task, declared: Callable[..., Any]) -> None:
    """Adds a task to the catalogue.

    Raises:
        TaskError: if its name cannot be part of a path and stand in a record.
    """
    if not _NAME.fullmatch(name):
        raise TaskError(f"a task cannot be called {shown(name)!r}: letters, digits, - and _ make a name")
    aliases = () if made.legacy_id is None else (str(made.legacy_id),)
    _tasks.add(name, _named(name, made, declared), aliases)


def _named(name: str, made: Task, declared: Callable[..., Any]) -> Task:
    """Returns a task under its name, with what the function that declares it says.

    Raises:
        TaskError: if no network could read its inputs.
    """
    if not len(made.vocab):
        raise TaskError(f"task {shown(name)}: vocab is empty")
    if type(made.length) is not int or not 1 <= made.length <= MOST_TOKENS:
        said = f"length={shown(made.length)} is no number from 1 to {MOST_TOKENS}"
        raise TaskError(f"task {shown(name)}: {said}")
    if made.attention not in get_args(AttentionKind):
        choices = " or ".join(get_args(AttentionKind))
        raise TaskError(f"task {shown(name)}: attention={shown(made.attention)}; use {choices}")
    return replace(
        made,
        name=name,
        description=" ".join((made.description or declared.__doc__ or "").split()),
        vocab=tuple(sorted(made.vocab)) if isinstance(made, RaspTask) else made.vocab,
        group=declared.__module__.rpartition(".")[2],
    )


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


def families() -> Mapping[str, Family]:
    """Returns the families of tasks, by their names, which are also those of tasks of the catalogue."""
    catalogue()
    return _families


def get_task(name: str | int) -> Task:
    """Returns the task with this name or published number, or a user's own.

    Args:
        name: `hist`, `7`, or for a task of one's own `path/to/file.py:name` or `package.module:name`, which
            imports that file; the name may be left out if the file declares one task. A member of a family
            has its parameters in brackets after any of these: `ioi[tokenizer=gpt2]`.

    Raises:
        UnknownNameError: with the nearest names.
        InterpBenchError: if the file cannot be imported, or parameters are not those of the family.
    """
    text, parameters = split_name(renamed_task(str(name)))
    made = _plain(text)
    return made if parameters is None else _member(made.name, parameters)


def _plain(text: str) -> Task:
    """Returns a task by its name, number or file alone."""
    _import_all("handwritten")  # these need no Tracr
    if text in _tasks:
        return _tasks[text]
    if is_own(text) or ("." in text and text not in catalogue()):
        return _tasks[own_name(text, catalogue, _module, TaskError)]
    return catalogue()[text]


def _module(task: Task) -> str:
    """Returns the module in which a task of the catalogue is declared."""
    declared = _families[task.name] if task.name in _families else task
    return declared.build.__module__


def _member(name: str, text: str) -> Task:
    """Returns the member of a family with the parameters in the brackets of its name."""
    family = _families.get(name)
    if family is None:
        raise TaskError(f"task {name} has no parameters; {', '.join(sorted(families()))} have")
    parameters = family.read(text)
    full = family.name_of(parameters)
    if full == name:
        return _tasks[name]
    if full not in _members:
        made = _named(full, family.build(parameters), family.build)
        _members[full] = replace(made, variant_of=_tasks[name].program_name) if family.one_program else made
    return _members[full]


def known_task(name: str) -> Task | None:
    """Returns the task of that name that is in the catalogue, or that the user has named in this process.

    Nothing is made, imported or fetched for the name, which may come from anyone's file.
    """
    name = renamed_task(name, stored=True)
    return catalogue()[name] if name in catalogue() else _members.get(name)


def program_of(name: str) -> str:
    """Returns the name of the task whose program a task has, or its own, by its name alone (`known_task`)."""
    base, parameters = split_name(name)
    task, family = known_task(base), families().get(base)
    own = parameters is not None and (family is None or not family.one_program)
    return name if task is None or own else task.program_name
