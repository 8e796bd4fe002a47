"""A baseline that looks at weights alone: how large they are (virtual weights: Elhage et al. 2021)."""

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from pydantic.dataclasses import dataclass

from interpbench.circuits.scores import Scores
from interpbench.core.config import STRICT
from interpbench.discovery.features import sides, spectral
from interpbench.discovery.method import legal_scores, method
from interpbench.discovery.provenance import About
from interpbench.tasks.problem import Problem
from interpbench.transformer.config import Feature


@method("weight_norm")
@dataclass(frozen=True, config=STRICT)
class WeightNorm:
    """The largest singular values of weights: of nodes, what they write with; of edges, virtual weights.

    A head writes with W_V W_O, an MLP with W_out, the embedding with W_E over W_pos. An edge's virtual
    weights are its writer's matrix times its reader's: W_Q, W_K or W_V of a head, an MLP's W_in, or W_U,
    after the LayerNorm's centring and weights. No input is run.
    """

    about: ClassVar[About] = About(
        source="baseline; virtual weights: Elhage et al. 2021",
        code="none",
        looks_at="weights alone",
        units="singular value",
        deviations="none",
        test="tests/discovery/test_baselines.py",
    )
    sign: ClassVar[str] = (
        "larger: the weights that the node writes with, or the edge goes through, are larger"
    )
    cost: ClassVar[str] = "no pass; a singular value decomposition per edge"
    granularity: ClassVar[Literal["edge", "node"]] = "edge"
    unsupported: ClassVar[tuple[Feature, ...]] = ("gated MLP",)
    baseline: ClassVar[bool] = True
    exempt: ClassVar[Mapping[str, str]] = {"planted": "weights say how large a node is, not what it does"}

    @torch.no_grad()
    def __call__(self, problem: Problem) -> Scores:
        """Decomposes all virtual weights."""
        found = sides(problem.network)
        nodes = spectral(found.writes).double().cpu().numpy()
        return Scores(problem.graph, legal_scores(problem, found.virtual()), nodes)
