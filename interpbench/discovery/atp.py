"""Attribution patching (Nanda 2023; Kramár et al. 2024, section 2.2), of nodes and of edges."""

from typing import ClassVar

import torch
from pydantic.dataclasses import dataclass

from interpbench.circuits.scores import Cost, Scores
from interpbench.core.config import STRICT
from interpbench.discovery.attribution import clean_gradients
from interpbench.discovery.directions import Direction, directed
from interpbench.discovery.method import AblationValue, legal_scores, method
from interpbench.discovery.method_record import MethodRecord
from interpbench.tasks.metrics import SlopeName
from interpbench.tasks.problem import Problem


@method("atp")
@dataclass(frozen=True, config=STRICT)
class Atp:
    """First-order effects of patching; their absolute values are taken for each pair before averaging.

    A node's score is the mean of |⟨ã − a, ∂M/∂a⟩| over pairs of inputs, an edge's that of |⟨ã_u − a_u,
    ∂M/∂in_v⟩|; a is the clean activation, ã its ablation value, in_v the reader's input, M the metric. As in
    Kramár et al. the gradient is taken at the clean input; Nanda takes it at the corrupted one, which is
    `direction=denoising`. EAP averages first, so that effects of opposite signs in different pairs cancel.
    A node here is a head or an MLP at all positions; in the paper each position is a node of its own.

    Attributes:
        metric: the metric, which must have a gradient at the clean point.
        ablation: what replaces the activations of patched nodes and edges.
        absolute: whether absolute values are averaged; with signed values edges score as in EAP.
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
        deviations=(
            "a node is a head or MLP at all positions, in the paper at one position; scores of edges are our "
            "addition"
        ),
        test="tests/discovery/test_discovery_theory.py against literal gradients of moved nodes",
        sign="larger: patching would change the metric more, to first order, in either direction",
        cost="two forward passes and one backward pass",
        first_order=True,
        granularity="edge",
    )

    @directed
    def __call__(self, problem: Problem) -> Scores:
        """Takes the gradient at the clean activations."""
        cost, graph = Cost(), problem.graph
        edges = torch.zeros(graph.legal.shape, dtype=torch.float64, device=problem.clean.device)
        nodes = edges.new_zeros(len(graph.nodes))
        for some in clean_gradients(problem, self.metric, self.ablation, cost):
            by_node, by_edge = some.node_effects(), some.edge_effects(graph)
            if self.absolute:
                by_node, by_edge = by_node.abs(), by_edge.abs()
            nodes += by_node.sum(-1)
            edges += by_edge.sum(-1)
        count = len(problem.clean)
        own = (nodes / count).cpu().numpy()
        return Scores(graph, legal_scores(problem, edges / count), own, cost)
