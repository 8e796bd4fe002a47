"""Information flow routes (Ferrando & Voita 2024, section 2).

Letters of shapes: W writers, R readers, D features of the residual stream, T positions, B examples.
"""

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
    """How close each writer's output is to the residual stream at a reader, along routes from the logits.

    The importance of an edge u→v is max(0, ‖x‖₁ − ‖x − a_u‖₁), where x is the residual stream that v reads
    and a_u the output of u. It is divided by its sum over all writers that v reads, at each position of each
    example, and then averaged: over the scored positions at the logits, over all positions elsewhere. Biases
    are part of x. If all importances at a reader are 0, they stay 0.

    Routes are extracted from the logits backwards: at threshold τ, an edge is kept if its importance is at
    least τ and its reader's node has a kept edge of its own. An edge's score is the largest τ at which it is
    kept. This is the form that MIB (Mueller et al. 2025) compares, with nodes and edges averaged over
    positions; in the authors' own tool each token at each layer is a node, and routes go through positions.

    The method uses no metric, no ablation and no gradient. Queries, keys and values of a head read the same
    residual stream, so the three edges from a writer into a head have equal scores.

    Attributes:
        routes: whether routes from the logits are followed; if not, an edge's score is its importance.
    """

    routes: bool = True
    record: ClassVar[MethodRecord] = MethodRecord(
        source="Ferrando & Voita 2024, section 2",
        code="hannamw/EAP-IG at 795f560 has MIB's form; read, not run",
        looks_at="clean inputs, one forward pass",
        units="share of what the reader sees",
        deviations=(
            "MIB's form, averaged over positions; in the authors' tool each token at each layer is a node"
        ),
        test="tests/discovery/test_discovery_theory.py against literal loops",
        sign="larger: the edge stays on a route to the logits up to a higher threshold",
        cost="one forward pass",
        granularity="edge",
    )

    @torch.no_grad()
    def __call__(self, problem: Problem) -> Scores:
        """Runs the clean inputs, and compares writers' outputs with the residual stream."""
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
    """Returns the importance of some writers at a reader, `[W]`.

    Args:
        seen: the residual stream that is read, `[D, T, B]`.
        writers: the writers' outputs, `[W, D, T, B]`.
        counted: the positions over which importances are averaged, bool `[T, B]`.
    """
    without = (seen - writers).abs().sum(1)
    near = (seen.abs().sum(0) - without).clamp(min=0).double()
    total = near.sum(0)
    shares = near / torch.where(total > 0, total, 1)
    return ((shares * counted).sum((1, 2)) / counted.sum()).cpu().numpy()


def _routes(graph: Graph, importance: np.ndarray) -> np.ndarray:
    """Returns the largest threshold at which each edge is on a route to the logits, `[R, W]`."""
    scores = importance.copy()
    for index in reversed(range(len(graph.readers) - 1)):
        reader = graph.readers[index]
        onward = np.nanmax(scores[index + 1 :, graph.node_index[Node(reader.layer, reader.head)]])
        scores[index] = np.minimum(scores[index], onward)
    return scores
