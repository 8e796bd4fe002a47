"""The protocol of a discovery method, the registry of methods, and the runs that most methods start from.

A method is added as one file in this folder, with a frozen dataclass of settings under `@method("name")`;
`make configs` then writes its YAML file and its row of `docs/methods.md`.

Letters of shapes: W writers (the graph's nodes), R readers, D features of the residual stream, V outputs,
T positions, B examples, K circuits, E edges.
"""

import importlib
import pkgutil
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from interpbench.circuits.scores import Cost, Scores
from interpbench.core.config import Unchecked, convert
from interpbench.core.errors import DiscoveryError
from interpbench.core.files import sha256
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
"""What replaces an activation. `resample`: the activation on the corrupted input; `mean`: the mean of the
corrupted activations over examples and positions; `mean_position`: their mean over examples at each position;
`zero`: zeros. The embedding node is token plus position embedding, so both are replaced; in EAP-IG's code the
position embedding belongs to no node and is never replaced."""


class Method(Protocol):
    """A discovery method: a dataclass of settings that is called with a problem, and has a `record`."""

    record: ClassVar[MethodRecord]

    def __call__(self, problem: Problem) -> Scores:
        """Returns a score for every edge of the problem's network."""
        ...


M = TypeVar("M", bound=type[Any])
NAME = r"[A-Za-z0-9_][A-Za-z0-9_.=+-]{0,79}"
"""The pattern of a method's name, which becomes part of file names."""
_methods: Registry[type[Method]] = Registry("method")


def method(name: str) -> Callable[[M], M]:
    """Returns a decorator that registers a class of methods under `name`.

    Raises:
        DiscoveryError: if the name is not one, or the class lacks `record` or `__call__`.
    """

    def register(made: M) -> M:
        if not re.fullmatch(NAME, name):
            raise DiscoveryError(
                f"a method cannot be called {shown(name)!r}: its name may have letters, digits, . = + - _"
            )
        if type(getattr(made, "record", None)) is not MethodRecord:
            example = 'record = MethodRecord(sign="…", cost="…", granularity="edge")'
            raise DiscoveryError(f"method {name} has no record; write {example} in its class")
        if not any("__call__" in vars(base) for base in made.__mro__):
            raise DiscoveryError(f"method {name} has no __call__(self, problem), which is what runs it")
        _methods.add(name, made)
        return made

    return register


@cache
def methods() -> Registry[type[Method]]:
    """Returns the registry of all methods; the first call imports every file of this folder."""
    package = importlib.import_module("interpbench.discovery")
    for module in sorted(info.name for info in pkgutil.iter_modules(package.__path__)):
        importlib.import_module(f"{package.__name__}.{module}")
    return _methods


def method_name(text: str) -> str:
    """Returns the registered name of a method; if it is in a user's file, imports that file.

    Args:
        text: a name such as `acdc`, or for a method in a user's file `path/to/file.py:name` or
            `package.module:name`.

    Raises:
        UnknownNameError: if the user's file declares no method of that name.
        DiscoveryError: if the user's file cannot be imported.
    """
    if not is_own(text):
        return text
    return own_name(text, methods, lambda made: made.__module__, DiscoveryError)


def method_source(name: str) -> str | None:
    """Returns the SHA-256 of the user's file that declares a method; None for a method of this package."""
    name = method_name(name)
    return own_source(methods()[name].__module__) if name in methods() else None


def stored_file(name: str) -> str | None:
    """Returns the SHA-256 of the file with fitted numbers that a method reads, its `file`; None for none."""
    name = method_name(name)
    path = getattr(methods()[name], "file", None) if name in methods() else None
    return sha256(path.read_bytes()) if isinstance(path, Path) else None


def unsupported_part(method: Method, network: Transformer) -> str | None:
    """Returns the first feature of a network's architecture that a method does not support, or None."""
    return next((part for part in network.cfg.features if part in method.record.unsupported), None)


def get_method(name: str, settings: Unchecked | None = None) -> Method:
    """Returns a method with these settings; `name` is read as `method_name` reads it.

    Raises:
        UnknownNameError: if there is no such method; the message gives the nearest names.
        DiscoveryError: if a user's file cannot be imported.
        ConfigError: if the method has no such setting, or the setting cannot have that value.
    """
    name, settings = method_name(name), settings or {}
    if method_source(name) is None:
        settings = renamed_settings(settings)
    return convert(methods()[name], settings, f"method {name}")


