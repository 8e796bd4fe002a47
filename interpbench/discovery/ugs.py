"""Uniform gradient sampling with optimal ablation (Li & Janson 2024)."""

from typing import Annotated, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from pydantic.dataclasses import dataclass

from interpbench.circuits.scores import Cost, Scores
from interpbench.core.config import STRICT, Amount, Count
from interpbench.discovery.gates import ablation_loss, at_edges, initial, noise
from interpbench.discovery.method import Replacement, clean_and_patch, method
from interpbench.tasks.problem import Problem


@method("ugs")
@dataclass(frozen=True, config=STRICT)
class UniformGradientSampling:
    """One training ranks all edges: θ of masks that are drawn uniformly near their probability.

    With π = σ(θ) and w = π (1 − π), an edge is kept as far as clamp((π − u) / w + ½, 0, 1). The loss is the
    metric plus λ times the sum of π. `learned` replacements are one vector for each writer, the same for all
    inputs and positions, trained with the masks from the corrupted inputs' mean (optimal ablation).
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
    metric: str = "divergence"
    replacement: Replacement | Literal["learned"] = "learned"
    sign: ClassVar[str] = "θ: the log-odds with which the edge is kept"
    cost: ClassVar[str] = "two forward passes; `steps` × `samples` forward and backward passes"
    granularity: ClassVar[Literal["edge", "node"]] = "edge"

    def __call__(self, problem: Problem) -> Scores:
        """Trains masks, and constants if they are learned."""
        cost, graph = Cost(), problem.graph
        learned = self.replacement == "learned"
        start: Replacement = "mean" if self.replacement == "learned" else self.replacement
        runs = clean_and_patch(problem, self.metric, start, cost)
        theta = initial((len(graph.edges),), self.kept, runs.clean)
        constants = runs.patch[..., :1, :1].clone().requires_grad_() if learned else None
        groups = [{"params": [theta], "lr": self.rate}]
        if constants is not None:
            groups.append({"params": [constants], "lr": self.constants_rate})
        optimiser = torch.optim.Adam(groups, betas=(0.9, 0.995))
        shape = self.samples, len(graph.edges)
        for uniform in noise(problem, "ugs", shape, self.steps, theta):
            kept = theta.sigmoid()
            removed = ((uniform - kept) / (kept * (1 - kept)) + 0.5).clamp(0, 1)
            loss = ablation_loss(problem, runs, at_edges(graph, removed), cost, constants).mean()
            optimiser.zero_grad()
            (loss + self.penalty * kept.sum()).backward()
            optimiser.step()
        scores = np.full(graph.legal.shape, np.nan)
        scores[graph.legal] = theta.detach().double().cpu().numpy()
        return Scores(graph, scores, cost=cost)
