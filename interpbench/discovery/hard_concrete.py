"""Hard-concrete gates (Louizos et al. 2018, section 2.2).

A gate is a random number in [0, 1] that is exactly 0 or 1 with positive probability. Its distribution has a
parameter θ: with u uniform in [0, 1], s = σ((ln u − ln(1 − u) + θ) / β) is stretched to [γ, ζ] and clipped to
[0, 1]. Gates are sampled in training only; circuits and scores are read from θ without sampling.

Letters of shapes: K circuits, E edges, R readers, W writers.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from interpbench.circuits.graph import Graph
from interpbench.core import seeds
from interpbench.tasks.problem import Problem

BETA, GAMMA, ZETA = 2 / 3, -0.1, 1.1
"""The temperature β and the interval from γ to ζ, with the values of Louizos et al."""


def sampled(theta: Tensor, uniform: Tensor) -> Tensor:
    """Returns sampled gates, given θ and uniform noise of the same shape (equation 11)."""
    return _stretched(torch.sigmoid((uniform.logit(1e-6) + theta) / BETA))


def without_noise(theta: Tensor) -> Tensor:
    """Returns the deterministic gates that are used after training (equation 13)."""
    return _stretched(torch.sigmoid(theta))


def open_probability(theta: Tensor) -> Tensor:
    """Returns the probability that a gate is not 0 (equation 12)."""
    return torch.sigmoid(theta - BETA * math.log(-GAMMA / ZETA))


def _stretched(s: Tensor) -> Tensor:
    return (s * (ZETA - GAMMA) + GAMMA).clamp(0, 1)


def initial(shape: tuple[int, ...], kept: float, like: Tensor) -> Tensor:
    """Returns parameters θ to train.

    Args:
        shape: the shape of θ.
        kept: how open gates are at the start, σ(θ).
        like: a tensor with the data type and device that θ is to have.
    """
    return torch.full(
        shape, math.log(kept / (1 - kept)), dtype=like.dtype, device=like.device
    ).requires_grad_()


def optimiser(
    gates: list[Tensor],
    rate: float,
    constants: list[Tensor],
    constants_rate: float,
    betas: tuple[float, float] = (0.9, 0.999),
) -> torch.optim.Adam:
    """Returns Adam for gates and for learned ablation values.

    Args:
        gates: the parameters θ of gates.
        rate: the learning rate for gates.
        constants: the parameters of learned ablation values; empty if these are fixed.
        constants_rate: the learning rate for learned ablation values.
        betas: Adam's two decay rates, for gates.
    """
    groups: list[dict[str, Any]] = [{"params": gates, "lr": rate, "betas": betas}]
    if constants:
        groups.append({"params": constants, "lr": constants_rate})
    return torch.optim.Adam(groups)


def noise(problem: Problem, name: str, shape: tuple[int, ...], steps: int, like: Tensor) -> Iterator[Tensor]:
    """Yields the uniform noise of each step of training, which is the same on every device.

    Args:
        problem: the problem, whose seed determines the noise.
        name: the name of the method; each method has noise of its own.
        shape: the shape of each step's noise.
        steps: the number of steps.
        like: a tensor with the data type and device that the noise is to have.

    Yields:
        A tensor of that shape.
    """
    generator = torch.Generator().manual_seed(seeds.derive(problem.seed, "method", name))
    for _ in range(steps):
        drawn = torch.rand(shape, generator=generator, dtype=torch.float64)
        yield drawn.to(like, non_blocking=True)


def at_edges(graph: Graph, values: Tensor) -> Tensor:
    """Returns values of edges, given as `[K, E]`, as `[K, R, W]`, with 0 where the graph has no edge."""
    legal = torch.from_numpy(graph.legal).to(values.device)
    return values.new_zeros(len(values), *graph.legal.shape).masked_scatter(legal, values)
