"""What a regime is, and the tasks that regimes make of others: `hist[regime=alive,copies=3]`.

A regime is a frozen dataclass in a file of this folder, whose fields are its dials. Called with a task, it
returns the task in that regime. Regimes compose: each `regime=` in a name applies to what is before it.
"""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Protocol, TypeVar

from interpbench.causal.model import CausalModel
from interpbench.core.errors import TaskError
from interpbench.core.registry import Registry
from interpbench.core.setting_docs import setting_docs
from interpbench.tasks.family import (
    REGIME,
    check_parameters,
    read_parameters,
    split_name,
    split_regimes,
    told_parameters,
)
from interpbench.tasks.model_settings import ModelSettings
from interpbench.tasks.task import CausalTask, Task


class Regime(Protocol):
    """A regime with its dials."""

    def __call__(self, task: Task) -> "RegimeTask":
        """Returns a task in this regime; its name, group and program are set by `in_regimes`."""
        ...


C = TypeVar("C", bound=type[Regime])
_regimes: Registry[type[Regime]] = Registry("regime")


@dataclass(frozen=True, kw_only=True)
class RegimeTask(CausalTask):
    """A task in a regime.

    Attributes:
        base: the task without the regime.
        added: lines that the regime adds to the task's listing.
    """

    base: Task
    added: tuple[str, ...] = ()

    def listing(self) -> list[str]:
        """Returns the lines of the task without the regime, and what the regime adds."""
        return [*self.base.listing(), *self.added]


def regime(name: str) -> Callable[[C], C]:
    """Registers the decorated dataclass as a regime.

    Args:
        name: the name of the regime.

    Raises:
        TaskError: if a dial has no default or no documentation.
    """

    def register(made: C) -> C:
        check_parameters(f"regime {name}", made)
        return _regimes.add(name, made)  # type: ignore[return-value]

    return register


@cache
def regimes() -> Registry[type[Regime]]:
    """Returns all regimes, importing every file of this folder once."""
    package = importlib.import_module("interpbench.tasks.regimes")
    for module in sorted(info.name for info in pkgutil.iter_modules(package.__path__)):
        importlib.import_module(f"{package.__name__}.{module}")
    return _regimes


def described() -> list[str]:
    """Returns the name and the dials of each regime, as in `alive (copies=2, heads=0, draw=0)`."""
    kinds = regimes().items()
    return [
        f"{name} ({', '.join(f'{doc.name}={doc.default}' for doc in setting_docs(kind))})"
        for name, kind in kinds
    ]


def regimes_of(task: str) -> list[str]:
    """Returns the names of the regimes that a task of this name is in, the first one first."""
    return [text.partition(",")[0] for text in split_regimes(split_name(task)[1])[1]]


def in_regime(task: Task, text: str) -> Task:
    """Returns a task in a regime, with its name.

    Args:
        task: the task.
        text: the name of the regime and its dials, as in `alive,copies=3`.

    Raises:
        InterpBenchError: if there is no such regime or dial, or the task cannot be in this regime.
    """
    name, comma, dials = text.partition(",")
    if "+" in name and all(each in regimes() for each in name.split("+")):
        told = ",".join(f"{REGIME}={each}" for each in name.split("+"))
        raise TaskError(f"regime={name}: a name tells regimes apart, as in {task.name}[{told}]")
    kind = regimes()[name]
    made = read_parameters(f"regime {name}", kind, dials) if comma else kind()
    full = told_parameters(task.name, {REGIME: name}, made)
    given = made(task)
    return replace(
        given,
        name=full,
        description=given.description or task.description,
        group=task.group,
        variant_of=task.program_name,
        tolerance=task.tolerance,
    )


def derived(
    task: Task,
    build: Callable[[], CausalModel],
    alignment: Mapping[str, str],
    network: ModelSettings,
    added: tuple[str, ...] = (),
    crowd: Task | None = None,
) -> RegimeTask:
    """Returns a task on the inputs of another one.

    Args:
        task: the other task.
        build: returns the causal model.
        alignment: the nodes of variables, by name.
        network: settings of the network.
        added: lines that are added to the listing.
        crowd: the task of all variables that are trained (`Task.crowd`).
    """
    return RegimeTask(
        base=task,
        build=build,
        vocab=task.vocab,
        length=task.length,
        attention=task.attention,
        domain=task.domain,
        alignment=alignment,
        network=network_of(task, network),
        added=added,
        crowd=crowd,
        noise=task.noise,
        flat=task.flat,
        secrets=task.secrets,
    )


def network_of(task: Task, settings: ModelSettings) -> ModelSettings:
    """Returns settings of a network, over those that a task has of its own."""
    return settings.over(task.network)
