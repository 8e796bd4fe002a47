"""EAP with gradients at both ends of the path ("clean-corrupted" in the code of Hanna et al. 2024)."""

from typing import ClassVar

from pydantic.dataclasses import dataclass

from interpbench.circuits.scores import Cost, Scores
from interpbench.core.config import STRICT
from interpbench.discovery.attribution import along_inputs, attribute, gradients
from interpbench.discovery.directions import Direction, directed
from interpbench.discovery.method import AblationValue, clean_and_patch, legal_scores, method
from interpbench.discovery.method_record import MethodRecord
from interpbench.tasks.metrics import MetricName
from interpbench.tasks.problem import Problem


@method("clean_corrupted")
@dataclass(frozen=True, config=STRICT)
class CleanCorrupted:
    """EAP with the mean of the gradients at the clean and at the corrupted input.

    The score is ⟨ã_u − a_u, ½ (∂M/∂in_v at clean + ∂M/∂in_v at corrupted)⟩, which is EAP-IG by the
    trapezoid rule with one interval. The corrupted gradient is taken in a run whose embedding is replaced by
    its ablation value; with an ablation other than `resample` that is not the run of a real input. KL and
    squared difference have no gradient at the clean input, so for them only the other end counts.

    Attributes:
        metric: the metric whose gradient is taken.
        ablation: what replaces the writer's output in a patched edge.
        absolute: whether edges rank by absolute value.
        direction: which runs are patched: no difference for `logit_diff`, as the path has no direction.
    """

    metric: MetricName = "logit_diff"
    ablation: AblationValue = "resample"
    absolute: bool = True
    direction: Direction = "noising"
    record: ClassVar[MethodRecord] = MethodRecord(
        source="Hanna et al. 2024, code only",
        code="hannamw/EAP-IG at 795f560",
        looks_at="clean and corrupted inputs, gradients",
        units="logit difference, or output",
        deviations="scores are divided by the number of pairs once",
        test="compare_published --tools eap_ig",
        sign="larger: patching this edge would change the metric more, by the mean of both gradients",
        cost="four forward passes and two backward passes",
        first_order=True,
        granularity="edge",
    )

    @directed
    def __call__(self, problem: Problem) -> Scores:
        """Takes both gradients in one batch."""
        cost = Cost()
        runs = clean_and_patch(problem, self.metric, self.ablation, cost)
        values = attribute(problem, gradients(problem, runs, along_inputs(problem, [0.0, 1.0]), cost)).mean(0)
        return Scores(
            problem.graph, legal_scores(problem, values.abs() if self.absolute else values), cost=cost
        )
