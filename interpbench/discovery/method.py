"""The protocol of a discovery method, its registry, and the two clean runs that most methods start from.

Adding a method is one file here, with a frozen settings dataclass under `@method("name")`; `make configs`
writes the rest.
"""

import importlib
import pkgutil
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from interpbench.circuits.scores import Cost, Scores
from interpbench.core.config import Unchecked, convert
from interpbench.core.errors import DiscoveryError
from interpbench.core.old_names import renamed_settings
from interpbench.core.registry import Registry
from interpbench.core.text import shown
from interpbench.core.user_code import is_own, own_name, own_source
from interpbench.discovery.method_record import MethodRecord
from interpbench.tasks.metrics import METRICS
from interpbench.tasks.problem import Metric, Problem
from interpbench.transformer.fast.run_circuits import SingleEdges, rows_per_call, run_circuits
from interpbench.transformer.model import Transformer
from interpbench.transformer.recording import ActivationCache, record

AblationValue = Literal["resample", "mean", "mean_position", "zero"]
"""What takes the place of an activation: that of the corrupted input; the corrupted inputs' mean over
examples and positions; their mean over examples at each position; zeros. What the embedding writes has the
position in it, which is replaced as well; in EAP-IG's code positions belong to no node and stay."""


class Method(Protocol):
    """A discovery method: a dataclass of settings that can be called, with a record of what it is."""

    record: ClassVar[MethodRecord]

    def __call__(self, problem: Problem) -> Scores:
        """Scores every legal edge."""
        ...


M = TypeVar("M", bound=type[Any])
NAME = r"[A-Za-z0-9_][A-Za-z0-9_.=+-]{0,79}"
"""What a method may be called: it becomes part of paths."""
_methods: Registry[type[Method]] = Registry("method")


def method(name: str) -> Callable[[M], M]:
    """Registers a method class under `name`."""

    def register(made: M) -> M:
        if not re.fullmatch(NAME, name):
            raise DiscoveryError(f"a method cannot be called {shown(name)!r}: letters, digits, . = + - _")
        if type(getattr(made, "record", None)) is not MethodRecord:
            example = 'record = MethodRecord(sign="…", cost="…", granularity="edge")'
            raise DiscoveryError(f"method {name} does not say what it is: {example} in its class does")
        if not any("__call__" in vars(base) for base in made.__mro__):
            raise DiscoveryError(f"method {name} has no __call__(self, problem), which is what is run")
        _methods.add(name, made)
        return made

    return register


@cache
def methods() -> Registry[type[Method]]:
    """Returns all methods, importing every file of this folder once."""
    package = importlib.import_module("interpbench.discovery")
    for module in sorted(info.name for info in pkgutil.iter_modules(package.__path__)):
        importlib.import_module(f"{package.__name__}.{module}")
    return _methods


def method_name(text: str) -> str:
    """Returns the registered name of a method; imports the file of one of the user's own.

    Args:
        text: `acdc`, or for a method of one's own `path/to/file.py:name` or `package.module:name`.

    Raises:
        UnknownNameError: for a name that the user's file does not declare.
        DiscoveryError: if the file cannot be imported.
    """
    if not is_own(text):
        return text
    return own_name(text, methods, lambda made: made.__module__, DiscoveryError)


def method_source(name: str) -> str | None:
    """Returns the SHA-256 of the user's file that declares a method; None for one of the package's."""
    name = method_name(name)
    return own_source(methods()[name].__module__) if name in methods() else None


def unsupported_part(method: Method, network: Transformer) -> str | None:
    """Returns the first part of a network's architecture for which a method has no rule, or None."""
    return next((part for part in network.cfg.features if part in method.record.unsupported), None)


def get_method(name: str, settings: Unchecked | None = None) -> Method:
    """Returns a method, as `method_name` finds it, with these settings.

    Raises:
        UnknownNameError: with the nearest names.
        DiscoveryError: if a user's file cannot be imported.
        ConfigError: for a setting that it does not have.
    """
    name, settings = method_name(name), settings or {}
    if method_source(name) is None:
        settings = renamed_settings(settings)
    return convert(methods()[name], settings, f"method {name}")


