"""Uniform gradient sampling with optimal ablation (Li & Janson 2024, section 3.2 and appendix)."""

from collections.abc import Iterator
from typing import Annotated, ClassVar

import numpy as np
import torch
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor

from interpbench.circuits.graph import Graph
from interpbench.circuits.naming import Node
from interpbench.circuits.scores import Cost, Scores
from interpbench.core import seeds
from interpbench.core.config import STRICT, Amount, Count
from interpbench.discovery.ablation import Ablation, GateAblationValue
from interpbench.discovery.directions import Direction, directed
from interpbench.discovery.hard_concrete import at_edges, optimiser
from interpbench.discovery.method import method
from interpbench.discovery.method_record import MethodRecord
from interpbench.tasks.metrics import MetricName
from interpbench.tasks.problem import Problem

WITHIN = 1e-3
"""How far from 0 and 1 a mask is counted as within its window."""


@method("ugs")
@dataclass(frozen=True, config=STRICT)
class UniformGradientSampling:
    """One training ranks all edges: θ of masks that are drawn uniformly near their probability.

    With π = σ(θ) and the window w = π (1 − π), an edge is kept as far as clamp((π − u) / w + ½, 0, 1). In
    each step every row of `batch` × `samples` has masks of its own; an example is in `samples` rows. Edges
    that are on no open path from the embedding to the logits are closed in that row.

    The loss is the metric's mean over rows, plus λ Σ π, plus μ Σ_heads c tanh(x / c), where x is the sum
    of π over the edges into and out of a head, c half the number of heads, and μ the lesser of λ / 2
    and 2e-4. The metric's gradient by an edge's mask is the mean over the rows whose mask is within the
    window, and goes to θ as if w were 1. Gradients are clipped at norm 5 in each of four groups: edges from
    heads and from others, to heads and to others.

    The defaults are those of the official code (its `edge_pruning_unif.py`), the 6,000 batches included
    that it takes where constants are learned (3,000 elsewhere), but for λ, which it sweeps. It draws new
    prompts for each batch; here batches go round the problem's pairs. Windows that follow Adam's second
    moments, an option there, are left out.

    Attributes:
        penalty: the penalty λ on the sum of keeping probabilities.
        batch: pairs of inputs in each step.
        samples: rows of each pair, with masks of their own.
        steps: the number of Adam's steps.
        rate: Adam's learning rate for θ; None for the official code's: 0.15 for λ up to 1e-4, 0.1 up to 5e-4,
            else 0.05, and a fifth of it where the ablation is `resample`.
        constants_rate: Adam's learning rate for learned ablation values.
        start: log-odds θ with which edges are kept at the start.
        clip: the norm at which gradients are clipped.
        metric: what masks are to keep low.
        ablation: what takes the place of a removed edge.
        direction: which runs are patched; all but `noising` need ablation=resample: clean ones (`noising`, as
            its authors), corrupted ones (`denoising`), or both.
    """

    penalty: Amount = 0.001
    batch: Count = 5
    samples: Count = 12
    steps: Count = 6000
    rate: Annotated[float, Field(gt=0)] | None = None
    constants_rate: Amount = 0.002
    start: float = 1.0
    clip: Annotated[float, Field(gt=0)] = 5.0
    metric: MetricName = "kl"
    ablation: GateAblationValue = "learned"
    direction: Direction = "noising"
    record: ClassVar[MethodRecord] = MethodRecord(
        source="Li & Janson 2024, section 3.2 and appendix",
        code="maxtli/optimalablation at ac02e85: 50 steps on causal networks with classes",
        looks_at="clean inputs (corrupted ones' mean to start from), training of masks",
        units="log-odds of being kept",
        deviations=(
            "λ is 1e-3, where the code sweeps it (its default is 4e-2); batches go round the given pairs, "
            "where it draws new prompts; BOS keeps its clean values in bidirectional networks too; windows "
            "of one width"
        ),
        test="tests/discovery/test_ugs.py against literal loops; compare_published --tools ugs",
        budget="6,000 steps of 60 rows, its authors' (3,000 without learned constants)",
        authors_steps=6000,
        sign="θ: the log-odds with which the edge is kept",
        cost="two forward passes; `steps` × `batch` × `samples` examples forward and backward",
        granularity="edge",
        stochastic=True,
    )

    @directed
    def __call__(self, problem: Problem) -> Scores:
        """Trains masks, and constants if they are learned."""
        cost, graph = Cost(), problem.graph
        training = Training(self, problem, cost)
        generator = torch.Generator().manual_seed(seeds.derive(problem.seed, "method", "ugs"))
        shape = self.batch * self.samples, len(training.theta)
        for rows in _rows(problem, self.batch, self.samples, self.steps):
            uniform = torch.rand(shape, generator=generator, dtype=torch.float64)
            training.step(rows, uniform.to(training.theta))
        scores = np.full(graph.legal.shape, np.nan)
        scores[graph.legal] = training.theta.detach().double().cpu().numpy()
        return Scores(graph, scores, cost=cost)

    @property
    def authors_steps(self) -> int:
        """The steps that its authors take with this ablation."""
        return 6000 if self.ablation == "learned" else 3000

    @property
    def used_rate(self) -> float:
        """Adam's learning rate for θ."""
        if self.rate is not None:
            return self.rate
        rate = 0.15 if self.penalty <= 1e-4 else 0.1 if self.penalty <= 5e-4 else 0.05
        return rate / 5 if self.ablation == "resample" else rate


