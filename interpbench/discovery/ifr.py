"""Information flow routes (Ferrando & Voita 2024, section 2)."""

from typing import ClassVar

import numpy as np
import torch
from pydantic.dataclasses import dataclass

from interpbench.circuits.graph import Graph
from interpbench.circuits.naming import Node
from interpbench.circuits.scores import Cost, Scores
from interpbench.core.config import STRICT
from interpbench.discovery.method import method
from interpbench.discovery.method_record import MethodRecord
from interpbench.tasks.problem import Problem
from interpbench.transformer.recording import record


@method("ifr")
@dataclass(frozen=True, config=STRICT)
class InformationFlowRoutes:
    """How near each writer's output is to the sum that a reader sees, followed back from the logits.

    An edge's importance is max(0, ‖x‖₁ − ‖x − a_u‖₁), divided by its sum over the reader's writers, for
    each position and example, then averaged: over the scored positions at the logits, over all elsewhere.
    Biases are part of x. Where a reader's importances are all 0, they stay 0.

    Routes are extracted from the logits backwards: an edge is kept at threshold τ if its importance is at
    least τ and so are those of edges from its reader to the logits. The score is the largest such τ.
    This is the form that MIB (Mueller et al. 2025) compares: nodes and edges, averaged over positions. In the
    authors' own tool every token at every layer is a node, and routes go through positions.

    It needs neither a metric, nor an ablation, nor gradients; queries, keys and values see the same
    stream, so the edges into a head score alike.

    Attributes:
        routes: whether routes from the logits are followed; else an edge scores its importance alone.
    """

    routes: bool = True
    record: ClassVar[MethodRecord] = MethodRecord(
        source="Ferrando & Voita 2024, section 2",
        code="hannamw/EAP-IG at 795f560 has MIB's form; read, not run",
        looks_at="clean inputs, one forward pass",
        units="share of what the reader sees",
        deviations=(
            "MIB's form: nodes and edges averaged over positions; the authors' tool has tokens and "
            "positions as nodes"
        ),
        test="tests/discovery/test_discovery_theory.py against literal loops",
        sign="larger: the edge stays on a route to the logits up to a higher threshold",
        cost="one forward pass",
        granularity="edge",
    )

    @torch.no_grad()
    def __call__(self, problem: Problem) -> Scores:
        """Measures the clean run."""
        cost, graph = Cost(), problem.graph
        _, clean = record(problem.network, problem.clean)
        cost.count(len(problem.clean))
        stack = clean.stack
        nearness = np.full(graph.legal.shape, np.nan)
        everywhere = torch.ones_like(problem.scored)
        for layer, residual in enumerate(clean.residuals):
            readers = graph.readers_of_layer(layer)
            before = graph.writers_before(graph.readers[readers.start])
            if layer == graph.n_layers:
                nearness[-1, :before] = _importance(residual, stack[:before], problem.scored)
                break
            nearness[readers, :before] = _importance(residual, stack[:before], everywhere)
            before += graph.n_heads
            nearness[readers.stop, :before] = _importance(clean.middles[layer], stack[:before], everywhere)
        return Scores(graph, _routes(graph, nearness) if self.routes else nearness, cost=cost)


def _importance(seen: torch.Tensor, writers: torch.Tensor, counted: torch.Tensor) -> np.ndarray:
    """Returns `[W]`: each writer's share of `seen [D, T, B]`, averaged where `counted [T, B]`."""
    without = (seen - writers).abs().sum(1)
    near = (seen.abs().sum(0) - without).clamp(min=0).double()
    total = near.sum(0)
    shares = near / torch.where(total > 0, total, 1)
    return ((shares * counted).sum((1, 2)) / counted.sum()).cpu().numpy()


def _routes(graph: Graph, importance: np.ndarray) -> np.ndarray:
    """Returns `[R, W]`: the largest threshold at which an edge is on a route to the logits."""
    scores = importance.copy()
    for index in reversed(range(len(graph.readers) - 1)):
        reader = graph.readers[index]
        onward = np.nanmax(scores[index + 1 :, graph.node_index[Node(reader.layer, reader.head)]])
        scores[index] = np.minimum(scores[index], onward)
    return scores
