"""Edge attribution patching, at the clean point or averaged along a path of inputs.

EAP (Syed et al. 2023): score(u→v) = Σ ⟨ã_u − a_u, ∂M/∂in_v⟩, the first-order change of the metric when the
edge is patched. EAP-IG, inputs (Hanna et al. 2024): the gradient is averaged over inputs between corrupted
and clean. Both are the gradient of the metric with respect to every edge's mask at zero, so one backward
pass gives them all, and the points of the path are rows of one batch.
"""

from typing import ClassVar, Literal

import torch
from pydantic.dataclasses import dataclass

from interpbench.circuits.scores import Cost, Scores
from interpbench.core.config import STRICT
from interpbench.core.errors import DiscoveryError
from interpbench.discovery.method import Replacement, Runs, clean_and_patch, legal_scores, method
from interpbench.tasks.problem import Metric, Problem
from interpbench.transformer.patching import Probe

EXAMPLES_PER_CALL = 8_192


def attribute(problem: Problem, runs: Runs, points: list[float], cost: Cost) -> torch.Tensor:
    """Returns `[R, W]`: the metric's derivative by every edge's mask, averaged over points and examples.

    Args:
        problem: the problem.
        runs: its clean and patched activations.
        points: where between the corrupted (0) and the clean (1) embedding the gradient is taken.
        cost: gets the passes added.
    """
    network, examples = problem.network, len(problem.clean)
    parameters = next(network.parameters())
    total = torch.zeros(problem.graph.legal.shape, dtype=torch.float64, device=parameters.device)
    shares = torch.tensor(points, dtype=parameters.dtype, device=parameters.device)
    at_once = max(1, EXAMPLES_PER_CALL // len(points))
    for first in range(0, examples, at_once):
        rows = slice(first, min(first + at_once, examples))
        mask = parameters.new_zeros(problem.graph.legal.shape, requires_grad=True)
        clean, corrupted = runs.clean[0, ..., rows], runs.patch[0, ..., rows]
        path = corrupted.unsqueeze(2) + shares[:, None] * (clean - corrupted).unsqueeze(2)
        probe = Probe(mask, (runs.patch - runs.clean)[..., rows], path.flatten(2))
        logits = network.run(path.flatten(2), probe)
        logits = logits.view(*logits.shape[:2], len(points), -1)
        value = runs.metric.part(rows)(logits).sum() / (len(points) * examples)
        total += torch.autograd.grad(value, mask)[0]
        count = (rows.stop - rows.start) * len(points)
        cost.forward_calls, cost.backward_calls = cost.forward_calls + 1, cost.backward_calls + 1
        cost.forward_examples, cost.backward_examples = (
            cost.forward_examples + count,
            cost.backward_examples + count,
        )
    return total


@method("eap")
@dataclass(frozen=True, config=STRICT)
class Eap:
    """Edge attribution patching.

    Attributes:
        metric: must have a gradient at the clean point.
        replacement: what the edge would be patched with.
        absolute: rank by absolute value; signed scores put edges that work against the metric last.
    """

    metric: str = "shift"
    replacement: Replacement = "resample"
    absolute: bool = True
    sign: ClassVar[str] = "larger: patching this edge would change the metric more, to first order"
    cost: ClassVar[str] = "three forward passes and one backward pass"
    granularity: ClassVar[Literal["edge", "node"]] = "edge"

    def __call__(self, problem: Problem) -> Scores:
        """Takes the gradient at the clean point.

        Raises:
            DiscoveryError: for a metric whose gradient vanishes there.
        """
        if self.metric in Metric.VANISHING:
            raise DiscoveryError(
                f"eap with metric={self.metric} scores every edge exactly 0: a divergence from the clean "
                "output has no gradient at the clean point; use metric=shift, or eap_ig"
            )
        cost = Cost()
        runs = clean_and_patch(problem, self.metric, self.replacement, cost)
        values = attribute(problem, runs, [1.0], cost)
        return Scores(
            problem.graph, legal_scores(problem, values.abs() if self.absolute else values), cost=cost
        )
