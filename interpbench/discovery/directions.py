"""Noising and denoising: which of the two runs is patched (Heimersheim & Nanda 2024, section 2).

Noising patches the clean run with corrupted activations and measures what breaks; denoising patches the
corrupted run with clean activations and measures what is restored. If either of two nodes is enough for an
output (OR), noising one of them changes nothing; if both are needed (AND), denoising one of them restores
nothing (Chen et al. 2025). A method's denoising scores are its scores with clean and corrupted inputs
exchanged.
"""

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Literal, TypeVar

import numpy as np

from interpbench.circuits.scores import Cost, Scores
from interpbench.core.errors import DiscoveryError
from interpbench.tasks.problem import Problem

Direction = Literal["noising", "denoising", "both"]
"""`noising`, `denoising`, or `both`: the larger of the two scores of each edge and node (with
`absolute=false` the one of larger absolute value), and the union of the two circuits at each threshold."""

M = TypeVar("M")


def directed(call: Callable[[M, Problem], Scores]) -> Callable[[M, Problem], Scores]:
    """Decorates the `__call__` of a method that scores by noising: it then follows the setting `direction`.

    Raises:
        DiscoveryError: when called with `denoising` or `both` and an ablation other than `resample`: only
            then are ablation values activations of the other run.
    """

    @functools.wraps(call)
    def scored(self: M, problem: Problem) -> Scores:
        direction, ablation = getattr(self, "direction"), getattr(self, "ablation", "resample")  # noqa: B009
        if direction == "noising":
            return call(self, problem)
        if ablation != "resample":
            raise DiscoveryError(f"direction={direction} needs ablation=resample, not ablation={ablation}")
        denoised = call(self, problem.exchanged())
        if direction == "denoising":
            return denoised
        return _larger(call(self, problem), denoised, signed=not getattr(self, "absolute", True))

    return scored


def _larger(first: Scores, second: Scores, signed: bool) -> Scores:
    """Returns the larger score of each edge and node (by absolute value if `signed`), and joined circuits."""

    def larger(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.where(np.abs(b) > np.abs(a), b, a) if signed else np.maximum(a, b)

    nodes = None
    if first.own_nodes is not None and second.own_nodes is not None:
        nodes = larger(first.own_nodes, second.own_nodes)
    cost = Cost(*(value + vars(second.cost)[key] for key, value in vars(first.cost).items()))
    circuits = {key: kept | second.circuits[key] for key, kept in first.circuits.items()}
    return replace(
        first, edges=larger(first.edges, second.edges), own_nodes=nodes, cost=cost, circuits=circuits
    )
