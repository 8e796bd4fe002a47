"""Subnetwork probing with a gate for each edge (the edge version of Cao et al. 2021 in Gupta et al. 2024)."""

from typing import ClassVar

import numpy as np
from pydantic.dataclasses import dataclass

from interpbench.circuits.scores import Cost, Scores
from interpbench.core.config import STRICT
from interpbench.discovery.directions import directed
from interpbench.discovery.method import method
from interpbench.discovery.method_record import MethodRecord
from interpbench.discovery.subnetwork import SubnetworkProbing
from interpbench.tasks.problem import Problem


@method("edge_sp")
@dataclass(frozen=True, config=STRICT)
class EdgeSp(SubnetworkProbing):
    """Learns a gate for each edge under a penalty on open gates, for a grid of penalties at once.

    A circuit holds the edges whose gates, read without noise, are more than half open; the published code
    reads circuits from sampled gates, so that each reading gives another one. An edge's score is the
    probability that its gate is open, averaged over penalties. The loss and the settings are those of
    `SubnetworkProbing`.
    """

    record: ClassVar[MethodRecord] = MethodRecord(
        source="Cao et al. 2021; its edges: Gupta et al. 2024, section 4",
        code="auto-circuit 1.0.1",
        looks_at="clean and corrupted inputs, training of gates",
        units="probability that the gate is open",
        deviations=(
            "gates are sampled for all pairs together; a grid of penalties is trained in one batch; gates "
            "are read without sampling"
        ),
        test="benchmarks.discovery: ranking and time against auto-circuit; tests/discovery/test_gates.py",
        budget="3,000 steps at rate 0.01 by the benchmark's authors, 20 at 0.1 in auto-circuit",
        most_examples=32,
        authors_steps=3000,
        sign="larger: the edge's gate is more likely open, averaged over penalties",
        cost="two forward passes; `steps` × penalties × seeds forward and backward passes",
        stochastic=True,
        granularity="edge",
    )

    @directed
    def __call__(self, problem: Problem) -> Scores:
        """Trains the gates of all penalties in one batch."""
        cost, graph = Cost(), problem.graph
        values, circuits = self.read(self.learn(problem, "edge_sp", "edge", cost))
        scores = np.full(graph.legal.shape, np.nan)
        scores[graph.legal] = values
        kept = {penalty: np.zeros(graph.legal.shape, bool) for penalty in circuits}
        for penalty, edges in circuits.items():
            kept[penalty][graph.legal] = edges
        return Scores(graph, scores, cost=cost, circuits=kept)