class Training:
    """θ `[E]`, in the order of the legal edges, and constants, and one step of their training."""

    def __init__(self, settings: UniformGradientSampling, problem: Problem, cost: Cost):
        self.settings, self.graph = settings, problem.graph
        self.ablation = Ablation(problem, settings.metric, settings.ablation, cost, 1, settings.samples)
        like = self.ablation.like
        self.theta = like.new_full((len(self.graph.edges),), settings.start).requires_grad_()
        self._adam = optimiser(
            [self.theta],
            settings.used_rate,
            self.ablation.constants,
            settings.constants_rate,
            (0.9, 0.995),
        )
        self._paths, self._complexity = _Paths(self.graph, like), _Complexity(self.graph, like)
        self._groups = _groups(self.graph, like)
        self._node_penalty = min(0.5 * settings.penalty, 2e-4)

    def step(self, rows: Tensor, uniform: Tensor) -> None:
        """Learns from some rows.

        Args:
            rows: `[N]`: the example of each.
            uniform: `[N, E]`: what its masks are drawn with.
        """
        kept = self.theta.sigmoid()
        masks = self._paths.open(_drawn(kept, uniform))
        shifts = self.ablation.shifts
        if shifts is not None:
            shifts = shifts.expand(len(rows), -1, -1)
        loss = self.ablation.each(at_edges(self.graph, 1 - masks), rows, shifts).mean()
        penalty = self.settings.penalty * kept.sum() + self._node_penalty * self._complexity(kept)
        learned = [self.theta, *self.ablation.constants]
        for leaf, slope in zip(learned, torch.autograd.grad(loss + penalty, learned)):
            leaf.grad = slope
        assert self.theta.grad is not None
        norms = self.theta.new_zeros(4).index_add(0, self._groups, self.theta.grad.square()).sqrt()
        self.theta.grad *= (self.settings.clip / (norms + 1e-6)).clamp(max=1)[self._groups]
        self._adam.step()


def _drawn(kept: Tensor, uniform: Tensor) -> Tensor:
    """Returns masks `[N, E]` from probabilities `[E]` and uniform numbers `[N, E]`.

    Their gradient by `kept` is 1 within the window, divided by the share of the rows that are within it.
    """
    masks = ((kept - uniform) / (kept * (1 - kept)) + 0.5).clamp(0, 1).detach()
    within = ((masks > WITHIN) & (masks < 1 - WITHIN)).sum(0)
    weight = torch.where(within > 0, len(masks) / within.clamp(min=1), 0)
    return masks + weight * ((masks > 0) & (masks < 1)) * (kept - kept.detach())


