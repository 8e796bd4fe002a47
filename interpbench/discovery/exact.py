"""Exact edge patching: each edge is patched alone, and the change of the metric is measured."""

from typing import ClassVar

import numpy as np
from pydantic.dataclasses import dataclass

from interpbench.circuits.scores import Cost, Scores
from interpbench.core.config import STRICT
from interpbench.discovery.directions import Direction, directed
from interpbench.discovery.method import AblationValue, clean_and_patch, method, single_edge_effects
from interpbench.discovery.method_record import MethodRecord
from interpbench.tasks.metrics import MetricName
from interpbench.tasks.problem import Problem


@method("exact")
@dataclass(frozen=True, config=STRICT)
class Exact:
    """Patches each edge alone (activation patching at edges) and measures the change of the metric.

    The score of an edge is M(edge patched) − M(clean), averaged over pairs of inputs; everything after the
    edge's reader is recomputed.

    Attributes:
        metric: the metric M: `kl` is the KL divergence from the clean output (for numbers the squared
            difference).
        ablation: what replaces the writer's output in a patched edge.
        direction: which runs are patched: clean ones (`noising`, as its authors), corrupted ones
            (`denoising`), or both.
    """

    metric: MetricName = "kl"
    ablation: AblationValue = "resample"
    direction: Direction = "noising"
    record: ClassVar[MethodRecord] = MethodRecord(
        source="activation patching: Vig et al. 2020; at edges: Hanna et al. 2024, code",
        code="hannamw/EAP-IG at 795f560",
        looks_at="clean and corrupted inputs, patched runs",
        units="the metric: nats of KL, or squared output",
        deviations="the default metric is KL, in the code the logit difference",
        test="compare_published --tools eap_ig; tests/discovery/test_discovery.py",
        sign="larger: patching this edge alone moves the output further from the clean one",
        cost="two forward passes, and one per edge from the edge's layer on, many in a call",
        granularity="edge",
    )

    @directed
    def __call__(self, problem: Problem) -> Scores:
        """Patches all edges into a layer in one call, which starts at that layer."""
        graph, cost = problem.graph, Cost()
        runs = clean_and_patch(problem, self.metric, self.ablation, cost)
        differs = (runs.patch - runs.clean).flatten(1).ne(0).any(1).cpu().numpy()
        edges = np.argwhere(graph.legal & differs)
        scores = np.where(graph.legal, 0.0, np.nan)
        scores[tuple(edges.T)] = single_edge_effects(problem, runs, edges, cost)
        return Scores(graph, scores, cost=cost)
