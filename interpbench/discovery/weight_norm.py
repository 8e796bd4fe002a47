"""A baseline that looks at weights alone: how large they are (virtual weights: Elhage et al. 2021)."""

from typing import ClassVar

import torch
from pydantic.dataclasses import dataclass

from interpbench.circuits.scores import Scores
from interpbench.core.config import STRICT
from interpbench.discovery.features import sides, spectral
from interpbench.discovery.method import legal_scores, method
from interpbench.discovery.method_record import MethodRecord
from interpbench.tasks.problem import Problem


@method("weight_norm")
@dataclass(frozen=True, config=STRICT)
class WeightNorm:
    """The largest singular values of weights: of nodes, what they write with; of edges, virtual weights.

    A head writes with W_V W_O, an MLP with W_out, the embedding with W_E over W_pos. An edge's virtual
    weights are its writer's matrix times its reader's: W_Q, W_K or W_V of a head, an MLP's W_in, or W_U,
    after the LayerNorm's centring and weights. No input is run.
    """

    record: ClassVar[MethodRecord] = MethodRecord(
        source="baseline; virtual weights: Elhage et al. 2021",
        code="none",
        looks_at="weights alone",
        units="singular value",
        deviations="none",
        test="tests/discovery/test_baselines.py",
        sign="larger: the weights that the node writes with, or the edge goes through, are larger",
        cost="no pass; a singular value decomposition per edge",
        granularity="edge",
        unsupported=("gated MLP",),
        baseline=True,
    )

    @torch.no_grad()
    def __call__(self, problem: Problem) -> Scores:
        """Decomposes all virtual weights."""
        found = sides(problem.network)
        nodes = spectral(found.writes).double().cpu().numpy()
        return Scores(problem.graph, legal_scores(problem, found.virtual()), nodes)
