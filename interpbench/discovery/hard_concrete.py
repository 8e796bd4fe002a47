"""Hard-concrete gates (Louizos et al. 2018, section 2.2).

A gate is a random number in [0, 1] that is exactly 0 or 1 with positive probability and whose distribution
has a parameter θ: s = σ((ln u − ln(1 − u) + θ) / β), stretched to [γ, ζ] and clipped. Read-outs never sample.
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


def sampled(theta: Tensor, uniform: Tensor) -> Tensor:
    """Returns gates of the shape of `theta`, from uniform noise of that shape; equation 11."""
    return _stretched(torch.sigmoid((uniform.logit(1e-6) + theta) / BETA))


def settled(theta: Tensor) -> Tensor:
    """Returns the gates without noise; equation 13."""
    return _stretched(torch.sigmoid(theta))


def open_probability(theta: Tensor) -> Tensor:
    """Returns the probability that a gate is not 0; equation 12."""
    return torch.sigmoid(theta - BETA * math.log(-GAMMA / ZETA))


def _stretched(s: Tensor) -> Tensor:
    return (s * (ZETA - GAMMA) + GAMMA).clamp(0, 1)


def initial(shape: tuple[int, ...], kept: float, like: Tensor) -> Tensor:
    """Returns θ of this shape, at which σ(θ) is `kept`, to be learned."""
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
    """Returns Adam for gates, with these β, and for learned ablation values at a rate of their own."""
    groups: list[dict[str, Any]] = [{"params": gates, "lr": rate, "betas": betas}]
    if constants:
        groups.append({"params": constants, "lr": constants_rate})
    return torch.optim.Adam(groups)


def noise(problem: Problem, name: str, shape: tuple[int, ...], steps: int, like: Tensor) -> Iterator[Tensor]:
    """Yields uniform numbers of this shape for each step, the same on every device.

    Args:
        problem: has the seed.
        name: the method's.
        shape: of each step's numbers.
        steps: how many steps.
        like: a tensor of the type and on the device that they shall have.
    """
    generator = torch.Generator().manual_seed(seeds.derive(problem.seed, "method", name))
    for _ in range(steps):
        drawn = torch.rand(shape, generator=generator, dtype=torch.float64)
        yield drawn.to(like, non_blocking=True)


def at_edges(graph: Graph, values: Tensor) -> Tensor:
    """Puts values `[K, E]` of the legal edges into `[K, R, W]`, 0 elsewhere."""
    legal = torch.from_numpy(graph.legal).to(values.device)
    return values.new_zeros(len(values), *graph.legal.shape).masked_scatter(legal, values)
