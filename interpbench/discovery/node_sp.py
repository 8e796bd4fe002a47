"""Subnetwork probing with a gate for each node (Cao et al. 2021; Conmy et al. 2023)."""

from typing import ClassVar

import numpy as np
from pydantic.dataclasses import dataclass

from interpbench.circuits.scores import Cost, Scores, edges_from_nodes
from interpbench.core.config import STRICT
from interpbench.discovery.directions import directed
from interpbench.discovery.method import method
from interpbench.discovery.method_record import MethodRecord
from interpbench.discovery.subnetwork import SubnetworkProbing
from interpbench.tasks.problem import Problem


@method("node_sp")
@dataclass(frozen=True, config=STRICT)
class NodeSp(SubnetworkProbing):
    """Learns a gate for each node under a penalty on open gates, for a grid of penalties at once.

    A closed gate ablates a node's output for all its readers; the published code has gates on the queries,
    keys and values of a head instead of on its output. A node's score is the probability that its gate is
    open, averaged over penalties, read without sampling. An edge's score is the lower one of its two nodes'
    scores. The loss and the settings are those of `SubnetworkProbing`.
    """

    record: ClassVar[MethodRecord] = MethodRecord(
        source="Cao et al. 2021, section 2; Conmy et al. 2023, appendix",
        code="ArthurConmy/Automatic-Circuit-Discovery at bc99ace, read, not run",
        looks_at="clean and corrupted inputs, training of gates",
        units="probability that the gate is open",
        deviations=(
            "a gate on a head's output, where the code has gates on q, k and v; gates are read without "
            "sampling"
        ),
        test="tests/discovery/test_gates.py",
        budget="3,000 steps at rate 0.001 by its authors",
        most_examples=32,
        authors_steps=3000,
        sign="larger: the node's gate is more likely open, averaged over penalties",
        cost="two forward passes; `steps` × penalties × seeds forward and backward passes",
        stochastic=True,
        granularity="node",
    )

    @directed
    def __call__(self, problem: Problem) -> Scores:
        """Trains the gates of all penalties in one batch."""
        cost, graph = Cost(), problem.graph
        values, kept = self.read(self.learn(problem, "node_sp", "node", cost))
        circuits = {
            penalty: np.nan_to_num(edges_from_nodes(graph, nodes.astype(float))) > 0
            for penalty, nodes in kept.items()
        }
        return Scores(graph, edges_from_nodes(graph, values), values, cost, circuits)
