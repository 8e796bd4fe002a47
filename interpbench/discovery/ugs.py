"""Uniform gradient sampling with optimal ablation (Li & Janson 2024, section 3.2 and appendix).

Letters of shapes: N rows of a step (each an example with masks of its own), E edges in the order of
`graph.edges`, R readers.
"""

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
"""The distance from 0 and 1 that a mask must have to count as within its window."""


@method("ugs")
@dataclass(frozen=True, config=STRICT)
class UniformGradientSampling:
    """Learns the log-odds θ of keeping each edge, with masks that are uniform near the keeping probability.

    With π = σ(θ), the window w = π (1 − π), and u uniform in [0, 1], the mask of an edge is
    m = clamp((π − u) / w + ½, 0, 1): 1 keeps the edge, 0 ablates it. A step runs `batch` pairs of inputs,
    each in `samples` rows, and every row has masks of its own. In each row, edges that are on no path of open
    edges from the embedding to the logits are closed. The score of an edge is θ: one training ranks them all.

    The loss is the mean of the metric over rows + λ Σ π + μ Σ_heads c tanh(x / c), where x is the sum of
    π over the edges into and out of a head, c half the number of heads, and μ = min(λ / 2, 2e-4). The
    gradient of the metric by π is the mean of ∂M/∂m over the rows whose mask lies within the window (strictly
    between 0 and 1), without the factor 1 / w. Gradients are clipped at norm `clip` in each of four groups:
    edges from heads and from other nodes, to heads and to other readers.

    The defaults are those of the official code (`edge_pruning_unif.py`), with its 6,000 batches for learned
    ablation values (it takes 3,000 for others), except for λ, which it sweeps. It draws new prompts for each
    batch; here batches cycle through the problem's pairs. Its option of windows that depend on Adam's second
    moments is left out.

    Attributes:
        penalty: the penalty λ on the sum of keeping probabilities.
        batch: the number of pairs of inputs in each step.
        samples: the number of rows of each pair, each with masks of its own.
        steps: the number of Adam's steps.
        rate: Adam's learning rate for θ; None for the official code's: 0.15 for λ up to 1e-4, 0.1 up to 5e-4,
            else 0.05, and a fifth of it if the ablation is `resample`.
        constants_rate: Adam's learning rate for learned ablation values.
        start: the log-odds θ of keeping an edge at the start.
        clip: the norm at which gradients are clipped.
        metric: the metric that masks are trained to keep low.
        ablation: what replaces the writer's output in a removed edge.
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
        looks_at="clean inputs (corrupted ones for the first ablation values), training of masks",
        units="log-odds of being kept",
        deviations=(
            "λ is 1e-3, where the code sweeps it (default 4e-2); batches cycle through the given pairs, not "
            "new prompts; BOS stays clean in bidirectional networks too; windows without Adam's moments"
        ),
        test="tests/discovery/test_ugs.py against literal loops; compare_published --tools ugs",
        budget="6,000 steps of 60 rows by its authors (3,000 if ablation values are not learned)",
        authors_steps=6000,
        sign="larger: the edge is kept with larger log-odds θ",
        cost="two forward passes; `steps` × `batch` × `samples` examples forward and backward",
        granularity="edge",
        stochastic=True,
    )

    @directed
    def __call__(self, problem: Problem) -> Scores:
        """Trains masks, and ablation values if these are learned."""
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
        """The number of steps that the authors take with this ablation."""
        return 6000 if self.ablation == "learned" else 3000

    @property
    def used_rate(self) -> float:
        """Adam's learning rate for θ: `rate`, or that of the official code."""
        if self.rate is not None:
            return self.rate
        rate = 0.15 if self.penalty <= 1e-4 else 0.1 if self.penalty <= 5e-4 else 0.05
        return rate / 5 if self.ablation == "resample" else rate


class Training:
    """The parameters θ, `[E]`, and learned ablation values, and a step of their training.

    Args:
        settings: the settings of the method.
        problem: the network and its inputs.
        cost: the passes are added to it.
    """

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
        """Takes a step of Adam.

        Args:
            rows: the index of each row's example, `[N]`.
            uniform: the uniform noise from which masks are made, `[N, E]`.
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
    """Returns masks `[N, E]`, given the probabilities of keeping edges `[E]` and uniform noise `[N, E]`.

    The gradient of a mask by `kept` is 0 outside the window; inside it is 1 divided by the share of rows
    whose mask of this edge is inside.
    """
    masks = ((kept - uniform) / (kept * (1 - kept)) + 0.5).clamp(0, 1).detach()
    within = ((masks > WITHIN) & (masks < 1 - WITHIN)).sum(0)
    weight = torch.where(within > 0, len(masks) / within.clamp(min=1), 0)
    return masks + weight * ((masks > 0) & (masks < 1)) * (kept - kept.detach())


class _Paths:
    """Closes the edges that are on no path of open edges from the embedding to the logits."""

    def __init__(self, graph: Graph, like: Tensor):
        reader, writer = np.argwhere(graph.legal).T
        target = _targets(graph)[reader]
        self.target, self.writer = (torch.from_numpy(x).to(like.device) for x in (target, writer))
        self.nodes, self.longest = len(graph.nodes), 2 * graph.n_layers
        self.place = self.target * self.nodes + self.writer

    @torch.no_grad()
    def _connected(self, masks: Tensor) -> Tensor:
        """Returns whether edges are on a path of open edges, bool `[N, E]`."""
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
        """Returns masks `[N, E]` that are 0 for edges on no path of open edges."""
        return masks * self._connected(masks)


def _targets(graph: Graph) -> np.ndarray:
    """Returns the index of each reader's node, `[R]`; for the logits the number of nodes."""
    ends = [graph.node_index.get(Node(reader.layer, reader.head)) for reader in graph.readers]
    return np.array([len(graph.nodes) if end is None else end for end in ends])


class _Complexity:
    """The official code's penalty on heads: Σ c tanh(x / c), x being the sum of π over a head's edges."""

    def __init__(self, graph: Graph, like: Tensor):
        reader, writer = np.argwhere(graph.legal).T
        heads = np.flatnonzero([node.head is not None for node in graph.nodes])
        touches = (writer == heads[:, None]) | (_targets(graph)[reader] == heads[:, None])
        self.touches = torch.from_numpy(touches).to(like)
        self.half = len(heads) / 2

    def __call__(self, kept: Tensor) -> Tensor:
        """Returns the penalty, given the probabilities π of keeping edges, `[E]`."""
        return (self.touches @ kept / self.half).tanh().sum() * self.half


def _groups(graph: Graph, like: Tensor) -> Tensor:
    """Returns the group of each edge, `[E]`: 0 to 3, by whether its writer and its reader are a head."""
    reader, writer = np.argwhere(graph.legal).T
    from_head = np.array([node.head is not None for node in graph.nodes])[writer]
    to_head = np.array([place.head is not None for place in graph.readers])[reader]
    return torch.from_numpy(2 * from_head + to_head).to(like.device)


def _rows(problem: Problem, batch: int, samples: int, steps: int) -> Iterator[Tensor]:
    """Yields the index of the example of each row, `[samples × batch]`, for each step.

    Batches cycle through all examples, in a new random order each time.
    """
    generator = torch.Generator().manual_seed(seeds.derive(problem.seed, "method", "ugs", "rows"))
    waiting = torch.empty(0, dtype=torch.long)
    for _ in range(steps):
        while len(waiting) < batch:
            waiting = torch.cat([waiting, torch.randperm(len(problem.clean), generator=generator)])
        yield waiting[:batch].repeat(samples).to(problem.clean.device)
        waiting = waiting[batch:]
