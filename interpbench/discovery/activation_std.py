"""A baseline that uses activations alone: how much they vary from input to input."""

from typing import ClassVar

import torch
from pydantic.dataclasses import dataclass

from interpbench.circuits.scores import Cost, Scores
from interpbench.core.config import STRICT
from interpbench.discovery.features import deviation_at_readers, standard_deviation, weight_matrices
from interpbench.discovery.method import legal_scores, method
from interpbench.discovery.method_record import MethodRecord
from interpbench.tasks.problem import Problem
from interpbench.transformer.recording import record


@method("activation_std")
@dataclass(frozen=True, config=STRICT)
class ActivationStd:
    """The standard deviation of nodes' outputs, and of readers' weights times these outputs.

    A node's score is √(Σ_d Var(a_d)): the variances of its output's features over positions and clean
    inputs, summed over features. An edge's score is the same of its writer's output times its reader's weight
    matrix, as in `weight_norm`. Answers, corrupted inputs and gradients are not used.
    """

    record: ClassVar[MethodRecord] = MethodRecord(
        source="baseline",
        code="none",
        looks_at="clean inputs, one forward pass; no answers",
        units="standard deviation of activations",
        deviations="none",
        test="tests/discovery/test_baselines.py",
        sign="larger: the node's output, or the reader's weights times it, varies more",
        cost="one forward pass",
        granularity="edge",
        baseline=True,
    )

    @torch.no_grad()
    def __call__(self, problem: Problem) -> Scores:
        """Runs the clean inputs and measures how activations vary."""
        cost = Cost()
        _, clean = record(problem.network, problem.clean)
        cost.count(len(problem.clean))
        stack = clean.stack.double()
        edges = deviation_at_readers(weight_matrices(problem.network).reads.double(), stack)
        return Scores(
            problem.graph, legal_scores(problem, edges), standard_deviation(stack).cpu().numpy(), cost
        )
