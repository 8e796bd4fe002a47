"""Attribution patching (Nanda 2023; Kramár et al. 2024, section 2.2), of nodes and of edges."""

from typing import ClassVar

import torch
from pydantic.dataclasses import dataclass

from interpbench.circuits.scores import Cost, Scores
from interpbench.core.config import STRICT
from interpbench.discovery.attribution import clean_slopes
from interpbench.discovery.directions import Direction, directed
from interpbench.discovery.method import AblationValue, legal_scores, method
from interpbench.discovery.method_record import MethodRecord
from interpbench.tasks.metrics import SlopeName
from interpbench.tasks.problem import Problem


@method("atp")
@dataclass(frozen=True, config=STRICT)
class Atp:
    """First-order effects of patching, whose size is taken for each pair of inputs before averaging.

    A node's own score is the mean of |⟨ã − a, ∂M/∂a⟩| over pairs, an edge's that of |⟨ã_u − a_u,
    ∂M/∂in_v⟩|. It is Kramár et al.'s, with the gradient at the clean input; Nanda's has it at the corrupted
    one, which is `direction=denoising`. EAP averages first, so that effects of opposite signs in different
    pairs cancel. A node here is all its positions; the paper takes each position as a node.

    Attributes:
        metric: the metric, which must have a gradient at the clean point.
        ablation: what nodes and edges would be patched with.
        absolute: whether means are of absolute values of pairs; signed ones score edges as EAP does.
        direction: which runs are patched: clean ones (`noising`, as Kramár et al.), corrupted ones
            (`denoising`), or both.
    """

    metric: SlopeName = "logit_diff"
    ablation: AblationValue = "resample"
    absolute: bool = True
    direction: Direction = "noising"
    record: ClassVar[MethodRecord] = MethodRecord(
        source="Kramár et al. 2024, section 2.2; Nanda 2023, by denoising",
        code="none published by the authors",
        looks_at="clean and corrupted inputs, gradients",
        units="logit difference, or output",
        deviations="a node is all its positions, the paper's one position; edges are ours",
        test="tests/discovery/test_discovery_theory.py against slopes of literal nudges",
        sign="larger: patching would change the metric more, to first order, in either direction",
        cost="two forward passes and one backward pass",
        first_order=True,
        granularity="edge",
    )

    @directed
    def __call__(self, problem: Problem) -> Scores:
        """Takes the gradient at the clean point."""
        cost, graph = Cost(), problem.graph
        edges = torch.zeros(graph.legal.shape, dtype=torch.float64, device=problem.clean.device)
        nodes = edges.new_zeros(len(graph.nodes))
        for some in clean_slopes(problem, self.metric, self.ablation, cost):
            by_node, by_edge = some.node_effects(), some.edge_effects(graph)
            if self.absolute:
                by_node, by_edge = by_node.abs(), by_edge.abs()
            nodes += by_node.sum(-1)
            edges += by_edge.sum(-1)
        count = len(problem.clean)
        own = (nodes / count).cpu().numpy()
        return Scores(graph, legal_scores(problem, edges / count), own, cost)
