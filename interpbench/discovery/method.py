"""The protocol of a discovery method, its registry, and the two clean runs that most methods start from.

Adding a method is one file here, with a frozen settings dataclass under `@method("name")`; `make configs`
writes the rest.
"""

import importlib
import pkgutil
import re
from collections.abc import Callable, Sequence
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
from interpbench.transformer.model import Interventions, Transformer
from interpbench.transformer.patching import record, run_circuits

AblationValue = Literal["resample", "mean", "mean_position", "zero"]
"""What takes the place of an activation: that of the corrupted input; the corrupted inputs' mean over
examples and positions; their mean over examples at each position; zeros. What the embedding writes has the
position in it, which is replaced as well; in EAP-IG's code positions belong to no node and stay."""

ROWS_PER_CALL = 8_192
"""About how many rows go through the network in one call."""

ROWS_PER_GRADIENT = 1_024
"""The same where every activation is kept for a gradient, and more would not stay in the cache."""


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
        clean: `[W, D, T, B]` what every writer writes on the clean inputs.
        patch: `[W, D, T, B]` what replaces it.
        residuals: the clean residual stream `[D, T, B]` before each layer and before the logits.
        metric: logits to a number for each example.
    """

    clean: Tensor
    patch: Tensor
    residuals: list[Tensor]
    metric: Metric


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
    measured = Metric(metric, problem, clean_logits, corrupted_logits)
    return Runs(clean.stack, patch, clean.residuals, measured)


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


def chunks(count: int, rows_each: int, gradient: bool = False) -> list[slice]:
    """Cuts `count` items, of `rows_each` rows each, into calls of about `ROWS_PER_CALL` rows.

    With `gradient`, into calls of about `ROWS_PER_GRADIENT`.
    """
    rows = min(ROWS_PER_CALL, ROWS_PER_GRADIENT) if gradient else ROWS_PER_CALL
    at_once = max(1, rows // rows_each)
    return [slice(first, min(first + at_once, count)) for first in range(0, count, at_once)]


@torch.no_grad()
def edge_by_edge(
    problem: Problem,
    runs: Runs,
    edges: Sequence[tuple[int, int]],
    patch: Callable[[Sequence[tuple[int, int]], int], Interventions],
    cost: Cost,
) -> np.ndarray:
    """Returns how far the metric moves from its clean value with each edge alone patched.

    Args:
        problem: the problem.
        runs: its runs.
        edges: (reader, writer) of the edges to patch.
        patch: makes, for some edges into one layer and that layer, the interventions, a candidate an edge.
        cost: gets the runs added.

    Returns:
        `[R, W]` scores, 0 for the other legal edges and NaN for illegal ones.
    """
    graph, examples = problem.graph, len(problem.clean)
    clean = float(runs.metric(problem.network.run(runs.residuals[0])).mean())
    scores = np.where(graph.legal, 0.0, np.nan)
    for layer in range(graph.n_layers + 1):
        here = [(reader, writer) for reader, writer in edges if graph.readers[reader].layer == layer]
        for some in chunks(len(here), examples):
            chosen = here[some]
            patched = patch(chosen, layer)
            logits = run_circuits(problem.network, runs.residuals[layer], patched, len(chosen), layer)
            moved = runs.metric(logits).mean(1)
            for (reader, writer), value in zip(chosen, moved.tolist()):
                scores[reader, writer] = value - clean
            cost.count(len(chosen) * examples)
    return scores


def legal_scores(problem: Problem, values: Tensor) -> np.ndarray:
    """Returns `[R, W]` values as float64 numpy, NaN where there is no edge."""
    return np.where(problem.graph.legal, values.detach().double().cpu().numpy(), np.nan)