class _Paths:
    """Closes edges that are on no path of open edges from the embedding to the logits."""

    def __init__(self, graph: Graph, like: Tensor):
        reader, writer = np.argwhere(graph.legal).T
        target = _targets(graph)[reader]
        self.target, self.writer = (torch.from_numpy(x).to(like.device) for x in (target, writer))
        self.nodes, self.longest = len(graph.nodes), 2 * graph.n_layers
        self.place = self.target * self.nodes + self.writer

    @torch.no_grad()
    def _connected(self, masks: Tensor) -> Tensor:
        """Returns `[N, E]`: whether edges are on an open path."""
        count, nodes = len(masks), self.nodes
        arrows = masks.new_zeros(count, (nodes + 1) * nodes).index_add_(1, self.place, (masks > 0).to(masks))
        arrows = arrows.view(count, nodes + 1, nodes)
        reached, leads = masks.new_zeros(2, count, nodes, 1)
        reached[:, 0] = 1
        last = leads + arrows[:, nodes, :, None]
        leads = last
        forward, backward = arrows[:, :nodes], arrows[:, :nodes].transpose(1, 2)
        for _ in range(self.longest):
            reached = (torch.bmm(forward, reached) + reached).clamp_(max=1)
            leads = (torch.bmm(backward, leads) + last).clamp_(max=1)
        leads = torch.cat([leads, torch.ones_like(leads[:, :1])], 1)
        return ((reached[:, self.writer] > 0) & (leads[:, self.target] > 0)).squeeze(2)

    def open(self, masks: Tensor) -> Tensor:
        """Returns masks `[N, E]`, 0 for what is on no open path."""
        return masks * self._connected(masks)


def _targets(graph: Graph) -> np.ndarray:
    """Returns `[R]`: the node that each reader feeds; one more than there are for the logits."""
    ends = [graph.node_index.get(Node(reader.layer, reader.head)) for reader in graph.readers]
    return np.array([len(graph.nodes) if end is None else end for end in ends])


class _Complexity:
    """The official code's penalty on heads, with its gradient."""

    def __init__(self, graph: Graph, like: Tensor):
        reader, writer = np.argwhere(graph.legal).T
        heads = np.flatnonzero([node.head is not None for node in graph.nodes])
        touches = (writer == heads[:, None]) | (_targets(graph)[reader] == heads[:, None])
        self.touches = torch.from_numpy(touches).to(like)
        self.half = len(heads) / 2

    def __call__(self, kept: Tensor) -> Tensor:
        """Sums c tanh(x / c) over heads, from probabilities `[E]`."""
        return (self.touches @ kept / self.half).tanh().sum() * self.half


def _groups(graph: Graph, like: Tensor) -> Tensor:
    """Returns `[E]`: 0 to 3, by whether an edge's writer, and its reader, are a head."""
    reader, writer = np.argwhere(graph.legal).T
    from_head = np.array([node.head is not None for node in graph.nodes])[writer]
    to_head = np.array([place.head is not None for place in graph.readers])[reader]
    return torch.from_numpy(2 * from_head + to_head).to(like.device)


def _rows(problem: Problem, batch: int, samples: int, steps: int) -> Iterator[Tensor]:
    """Yields `[samples × batch]`: the examples of each step's rows, going round all in ever new orders."""
    generator = torch.Generator().manual_seed(seeds.derive(problem.seed, "method", "ugs", "rows"))
    waiting = torch.empty(0, dtype=torch.long)
    for _ in range(steps):
        while len(waiting) < batch:
            waiting = torch.cat([waiting, torch.randperm(len(problem.clean), generator=generator)])
        yield waiting[:batch].repeat(samples).to(problem.clean.device)
        waiting = waiting[batch:]
