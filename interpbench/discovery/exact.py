"""Exact edge patching: every edge alone, replaced by its patch, and how far the output moves."""

from typing import ClassVar, Literal

import numpy as np
import torch
from pydantic.dataclasses import dataclass

from interpbench.circuits.scores import Cost, Scores
from interpbench.core.config import STRICT
from interpbench.discovery.method import Replacement, clean_and_patch, method, parts
from interpbench.tasks.problem import Problem
from interpbench.transformer.patching import Candidates


@method("exact")
@dataclass(frozen=True, config=STRICT)
class Exact:
    """Patches each edge on its own (activation patching at edges).

    Attributes:
        metric: what is measured; `divergence` is KL from the clean output, or the squared difference.
        replacement: what is patched in.
    """

    metric: str = "divergence"
    replacement: Replacement = "resample"
    sign: ClassVar[str] = "larger: patching this edge alone moves the output further from the clean one"
    cost: ClassVar[str] = "two forward passes, and one per edge from the edge's layer on, many in a call"
    granularity: ClassVar[Literal["edge", "node"]] = "edge"

    @torch.no_grad()
    def __call__(self, problem: Problem) -> Scores:
        """Runs all edges of a layer's readers in as few calls as memory allows."""
        graph, cost = problem.graph, Cost()
        runs = clean_and_patch(problem, self.metric, self.replacement, cost)
        examples = len(problem.clean)
        clean = float(runs.metric(problem.network.run(runs.residuals[0])).mean())
        differs = (runs.patch - runs.clean).flatten(1).ne(0).any(1).tolist()
        scores = np.where(graph.legal, 0.0, np.nan)
        edges = [(r, w) for r, w in np.argwhere(graph.legal).tolist() if differs[w]]
        for layer in range(graph.n_layers + 1):
            here = [(r, w) for r, w in edges if graph.readers[r].layer == layer]
            for some in parts(len(here), examples):
                chosen = here[some]
                masks = runs.clean.new_zeros(len(chosen), *graph.legal.shape)
                for candidate, (reader, writer) in enumerate(chosen):
                    masks[candidate, reader, writer] = 1
                candidates = Candidates(masks, runs.patch, runs.clean, layer)
                residual = runs.residuals[layer].unsqueeze(2).expand(-1, -1, len(chosen), -1).flatten(2)
                logits = problem.network.run(residual, candidates, layer)
                moved = runs.metric(logits.view(*logits.shape[:2], len(chosen), examples)).mean(1)
                for (reader, writer), value in zip(chosen, moved.tolist()):
                    scores[reader, writer] = value - clean
                cost.count(len(chosen) * examples)
        return Scores(graph, scores, cost=cost)
