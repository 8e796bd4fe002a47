"""Noising and denoising: which of the two runs is intervened on (Heimersheim & Nanda 2024, section 2).

Noising patches edges of the clean run from the corrupted one and sees what breaks; denoising patches edges of
the corrupted run from the clean one and sees what is restored. Where either of two inputs is enough (OR),
noising one of them changes nothing; where both are needed (AND), denoising one of them restores nothing
(Chen et al. 2025). A method's denoising scores are those that it gives with the two runs exchanged.
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
"""`both` takes the larger of the two scores of each edge and node (with `absolute=false` that of the larger
size), and of two circuits at the same threshold the union."""

M = TypeVar("M")


def directed(call: Callable[[M, Problem], Scores]) -> Callable[[M, Problem], Scores]:
    """Makes a method that scores by noising take its `direction`.

    Raises:
        DiscoveryError: for another direction with an ablation that is not an activation of the other run.
    """

    @functools.wraps(call)
    def scored(self: M, problem: Problem) -> Scores:
        direction, ablation = getattr(self, "direction"), getattr(self, "ablation", "resample")  # noqa: B009
        if direction == "noising":
            return call(self, problem)
        if ablation != "resample":
            raise DiscoveryError(f"direction={direction} needs ablation=resample, not {ablation}")
        denoised = call(self, problem.exchanged())
        if direction == "denoising":
            return denoised
        return _larger(call(self, problem), denoised, signed=not getattr(self, "absolute", True))

    return scored


def _larger(first: Scores, second: Scores, signed: bool) -> Scores:
    """Returns what is larger, edge by edge and node by node, in size if signed; and the union of circuits."""

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
