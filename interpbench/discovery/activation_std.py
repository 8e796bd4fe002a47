"""A baseline that looks at activations alone: how much they vary from input to input."""

from typing import ClassVar

import torch
from pydantic.dataclasses import dataclass

from interpbench.circuits.scores import Cost, Scores
from interpbench.core.config import STRICT
from interpbench.discovery.features import by_edge, sides, spread
from interpbench.discovery.method import legal_scores, method
from interpbench.discovery.method_record import MethodRecord
from interpbench.tasks.problem import Problem
from interpbench.transformer.recording import record


@method("activation_std")
@dataclass(frozen=True, config=STRICT)
class ActivationStd:
    """The standard deviation of what nodes write, and of what readers' weights make of it.

    Over positions and clean inputs, of all dimensions together: the root of the variances' sum. An edge's is
    that of its writer's output times its reader's matrix, as in `weight_norm`. Neither answers nor corrupted
    inputs nor gradients are looked at.
    """

    record: ClassVar[MethodRecord] = MethodRecord(
        source="baseline",
        code="none",
        looks_at="clean inputs, one forward pass; no answers",
        units="standard deviation of activations",
        deviations="none",
        test="tests/discovery/test_baselines.py",
        sign="larger: what the node writes, or the reader makes of it, varies more",
        cost="one forward pass",
        granularity="edge",
        baseline=True,
    )

    @torch.no_grad()
    def __call__(self, problem: Problem) -> Scores:
        """Measures the clean run."""
        cost = Cost()
        _, clean = record(problem.network, problem.clean)
        cost.count(len(problem.clean))
        stack = clean.stack.double()
        edges = by_edge(problem.graph, sides(problem.network).reads.double(), stack)
        return Scores(problem.graph, legal_scores(problem, edges), spread(stack).cpu().numpy(), cost)