@dataclass(frozen=True)
class Runs:
    """The clean run, what is patched in, and the metric.

    Attributes:
        cache: the activations on the clean inputs.
        logits: `[V, T, B]`, the clean logits.
        patch: `[W, D, T, B]`, what replaces what writers write.
        metric: logits to a number for each example.
    """

    cache: ActivationCache
    logits: Tensor
    patch: Tensor
    metric: Metric

    @property
    def clean(self) -> Tensor:
        """What every writer writes on the clean inputs, `[W, D, T, B]`."""
        return self.cache.stack


@torch.no_grad()
def clean_and_patch(problem: Problem, metric: str, ablation: AblationValue, cost: Cost) -> Runs:
    """Runs the clean and the corrupted inputs once each.

    Args:
        problem: the problem.
        metric: the name of a metric.
        ablation: what takes the place of clean activations.
        cost: gets the two runs added.

    Raises:
        UnknownNameError: if there is no such metric.
        DiscoveryError: if it is of another kind of output.
    """
    known_metric(metric, problem)
    clean_logits, clean = record(problem.network, problem.clean)
    corrupted_logits, corrupted = record(problem.network, problem.corrupted)
    cost.count(len(problem.clean))
    cost.count(len(problem.clean))
    patch = ablation_values(corrupted.stack, ablation)
    return Runs(clean, clean_logits, patch, Metric(metric, problem, clean_logits, corrupted_logits))


def known_metric(name: str, problem: Problem) -> None:
    """Refuses a metric that there is not, or that is not of this kind of output.

    Raises:
        UnknownNameError: with the nearest names.
        DiscoveryError: with what to use instead.
    """
    if METRICS[name].numbers_only and not problem.numerical:
        raise DiscoveryError(f"metric={name}: the output is a class; use kl")


def ablation_values(corrupted: Tensor, ablation: AblationValue) -> Tensor:
    """Returns `[W, D, T, B]`: what takes the place of activations, from the corrupted run's."""
    if ablation == "resample":
        return corrupted
    if ablation == "zero":
        return torch.zeros_like(corrupted)
    over = -1 if ablation == "mean_position" else (-2, -1)
    return corrupted.mean(over, keepdim=True).expand_as(corrupted).contiguous()


def chunks(problem: Problem, count: int, rows_each: int) -> list[slice]:
    """Cuts `count` items, of `rows_each` rows each, into calls of about `rows_per_call` rows."""
    at_once = max(1, rows_per_call(problem.network.cfg) // rows_each)
    return [slice(first, min(first + at_once, count)) for first in range(0, count, at_once)]


@torch.no_grad()
def measured(
    problem: Problem, runs: Runs, edges: np.ndarray | SingleEdges, cost: Cost, patch: Tensor | None = None
) -> np.ndarray:
    """Returns the mean metric `[K]` of circuits.

    Args:
        problem: the problem.
        runs: its runs.
        edges: `[K, R, W]` bool, the edges that each circuit patches.
        cost: gets the runs added.
        patch: `[W, D, T, B]`, what is patched in, if not that of `runs`.
    """
    values = runs.clean.new_empty(len(edges), len(problem.clean))
    patch = runs.patch if patch is None else patch
    for part in run_circuits(problem.network, runs.cache, patch, edges):
        values[part.circuits, part.examples] = runs.metric.part(part.examples)(part.logits)
        cost.count(part.logits[0, 0].numel())
    return values.mean(1).double().cpu().numpy()


def single_edge_effects(
    problem: Problem, runs: Runs, edges: np.ndarray, cost: Cost, patch: Tensor | None = None
) -> np.ndarray:
    """Returns how far the metric moves from its clean value with each edge alone patched.

    Args:
        problem: the problem.
        runs: its runs.
        edges: `[E, 2]`, the reader and the writer of each.
        cost: gets the runs added.
        patch: `[W, D, T, B]`, what is patched in, if not that of `runs`.

    Returns:
        `[E]`.
    """
    graph = problem.graph
    clean = float(runs.metric(runs.logits).mean())
    effects = np.zeros(len(edges))
    layers = np.array([reader.layer for reader in graph.readers])[edges[:, 0]]
    for layer in range(graph.n_layers + 1):
        here = np.flatnonzero(layers == layer)
        effects[here] = measured(problem, runs, SingleEdges(graph, edges[here]), cost, patch) - clean
    return effects


def legal_scores(problem: Problem, values: Tensor) -> np.ndarray:
    """Returns `[R, W]` values as float64 numpy, NaN where there is no edge."""
    return np.where(problem.graph.legal, values.detach().double().cpu().numpy(), np.nan)
