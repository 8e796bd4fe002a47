"""Edge attribution patching (Syed et al. 2023)."""

from typing import ClassVar

from pydantic.dataclasses import dataclass

from interpbench.circuits.scores import Cost, Scores
from interpbench.core.config import STRICT
from interpbench.discovery.attribution import attribute, clean_gradients
from interpbench.discovery.directions import Direction, directed
from interpbench.discovery.method import AblationValue, legal_scores, method
from interpbench.discovery.method_record import MethodRecord
from interpbench.tasks.metrics import SlopeName
from interpbench.tasks.problem import Problem


@method("eap")
@dataclass(frozen=True, config=STRICT)
class Eap:
    """The first-order change of the metric when an edge is patched: Σ ⟨ã_u − a_u, ∂M/∂in_v⟩.

    For the edge from writer u to reader v, a_u is the writer's clean output, ã_u its ablation value, and
    ∂M/∂in_v the gradient of the metric with respect to the reader's input, taken at the clean input. The sum
    is over positions; the score is its mean over pairs of inputs.

    Attributes:
        metric: the metric, which must have a gradient at the clean point.
        ablation: what replaces the writer's output in a patched edge.
        absolute: whether edges rank by absolute value; if not, edges that lower the metric rank last.
        direction: which runs are patched: clean ones (`noising`, as its authors), corrupted ones
            (`denoising`), or both.
    """

    metric: SlopeName = "logit_diff"
    ablation: AblationValue = "resample"
    absolute: bool = True
    direction: Direction = "noising"
    record: ClassVar[MethodRecord] = MethodRecord(
        source="Syed et al. 2023, section 3",
        code="hannamw/EAP-IG at 795f560; auto-circuit 1.0.1",
        looks_at="clean and corrupted inputs, gradients",
        units="logit difference, or output",
        deviations=(
            "absolute values by default; scores are divided by the number of pairs once; zero "
            "ablation zeroes position embeddings too, which EAP-IG's code keeps"
        ),
        test=(
            "tests/discovery/test_discovery_theory.py; compare_published --tools eap_ig; benchmarks.discovery"
        ),
        sign="larger: patching this edge would change the metric more, to first order",
        cost="two forward passes and one backward pass",
        first_order=True,
        granularity="edge",
    )

    @directed
    def __call__(self, problem: Problem) -> Scores:
        """Takes the gradient at the clean activations."""
        cost = Cost()
        values = attribute(problem, clean_gradients(problem, self.metric, self.ablation, cost))[0]
        return Scores(
            problem.graph, legal_scores(problem, values.abs() if self.absolute else values), cost=cost
        )
