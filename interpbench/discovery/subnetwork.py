"""Subnetwork probing (Cao et al. 2021): gates learned under penalties, all in one batch.

Letters of shapes: E edges, W writers.
"""

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
    without_noise,
)
from interpbench.tasks.metrics import MetricName
from interpbench.tasks.problem import Problem

GRID = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""The default penalties λ."""


@dataclass(frozen=True, config=STRICT)
class SubnetworkProbing:
    """Hard-concrete gates, trained with Adam on metric + λ · (mean probability that a gate is open).

    Every step uses all examples. The gates of all penalties and seeds are trained in one batch, each with
    ablation values of its own if these are learned.

    Attributes:
        penalties: penalties λ, one circuit each.
        seeds: how many times gates are trained with each penalty.
        steps: the number of Adam's steps.
        rate: Adam's learning rate for gates.
        constants_rate: Adam's learning rate for learned ablation values.
        kept: how open gates are at the start, σ(θ).
        metric: the metric that gates are trained to keep low.
        ablation: what replaces the writer's output where a gate is closed.
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
        """Trains gates, and returns their parameters θ.

        Args:
            problem: the network and its inputs.
            name: the name of the method, which decides its random numbers.
            gates: whether each edge or each node has a gate.
            cost: the passes are added to it.

        Returns:
            θ, `[penalty, seed, E or W]`.
        """
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
        """Reads scores and circuits from trained gates, without sampling.

        Args:
            theta: the gates' parameters, `[penalty, seed, E or W]`.

        Returns:
            The probability that each gate is open, averaged over penalties and seeds, `[E or W]`; and for
            each penalty which gates are more than half open, averaged over seeds, bool `[E or W]`.
        """
        score = open_probability(theta).mean((0, 1)).double().cpu().numpy()
        kept = (without_noise(theta).mean(1) > 0.5).cpu().numpy()
        return score, dict(zip(self.penalties, kept))
