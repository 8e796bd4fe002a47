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
    """Learns which nodes the network needs, for a grid of penalties at once.

    A closed gate replaces a node's output for all its readers; the published code has gates on queries, keys
    and values in place of heads. Gates are read without noise. An edge scores the lesser of its two ends.
    Settings are those of `SubnetworkProbing`.
    """

    record: ClassVar[MethodRecord] = MethodRecord(
        source="Cao et al. 2021, section 2; Conmy et al. 2023, appendix",
        code="ArthurConmy/Automatic-Circuit-Discovery at bc99ace, read, not run",
        looks_at="clean and corrupted inputs, training of gates",
        units="probability that the gate is open",
        deviations=(
            "a gate for a head's output, where the code has gates on q, k and v; read without sampling"
        ),
        test="tests/discovery/test_gates.py",
        budget="3,000 steps at rate 0.001 by its authors",
        most_examples=32,
        authors_steps=3000,
        sign="the probability that the node's gate is open, averaged over penalties",
        cost="two forward passes; `steps` × penalties × seeds forward and backward passes",
        stochastic=True,
        granularity="node",
    )

    @directed
    def __call__(self, problem: Problem) -> Scores:
        """Trains all masks in one batch."""
        cost, graph = Cost(), problem.graph
        values, kept = self.read(self.learn(problem, "node_sp", "node", cost))
        circuits = {
            penalty: np.nan_to_num(edges_from_nodes(graph, nodes.astype(float))) > 0
            for penalty, nodes in kept.items()
        }
        return Scores(graph, edges_from_nodes(graph, values), values, cost, circuits)
