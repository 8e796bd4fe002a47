"""EAP with integrated gradients over activations (Hanna et al. 2024; for nodes, Marks et al. 2024)."""

from typing import ClassVar

import torch
from pydantic.dataclasses import dataclass

from interpbench.circuits.scores import Cost, Scores
from interpbench.core.config import STRICT, Count
from interpbench.discovery.attribution import attribute, gradients, midpoints
from interpbench.discovery.directions import Direction, directed
from interpbench.discovery.method import AblationValue, clean_and_patch, legal_scores, method
from interpbench.discovery.method_record import MethodRecord
from interpbench.tasks.metrics import MetricName
from interpbench.tasks.problem import Problem


@method("eap_ig_activations")
@dataclass(frozen=True, config=STRICT)
class EapIgActivations:
    """EAP with gradients averaged along the path from clean to patched outputs of the edge's writer.

    A block is the embedding, all heads of a layer, or an MLP. For an edge u→v, the outputs of u's block are
    interpolated between clean activations and ablation values, at the midpoints of `steps` equal intervals;
    earlier activations stay clean, later ones follow. The score is ⟨ã_u − a_u, mean gradient ∂M/∂in_v⟩.
    Each edge gets the gradient of its own block's path; the published code adds the gradients of all
    other blocks' paths. With many steps the scores of all edges out of a block sum to the effect of patching
    the block.

    Attributes:
        steps: the number of points between clean and patched outputs, for each block.
        metric: the metric whose gradient is taken.
        ablation: what replaces the writer's output in a patched edge.
        absolute: whether edges rank by absolute value.
        direction: which runs are patched: clean ones (`noising`, as its authors), corrupted ones
            (`denoising`), or both.
    """

    steps: Count = 5
    metric: MetricName = "logit_diff"
    ablation: AblationValue = "resample"
    absolute: bool = True
    direction: Direction = "noising"
    record: ClassVar[MethodRecord] = MethodRecord(
        source="Hanna et al. 2024; Marks et al. 2024, section 2",
        code="none: the published code adds other blocks' gradients",
        looks_at="clean and corrupted inputs, gradients",
        units="logit difference, or output",
        deviations="an edge gets only the gradients along the path of its own writer",
        test="tests/discovery/test_discovery_theory.py: scores sum to the effects of patching blocks",
        budget="5 points in MIB and here, in each of 2 layers + 1 blocks",
        sign="larger: patching this edge would change the metric more, averaged along its writer's path",
        cost="two forward passes, and (2 layers + 1) × `steps` forward and backward passes",
        first_order=True,
        granularity="edge",
    )

    @directed
    def __call__(self, problem: Problem) -> Scores:
        """Takes the gradients at all points of all blocks in one batch."""
        cost, graph = Cost(), problem.graph
        runs = clean_and_patch(problem, self.metric, self.ablation, cost)
        kinds = [(node.layer, node.head is None) for node in graph.nodes]
        blocks = sorted(set(kinds))
        member = torch.tensor([[kind == block for kind in kinds] for block in blocks]).float()
        moved = torch.tensor(midpoints(self.steps))[:, None] * member[:, None]  # [block, step, W]
        found = gradients(problem, runs, moved.flatten(0, 1), cost)
        each = attribute(problem, found).unflatten(0, moved.shape[:2]).mean(1)
        values = torch.einsum("crw,cw->rw", each, member.to(each))
        return Scores(graph, legal_scores(problem, values.abs() if self.absolute else values), cost=cost)
