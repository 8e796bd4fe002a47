"""Edge pruning (Bhaskar et al. 2024, section 3): gates on edges, trained towards a target sparsity.

Letters of shapes: K targets, E edges, W writers.
"""

from typing import Annotated, ClassVar

import numpy as np
import torch
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor

from interpbench.circuits.scores import Cost, Scores
from interpbench.core.config import STRICT, Amount, Count, Share
from interpbench.discovery.ablation import Ablation, GateAblationValue
from interpbench.discovery.directions import Direction, directed
from interpbench.discovery.hard_concrete import (
    at_edges,
    initial,
    noise,
    open_probability,
    optimiser,
    sampled,
    without_noise,
)
from interpbench.discovery.method import method
from interpbench.discovery.method_record import MethodRecord
from interpbench.tasks.metrics import MetricName
from interpbench.tasks.problem import Problem


@method("edge_pruning")
@dataclass(frozen=True, config=STRICT)
class EdgePruning:
    """Learns hard-concrete gates on edges and writers, with a Lagrangian for the share of edges removed.

    The gate of an edge is multiplied by that of its writer. The loss is metric + λ₁ (t − s) + λ₂ (t − s)²,
    where s is the expected share of closed edges and t rises from 0 to the target sparsity. It is minimised
    over gates and maximised over the multipliers λ₁ and λ₂, which start at 0. A target's circuit has as many
    edges as its mean gate (without noise) says: those most likely to be open. An edge's score is the
    probability that its gate and its writer's are open, averaged over targets.

    The published code has a target and multipliers for nodes as well; here gates of nodes have none, and only
    the term for edges closes them. If ablation values are learned, each target has its own.

    Attributes:
        targets: shares of edges to remove, one circuit each; above 1 the pressure to remove edges never ends.
        steps: the number of Adam's steps.
        warm_up: the share of the steps in which the target t rises.
        rate: Adam's learning rate for gates.
        constants_rate: Adam's learning rate for learned ablation values.
        multiplier_rate: Adam's learning rate for the Lagrangian multipliers λ₁ and λ₂.
        kept: how open gates are at the start, σ(θ).
        metric: the metric that gates are trained to keep low.
        ablation: what replaces the writer's output where a gate is closed.
        direction: which runs are patched: clean ones (`noising`, as its authors), corrupted ones
            (`denoising`), or both.
    """

    targets: Annotated[tuple[Amount, ...], Field(min_length=1)] = (0.5, 0.7, 0.8, 0.9, 0.94, 0.97, 1.0, 1.02)
    steps: Count = 300
    warm_up: Share = 0.8
    rate: Amount = 0.1
    constants_rate: Amount = 0.01
    multiplier_rate: Amount = 0.8
    kept: Annotated[float, Field(gt=0, lt=1)] = 0.95
    metric: MetricName = "kl"
    ablation: GateAblationValue = "resample"
    direction: Direction = "noising"
    record: ClassVar[MethodRecord] = MethodRecord(
        source="Bhaskar et al. 2024, section 3",
        code="princeton-nlp/Edge-Pruning at a918efd, read, not run",
        looks_at="clean and corrupted inputs, training of gates",
        units="probability that the edge's and its writer's gates are open",
        deviations=(
            "a target for the sparsity of edges but none for that of nodes; multipliers are trained with "
            "Adam; all targets are trained in one batch; gates are read without sampling"
        ),
        test="tests/discovery/test_gates.py: gradients; training in one batch equals training one by one",
        budget="3,000 steps for each target by its authors (IOI), on 32 prompts",
        most_examples=32,
        authors_steps=3000,
        sign="larger: the edge's and its writer's gates are more likely open, averaged over targets",
        cost="two forward passes; `steps` × targets forward and backward passes",
        granularity="edge",
        stochastic=True,
    )

    @directed
    def __call__(self, problem: Problem) -> Scores:
        """Trains the gates of all targets in one batch."""
        cost, graph = Cost(), problem.graph
        edge, node = self._learn(problem, cost)
        writer = np.argwhere(graph.legal)[:, 1]
        values = (open_probability(edge) * open_probability(node)[:, writer]).double().cpu().numpy()
        opened = (without_noise(edge) * without_noise(node)[:, writer]).mean(1).cpu().numpy()
        scores = np.full(graph.legal.shape, np.nan)
        scores[graph.legal] = values.mean(0)
        circuits: dict[float, np.ndarray] = {}
        for target, value, share in zip(self.targets, values, opened):
            size = round(float(share) * len(value))
            kept = np.zeros(len(value), bool)
            kept[np.argsort(-value, kind="stable")[:size]] = True
            circuits[target] = np.zeros(graph.legal.shape, bool)
            circuits[target][graph.legal] = kept
        return Scores(graph, scores, cost=cost, circuits=circuits)

    def _learn(self, problem: Problem, cost: Cost) -> tuple[Tensor, Tensor]:
        """Trains gates, and returns the parameters θ of edges `[K, E]` and of writers `[K, W]`."""
        graph = problem.graph
        count, edges = len(self.targets), len(graph.edges)
        ablation = Ablation(problem, self.metric, self.ablation, cost, count, count)
        edge = initial((count, edges), self.kept, ablation.like)
        node = initial((count, len(graph.nodes)), self.kept, ablation.like)
        multipliers = edge.new_zeros(2, count).requires_grad_()
        targets = torch.tensor(self.targets).to(edge)
        writer = torch.from_numpy(np.argwhere(graph.legal)[:, 1]).to(edge.device)
        descent = optimiser([edge, node], self.rate, ablation.constants, self.constants_rate)
        ascent = torch.optim.Adam([multipliers], lr=self.multiplier_rate, maximize=True)
        width = edges + len(graph.nodes)
        drawn = noise(problem, "edge_pruning", (width,), self.steps, edge)
        for step, uniform in enumerate(drawn):
            gates = sampled(edge, uniform[:edges]) * sampled(node, uniform[edges:])[:, writer]
            loss = ablation.loss(at_edges(graph, 1 - gates), ablation.shifts)
            expected = 1 - (open_probability(edge) * open_probability(node)[:, writer]).mean(1)
            ramp = min(1.0, (step + 1) / max(1.0, self.warm_up * self.steps))
            missing = ramp * targets - expected
            descent.zero_grad()
            ascent.zero_grad()
            (loss + multipliers[0] * missing + multipliers[1] * missing.square()).sum().backward()
            descent.step()
            ascent.step()
        return edge.detach(), node.detach()
