"""The registry of tasks. Adding one is writing one decorated function in `programs/` or `handwritten/`."""

import importlib
import pkgutil
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from types import MappingProxyType
from typing import Any, get_args

from interpbench.causal.model import CausalModel
from interpbench.core.config import TASK, Unchecked, convert
from interpbench.core.errors import TaskError
from interpbench.core.old_names import takes_old_names
from interpbench.core.registry import Registry
from interpbench.core.text import shown
from interpbench.core.user_code import is_own, own_name
from interpbench.tasks.domain import Domain
from interpbench.tasks.model_settings import ModelSettings
from interpbench.tasks.samplers import Edit, mixture
from interpbench.tasks.task import AttentionKind, CausalTask, InTokens, RaspTask, Task

_tasks: Registry[Task] = Registry("task")
_named: dict[str, Task] = {}
"""Tasks in the tokens of a tokenizer that the user has named."""
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
    task's family. `balance` lists edits of uniform inputs that make rare answers common (`samplers.py`).
    The other arguments are those of `RaspTask`.
    """
    _check_inputs(name, vocab, length, attention)

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
        _tasks.add(_checked(name), made, () if legacy_id is None else (str(legacy_id),))
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
    tokenized: Callable[[str], InTokens] | None = None,
) -> Callable[[Callable[[], CausalModel]], Callable[[], CausalModel]]:
    """Registers the decorated function, which returns a hand-written causal model, as a task.

    `alignment` says which node carries each variable (`{"duplicate": "a1.h1"}`). The other arguments are
    those of `CausalTask`, and docstring and file give description and family, as for `task`.
    """
    _check_inputs(name, vocab, length, attention)

    def register(build: Callable[[], CausalModel]) -> Callable[[], CausalModel]:
        made = CausalTask(
            name=name,
            description=_sentence(description or build.__doc__),
            build=build,
            vocab=tuple(vocab),
            length=length,
            domain=domain,
            alignment=dict(alignment),
            attention=attention,
            network=convert(ModelSettings, network, f"task {name}: network"),
            published=convert(ModelSettings, published, f"task {name}: published"),
            family=build.__module__.rpartition(".")[2],
            variant_of=variant_of,
            tokenized=tokenized,
        )
        _tasks.add(_checked(name), made)
        return build

    return register


def _check_inputs(name: str, vocab: Sequence[Any], length: Any, attention: str) -> None:
    """Refuses inputs that no network could read.

    Raises:
        TaskError: naming what is wrong.
    """
    if not len(vocab):
        raise TaskError(f"task {shown(name)}: vocab is empty")
    if type(length) is not int or not 1 <= length <= MOST_TOKENS:
        raise TaskError(f"task {shown(name)}: length={shown(length)} is no number from 1 to {MOST_TOKENS}")
    if attention not in get_args(AttentionKind):
        raise TaskError(
            f"task {shown(name)}: attention={shown(attention)}; use {' or '.join(get_args(AttentionKind))}"
        )


def _checked(name: str) -> str:
    """Returns a task's name, if it can be part of a path and stand in a record.

    Raises:
        TaskError: if not.
    """
    if not _NAME.fullmatch(name):
        raise TaskError(f"a task cannot be called {shown(name)!r}: letters, digits, - and _ make a name")
    return name


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
            imports that file; the name may be left out if the file declares one task. `ioi[gpt2]` is the
            task `ioi` in the tokens of that tokenizer.

    Raises:
        UnknownNameError: with the nearest names.
        TaskError: if the file cannot be imported, or there is no such tokenizer.
    """
    text = str(name)
    _import_all("handwritten")  # these need no Tracr
    if text in _tasks:
        return _tasks[text]
    if text.endswith("]") and "[" in text:
        return _tokenized(*text[:-1].split("[", 1))
    if is_own(text) or ("." in text and text not in catalogue()):
        return _tasks[own_name(text, catalogue, lambda task: task.build.__module__, TaskError)]
    return catalogue()[name]


def known_task(name: str) -> Task | None:
    """Returns the task of that name that is in the catalogue, or that the user has named in this process.

    Nothing is imported or fetched for the name, which may come from anyone's file.
    """
    return catalogue()[name] if name in catalogue() else _named.get(name)


def tokenized_name(task: str, tokenizer: str) -> str:
    """Returns the name of a task in the tokens of a tokenizer; it can name a folder too."""
    return f"{task}[{tokenizer.replace('/', '--')}]"


@cache
def _tokenized(name: str, tokenizer: str) -> Task:
    task = get_task(name)
    if not isinstance(task, CausalTask) or task.tokenized is None:
        known = (t.name for t in catalogue().values() if isinstance(t, CausalTask) and t.tokenized)
        raise TaskError(f"task {task.name} has no words for a tokenizer; {', '.join(sorted(known))} have")
    parts = task.tokenized(tokenizer.replace("--", "/"))
    made = replace(task, name=tokenized_name(task.name, tokenizer), tokenized=None, **parts._asdict())
    return _named.setdefault(made.name, made)
