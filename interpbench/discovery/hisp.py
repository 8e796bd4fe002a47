"""Head importance (Michel et al. 2019, section 4.1), a baseline in Conmy et al. 2023."""

from typing import ClassVar

import numpy as np
import torch
from pydantic.dataclasses import dataclass

from interpbench.circuits.scores import Cost, Scores, edges_from_nodes
from interpbench.core.config import STRICT
from interpbench.discovery.attribution import clean_gradients
from interpbench.discovery.method import method
from interpbench.discovery.method_record import MethodRecord
from interpbench.tasks.metrics import SlopeName
from interpbench.tasks.problem import Problem


@method("hisp")
@dataclass(frozen=True, config=STRICT)
class Hisp:
    """The effect on the metric of scaling a node's output a: the mean of |⟨a, ∂M/∂a⟩| over pairs.

    This is the first-order effect of scaling the output to zero, so there is no ablation. Scores are
    divided by their L2 norm within each layer (heads and MLP together; the embedding is a layer of its own);
    where all scores of a layer are 0 they stay 0. An edge's score is the lower one of its two nodes' scores.

    In the code of Conmy et al. a head's query, key and value are nodes of their own, as are MLPs; here a head
    is one node, by its output, and the embedding is a node too.

    Attributes:
        metric: the metric, which must have a gradient at the clean point.
        normalise: whether scores are divided by their L2 norm within each layer.
    """

    metric: SlopeName = "logit_diff"
    normalise: bool = True
    record: ClassVar[MethodRecord] = MethodRecord(
        source="Michel et al. 2019, section 4.1; Conmy et al. 2023, appendix",
        code="ArthurConmy/Automatic-Circuit-Discovery at bc99ace, read, not run",
        looks_at="clean inputs, gradients",
        units="logit difference, normalised within a layer",
        deviations=("a head is one node, where the code has its q, k and v; the embedding is a node too"),
        test="tests/discovery/test_discovery.py: it is the gradient by a node's scale",
        sign="larger: scaling the node's output would change the metric more, to first order",
        cost="two forward passes and one backward pass",
        granularity="node",
    )

    def __call__(self, problem: Problem) -> Scores:
        """Takes the gradient at the clean activations."""
        cost, graph = Cost(), problem.graph
        total = torch.zeros(len(graph.nodes), dtype=torch.float64, device=problem.clean.device)
        for some in clean_gradients(problem, self.metric, "zero", cost):
            total += some.node_effects().abs().sum(1)
        nodes = (total / len(problem.clean)).cpu().numpy()
        if self.normalise:
            layers = np.array([node.layer for node in graph.nodes])
            norms = np.array([np.linalg.norm(nodes[layers == layer]) for layer in layers])
            nodes = np.divide(nodes, norms, out=np.zeros_like(nodes), where=norms > 0)
        return Scores(graph, edges_from_nodes(graph, nodes), nodes, cost)
