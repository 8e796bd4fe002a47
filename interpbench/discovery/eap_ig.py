"""EAP with integrated gradients over inputs (Hanna et al. 2024)."""

from typing import ClassVar, Literal

from pydantic.dataclasses import dataclass

from interpbench.circuits.scores import Cost, Scores
from interpbench.core.config import STRICT
from interpbench.core.errors import DiscoveryError
from interpbench.discovery.eap import attribute
from interpbench.discovery.method import Replacement, clean_and_patch, legal_scores, method
from interpbench.tasks.problem import Problem


@method("eap_ig")
@dataclass(frozen=True, config=STRICT)
class EapIg:
    """Gradients averaged over midpoints of the straight path from corrupted to clean embeddings.

    The published code takes the left ends of the `steps` intervals, and interpolates token embeddings only;
    here the midpoints are taken, and the embedding is token plus position.

    Attributes:
        steps: number of points.
        metric: any; a divergence has gradients along the path.
        replacement: what the edge would be patched with.
        absolute: rank by absolute value.
    """

    steps: int = 10
    metric: str = "shift"
    replacement: Replacement = "resample"
    absolute: bool = True
    sign: ClassVar[str] = "larger: patching this edge would change the metric more, averaged along the path"
    cost: ClassVar[str] = "two forward passes, and `steps` forward and backward passes in one call each"
    granularity: ClassVar[Literal["edge", "node"]] = "edge"

    def __call__(self, problem: Problem) -> Scores:
        """Stacks the points on the batch axis.

        Raises:
            DiscoveryError: for fewer than one step.
        """
        if self.steps < 1:
            raise DiscoveryError(f"eap_ig needs steps of at least 1, not {self.steps}")
        cost = Cost()
        runs = clean_and_patch(problem, self.metric, self.replacement, cost)
        points = [(step + 0.5) / self.steps for step in range(self.steps)]
        values = attribute(problem, runs, points, cost)
        return Scores(
            problem.graph, legal_scores(problem, values.abs() if self.absolute else values), cost=cost
        )
