"""Uniform gradient sampling with optimal ablation (Li & Janson 2024)."""

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from interpbench.circuits.scores import Cost, Scores
from interpbench.core.config import STRICT, Amount, Count
from interpbench.discovery.ablation import Ablation, GateReplacement
from interpbench.discovery.gates import (
    at_edges,
    initial,
    noise,
    optimiser,
)
from interpbench.discovery.method import method
from interpbench.tasks.problem import MetricName, Problem


@method("ugs")
@dataclass(frozen=True, config=STRICT)
class UniformGradientSampling:
    """One training ranks all edges: θ of masks that are drawn uniformly near their probability.

    With π = σ(θ) and w = π (1 − π), an edge is kept as far as clamp((π − u) / w + ½, 0, 1). The loss is the
    metric plus λ times the sum of π. Learned replacements are the same for all masks.
    Masks are drawn for a batch, not for each example; edges that lead nowhere are not filtered out, and
    there is no extra penalty on nodes.

    Attributes:
        penalty: λ.
        samples: masks drawn in each step.
        steps: of Adam.
        rate: Adam's learning rate for θ.
        constants_rate: the same for learned replacements.
        kept: π at the start.
        metric: what masks are to keep low.
        replacement: what takes the place of a removed edge.
    """

    penalty: Amount = 0.001
    samples: Count = 8
    steps: Count = 300
    rate: Amount = 0.1
    constants_rate: Amount = 0.01
    kept: Annotated[float, Field(gt=0, lt=1)] = 0.73
    metric: MetricName = "divergence"
    replacement: GateReplacement = "learned"
    sign: ClassVar[str] = "θ: the log-odds with which the edge is kept"
    cost: ClassVar[str] = "two forward passes; `steps` × `samples` forward and backward passes"
    granularity: ClassVar[Literal["edge", "node"]] = "edge"
    draws: ClassVar[bool] = True

    def __call__(self, problem: Problem) -> Scores:
        """Trains masks, and constants if they are learned."""
        cost, graph = Cost(), problem.graph
        ablation = Ablation(problem, self.metric, self.replacement, cost, 1, self.samples)
        theta = initial((len(graph.edges),), self.kept, ablation.like)
        adam = optimiser([theta], self.rate, ablation.shifts, self.constants_rate, (0.9, 0.995))
        shape = self.samples, len(graph.edges)
        for uniform in noise(problem, "ugs", shape, self.steps, theta):
            kept = theta.sigmoid()
            removed = ((uniform - kept) / (kept * (1 - kept)) + 0.5).clamp(0, 1)
            shifts = None if ablation.shifts is None else ablation.shifts.expand(self.samples, -1, -1)
            loss = ablation.loss(at_edges(graph, removed), shifts).mean()
            adam.zero_grad()
            (loss + self.penalty * kept.sum()).backward()
            adam.step()
        scores = np.full(graph.legal.shape, np.nan)
        scores[graph.legal] = theta.detach().double().cpu().numpy()
        return Scores(graph, scores, cost=cost)
