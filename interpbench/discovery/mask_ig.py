"""Integrated gradients over all edge masks together (AutoCircuit's mask gradient, InterpBench's "EAP-IG")."""

from typing import ClassVar

import torch
from pydantic.dataclasses import dataclass

from interpbench.circuits.scores import Cost, Scores
from interpbench.core.config import STRICT, Count
from interpbench.discovery.directions import Direction, directed
from interpbench.discovery.method import AblationValue, chunks, clean_and_patch, legal_scores, method
from interpbench.discovery.method_record import MethodRecord
from interpbench.tasks.metrics import MetricName
from interpbench.tasks.problem import Problem
from interpbench.transformer.fast.circuits import Circuits
from interpbench.transformer.fast.frozen_run import frozen_run


@method("mask_ig")
@dataclass(frozen=True, config=STRICT)
class MaskIg:
    """The mean gradient of the metric by each edge's mask, while all masks go from 0 to 1 together.

    With mask m, the input of every reader is Σ_u [(1 − m) a_u + m ã_u], a_u being the output of writer u in
    the same run and ã_u its ablation value. The score of an edge is ∂M/∂m_uv, averaged over `steps` + 1
    evenly spaced values of m from 0 (clean) to 1 (all edges patched). The published InterpBench (Gupta et al.
    2024) calls this EAP-IG; it differs from EAP-IG over inputs, in which only the embedding is interpolated.

    Attributes:
        steps: the number of intervals between 0 and 1; their ends are the points.
        metric: the metric whose gradient is taken.
        ablation: what replaces the writers' outputs in patched edges.
        absolute: whether edges rank by absolute value.
        direction: which runs are patched: clean ones (`noising`, as its authors), corrupted ones
            (`denoising`), or both.
    """

    steps: Count = 10
    metric: MetricName = "logit_diff"
    ablation: AblationValue = "resample"
    absolute: bool = True
    direction: Direction = "noising"
    record: ClassVar[MethodRecord] = MethodRecord(
        source="Gupta et al. 2024 (as EAP-IG); auto-circuit",
        code="auto-circuit 1.0.1, read, not run",
        looks_at="clean and corrupted inputs, gradients",
        units="logit difference, or output",
        deviations="divided by the number of points",
        test="tests/discovery/test_discovery_theory.py against finite differences",
        budget="5 or 10 points in the benchmark, 11 here",
        sign="larger: patching this edge would change the metric more, averaged while all edges are patched",
        cost="two forward passes, and `steps` + 1 forward and backward passes in one call each",
        first_order=True,
        granularity="edge",
    )

    @directed
    def __call__(self, problem: Problem) -> Scores:
        """Runs the network at all points in one batch, and takes the gradients by masks."""
        cost, graph, points = Cost(), problem.graph, self.steps + 1
        runs = clean_and_patch(problem, self.metric, self.ablation, cost)
        legal = torch.from_numpy(graph.legal).to(runs.clean)
        shares = torch.linspace(0, 1, points).to(legal)[:, None, None]
        total = torch.zeros_like(legal, dtype=torch.float64)
        for rows in chunks(problem, len(problem.clean), points):
            masks = (shares * legal).requires_grad_()
            stream, circuits = runs.clean[0, ..., rows], Circuits(masks, runs.patch[..., rows])
            logits = frozen_run(problem.network, stream, circuits)
            value = runs.metric.part(rows)(logits).sum()
            total += torch.autograd.grad(value, masks)[0].sum(0)
            cost.count(stream.shape[-1] * points, backward=True)
        values = total / (points * len(problem.clean))
        return Scores(graph, legal_scores(problem, values.abs() if self.absolute else values), cost=cost)
