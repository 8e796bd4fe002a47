"""EAP with the gradients of both ends ("clean-corrupted" in the code of Hanna et al. 2024)."""

from typing import ClassVar

from pydantic.dataclasses import dataclass

from interpbench.circuits.scores import Cost, Scores
from interpbench.core.config import STRICT
from interpbench.discovery.attribution import along_inputs, attribute, slopes
from interpbench.discovery.directions import Direction, directed
from interpbench.discovery.method import AblationValue, clean_and_patch, legal_scores, method
from interpbench.discovery.method_record import MethodRecord
from interpbench.tasks.metrics import MetricName
from interpbench.tasks.problem import Problem


@method("clean_corrupted")
@dataclass(frozen=True, config=STRICT)
class CleanCorrupted:
    """The mean of the gradients at the clean and at the corrupted input: EAP-IG by the trapezoid rule.

    The corrupted end is the run whose embedding is replaced; with an ablation other than `resample` that
    is not the run of a real input. A divergence has no gradient at the clean end, so only the other counts.

    Attributes:
        metric: what is differentiated.
        ablation: what the edge would be patched with.
        absolute: whether edges rank by absolute value.
        direction: which runs are patched: all the same here for `logit_diff`, as the path has no direction.
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
        deviations="none known; scores are divided by the number of pairs once",
        test="compare_published --tools eap_ig",
        sign="larger: patching this edge would change the metric more, averaged over both ends",
        cost="four forward passes and two backward passes",
        first_order=True,
        granularity="edge",
    )

    @directed
    def __call__(self, problem: Problem) -> Scores:
        """Runs both ends in one batch."""
        cost = Cost()
        runs = clean_and_patch(problem, self.metric, self.ablation, cost)
        values = attribute(problem, slopes(problem, runs, along_inputs(problem, [0.0, 1.0]), cost)).mean(0)
        return Scores(
            problem.graph, legal_scores(problem, values.abs() if self.absolute else values), cost=cost
        )
