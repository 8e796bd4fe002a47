"""Subnetwork probing (Cao et al. 2021): masks learned under penalties, all in one batch."""

from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor

from interpbench.circuits.scores import Cost
from interpbench.core.config import STRICT, Amount, Count
from interpbench.discovery.ablation import Ablation, GateAblationValue
from interpbench.discovery.directions import Direction
from interpbench.discovery.hard_concrete import (
    at_edges,
    initial,
    noise,
    open_probability,
    optimiser,
    sampled,
    settled,
)
from interpbench.tasks.metrics import MetricName
from interpbench.tasks.problem import Problem

GRID = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)


@dataclass(frozen=True, config=STRICT)
class SubnetworkProbing:
    """Hard-concrete gates trained by Adam on the metric plus λ times the mean probability of being open.

    All examples are used in every step. The masks of all penalties and seeds are candidates of one batch,
    each with ablation values of its own if these are learned.

    Attributes:
        penalties: penalties λ, one circuit each.
        seeds: trainings with each penalty.
        steps: the number of Adam's steps.
        rate: Adam's learning rate for gates.
        constants_rate: Adam's learning rate for learned ablation values.
        kept: how open gates are at the start: σ(θ).
        metric: what gates are to keep low.
        ablation: what a closed gate lets through instead.
        direction: which runs are patched: clean ones (`noising`, as its authors), corrupted ones
            (`denoising`), or both.
    """

    penalties: Annotated[tuple[Amount, ...], Field(min_length=1)] = GRID
    seeds: Count = 1
    steps: Count = 200
    rate: Amount = 0.1
    constants_rate: Amount = 0.01
    kept: Annotated[float, Field(gt=0, lt=1)] = 0.9
    metric: MetricName = "kl"
    ablation: GateAblationValue = "resample"
    direction: Direction = "noising"

    def learn(self, problem: Problem, name: str, gates: Literal["edge", "node"], cost: Cost) -> Tensor:
        """Returns θ `[λ, seed, E or W]`."""
        graph = problem.graph
        shape = len(self.penalties), self.seeds
        circuits = shape[0] * shape[1]
        ablation = Ablation(problem, self.metric, self.ablation, cost, circuits, circuits)
        legal = torch.from_numpy(graph.legal).to(ablation.like)
        count = len(graph.edges) if gates == "edge" else len(graph.nodes)
        theta = initial((*shape, count), self.kept, ablation.like)
        penalties = torch.tensor(self.penalties).to(theta)[:, None]
        adam = optimiser([theta], self.rate, ablation.constants, self.constants_rate)
        for uniform in noise(problem, name, theta.shape[1:], self.steps, theta):
            closed = 1 - sampled(theta, uniform).flatten(0, 1)
            removed = at_edges(graph, closed) if gates == "edge" else closed[:, None] * legal
            loss = ablation.loss(removed, ablation.shifts).view(shape)
            adam.zero_grad()
            (loss + penalties * open_probability(theta).mean(2)).sum().backward()
            adam.step()
        return theta.detach()

    def read(self, theta: Tensor) -> tuple[np.ndarray, dict[float, np.ndarray]]:
        """Reads gates without sampling.

        Returns:
            `[E or W]`: the probability of being open, averaged over penalties and seeds, and for each penalty
            which gates are more than half open, averaged over seeds.
        """
        score = open_probability(theta).mean((0, 1)).double().cpu().numpy()
        kept = (settled(theta).mean(1) > 0.5).cpu().numpy()
        return score, dict(zip(self.penalties, kept))
