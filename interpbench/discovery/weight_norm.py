"""A baseline that uses weights alone: how large they are (virtual weights: Elhage et al. 2021)."""

from typing import ClassVar

import torch
from pydantic.dataclasses import dataclass

from interpbench.circuits.scores import Scores
from interpbench.core.config import STRICT
from interpbench.discovery.features import spectral, weight_matrices
from interpbench.discovery.method import legal_scores, method
from interpbench.discovery.method_record import MethodRecord
from interpbench.tasks.problem import Problem


@method("weight_norm")
@dataclass(frozen=True, config=STRICT)
class WeightNorm:
    """The largest singular value of a node's output weights, or of an edge's virtual weights.

    The output weights are W_V W_O of a head, W_out of an MLP, and W_E and W_pos, one below the other, of the
    embedding. An edge's virtual weights are its writer's output weights times its reader's input weights:
    W_Q, W_K or W_V of a head, W_in of an MLP, or W_U, with the LayerNorm's centring and weights folded in.
    The network is not run.
    """

    record: ClassVar[MethodRecord] = MethodRecord(
        source="baseline; virtual weights: Elhage et al. 2021",
        code="none",
        looks_at="weights alone",
        units="singular value",
        deviations="none",
        test="tests/discovery/test_baselines.py",
        sign="larger: the node's output weights, or the edge's virtual weights, are larger",
        cost="no pass; a singular value decomposition per edge",
        granularity="edge",
        unsupported=("gated MLP",),
        baseline=True,
    )

    @torch.no_grad()
    def __call__(self, problem: Problem) -> Scores:
        """Computes the singular values of all virtual weights."""
        found = weight_matrices(problem.network)
        nodes = spectral(found.writes).double().cpu().numpy()
        return Scores(problem.graph, legal_scores(problem, found.virtual()), nodes)
