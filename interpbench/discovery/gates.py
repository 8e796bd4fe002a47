"""Hard-concrete gates (Louizos et al. 2018, section 2.2), and descent on the metric of masked networks.

A gate is a random number in [0, 1] that is exactly 0 or 1 with positive probability and whose distribution
has a parameter θ: s = σ((ln u − ln(1 − u) + θ) / β), stretched to [γ, ζ] and clipped. Read-outs never sample.
"""

import math
from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor

from interpbench.circuits.graph import Graph
from interpbench.circuits.scores import Cost
from interpbench.core import seeds
from interpbench.discovery.method import Replacement, Runs, clean_and_patch, parts
from interpbench.tasks.problem import Problem
from interpbench.transformer.patching import Candidates

GateReplacement = Literal["learned", Replacement]
"""A `Replacement`, or `learned`: one vector for each circuit and writer, the same for all inputs and
positions, trained with the gates from the corrupted inputs' mean (optimal ablation; Li & Janson 2024)."""

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


def gated_runs(
    problem: Problem, metric: str, replacement: GateReplacement, cost: Cost, count: int
) -> tuple[Runs, Tensor | None]:
    """Runs the clean and the corrupted inputs once each, as `clean_and_patch` does.

    Returns:
        The runs and, if replacements are learned, what they add to the runs' patch: `[count, W, D]` zeros, to
        be learned.
    """
    if replacement != "learned":
        return clean_and_patch(problem, metric, replacement, cost), None
    runs = clean_and_patch(problem, metric, "mean", cost)
    return runs, runs.clean.new_zeros(count, *runs.clean.shape[:2]).requires_grad_()


def optimiser(
    gates: list[Tensor],
    rate: float,
    shifts: Tensor | None,
    constants_rate: float,
    betas: tuple[float, float] = (0.9, 0.999),
) -> torch.optim.Adam:
    """Returns Adam for gates, and for learned replacements at a rate of their own."""
    constants = [] if shifts is None else [{"params": [shifts], "lr": constants_rate}]
    return torch.optim.Adam([{"params": gates, "lr": rate}, *constants], betas=betas)


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


def ablation_loss(
    problem: Problem, runs: Runs, removed: Tensor, cost: Cost, shifts: Tensor | None = None
) -> Tensor:
    """Returns the metric `[K]` of networks whose edges are replaced, with its gradient attached.

    The network runs on `removed` once, as a leaf; what comes back is the value plus a term that is 0 and
    whose gradient is the metric's, so that calls on part of the examples need no graph of their own.

    Args:
        problem: the problem.
        runs: its clean activations and metric.
        removed: `[K, R, W]`: how much of each edge is replaced.
        cost: gets the passes added.
        shifts: `[K, W, D]` that is added to the runs' patch, if replacements are learned too.
    """
    count, examples = len(removed), len(problem.clean)
    learned = [removed] if shifts is None else [removed, shifts]
    leaves = [tensor.detach().requires_grad_() for tensor in learned]
    values = removed.new_zeros(count)
    gradients = [torch.zeros_like(leaf) for leaf in leaves]
    for rows in parts(examples, count):
        moved = None if shifts is None else leaves[1]
        embedding = runs.clean[0, ..., rows].unsqueeze(2).expand(-1, -1, count, -1).flatten(2)
        candidates = Candidates(leaves[0], runs.patch[..., rows], shifts=moved)
        logits = problem.network.run(embedding, candidates)
        each = runs.metric.part(rows)(logits.view(*logits.shape[:2], count, -1)).sum(1) / examples
        values += each.detach()
        for total, part in zip(gradients, torch.autograd.grad(each.sum(), leaves)):
            total += part
        cost.count(embedding.shape[-1], backward=True)
    attached = [((x - x.detach()) * gradient).sum((1, 2)) for x, gradient in zip(learned, gradients)]
    return values + torch.stack(attached).sum(0)
