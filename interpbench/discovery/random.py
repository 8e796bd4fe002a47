"""Random scores, the null of comparisons; average over many seeds before comparing with it."""

from typing import ClassVar

import numpy as np
from pydantic.dataclasses import dataclass

from interpbench.circuits.scores import Scores
from interpbench.core import seeds
from interpbench.core.config import STRICT
from interpbench.core.files import sha256
from interpbench.discovery.method import method
from interpbench.discovery.method_record import MethodRecord
from interpbench.tasks.problem import Problem


@method("random")
@dataclass(frozen=True, config=STRICT)
class Random:
    """Independent uniform scores, which depend on the problem's seed and clean inputs."""

    record: ClassVar[MethodRecord] = MethodRecord(
        source="the null",
        code="none",
        looks_at="nothing",
        units="none",
        deviations="none",
        test="tests/scoring/test_scoring.py",
        sign="scores mean nothing",
        cost="none",
        granularity="edge",
        stochastic=True,
    )

    def __call__(self, problem: Problem) -> Scores:
        """Draws the scores."""
        graph = problem.graph
        inputs = sha256(problem.clean.cpu().numpy().tobytes())
        drawn = seeds.generator(problem.seed, "method", "random", inputs).random(graph.legal.shape)
        return Scores(graph, np.where(graph.legal, drawn, np.nan))