@dataclass(frozen=True)
class Runs:
    """The clean run, the ablation values, and the metric.

    Attributes:
        cache: the activation cache of the clean run.
        logits: the clean logits `[V, T, B]`.
        patch: the ablation values `[W, D, T, B]`, which replace the writers' outputs where they are patched.
        metric: maps logits to a number for each example.
    """

    cache: ActivationCache
    logits: Tensor
    patch: Tensor
    metric: Metric

    @property
    def clean(self) -> Tensor:
        """The outputs of all writers on the clean inputs, `[W, D, T, B]`."""
        return self.cache.stack


@torch.no_grad()
def clean_and_patch(problem: Problem, metric: str, ablation: AblationValue, cost: Cost) -> Runs:
    """Runs the network once on the clean and once on the corrupted inputs.

    Args:
        problem: the network and its inputs.
        metric: the name of a metric.
        ablation: what replaces clean activations.
        cost: the two runs are added to it.

    Raises:
        UnknownNameError: if there is no such metric.
        DiscoveryError: if the metric is for numerical outputs and the network's outputs are classes.
    """
    known_metric(metric, problem)
    clean_logits, clean = record(problem.network, problem.clean)
    corrupted_logits, corrupted = record(problem.network, problem.corrupted)
    cost.count(len(problem.clean))
    cost.count(len(problem.clean))
    patch = ablation_values(corrupted.stack, ablation)
    return Runs(clean, clean_logits, patch, Metric(metric, problem, clean_logits, corrupted_logits))


def known_metric(name: str, problem: Problem) -> None:
    """Checks that a metric exists and can be taken of the network's outputs.

    Raises:
        UnknownNameError: if there is no such metric; the message gives the nearest names.
        DiscoveryError: if the metric is for numerical outputs and the network's outputs are classes.
    """
    if METRICS[name].numbers_only and not problem.numerical:
        raise DiscoveryError(
            f"metric={name} is for numerical outputs, and this network's outputs are classes; use metric=kl"
        )


def ablation_values(corrupted: Tensor, ablation: AblationValue) -> Tensor:
    """Returns the ablation values `[W, D, T, B]`, given the writers' outputs on the corrupted inputs."""
    if ablation == "resample":
        return corrupted
    if ablation == "zero":
        return torch.zeros_like(corrupted)
    over = -1 if ablation == "mean_position" else (-2, -1)
    return corrupted.mean(over, keepdim=True).expand_as(corrupted).contiguous()


def chunks(problem: Problem, count: int, rows_each: int) -> list[slice]:
    """Divides many runs of a network among calls of a size that is fast.

    Args:
        problem: its network decides how many rows a call should have (`rows_per_call`).
        count: the number of runs.
        rows_each: how many rows of a batch each run takes.

    Returns:
        Slices of `range(count)`, one for each call.
    """
    at_once = max(1, rows_per_call(problem.network.cfg) // rows_each)
    return [slice(first, min(first + at_once, count)) for first in range(0, count, at_once)]


@torch.no_grad()
def measured(
    problem: Problem, runs: Runs, edges: np.ndarray | SingleEdges, cost: Cost, patch: Tensor | None = None
) -> np.ndarray:
    """Runs the network with edges patched, and returns the mean of the metric over examples.

    Args:
        problem: the network and its inputs.
        runs: the clean run, from which patched runs start.
        edges: the edges that each of K runs patches, bool `[K, R, W]`, or one edge a run.
        cost: the runs are added to it.
        patch: ablation values `[W, D, T, B]`; None for those of `runs`.

    Returns:
        The mean metric of each run, `[K]`.
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
    """Patches each edge alone, and returns how far the metric moves from its clean value.

    Args:
        problem: the network and its inputs.
        runs: the clean run, from which patched runs start.
        edges: the index of the reader and of the writer of each edge, `[E, 2]`.
        cost: the runs are added to it.
        patch: ablation values `[W, D, T, B]`; None for those of `runs`.

    Returns:
        The mean over examples for each edge, `[E]`.
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
    """Returns values `[R, W]` as a float64 array that is NaN where the graph has no edge."""
    return np.where(problem.graph.legal, values.detach().double().cpu().numpy(), np.nan)
