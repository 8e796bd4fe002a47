"""EAP with integrated gradients over inputs (Hanna et al. 2024)."""

from typing import ClassVar

from pydantic.dataclasses import dataclass

from interpbench.circuits.scores import Cost, Scores
from interpbench.core.config import STRICT, Count
from interpbench.discovery.attribution import along_inputs, attribute, gradients, midpoints
from interpbench.discovery.directions import Direction, directed
from interpbench.discovery.method import AblationValue, clean_and_patch, legal_scores, method
from interpbench.discovery.method_record import MethodRecord
from interpbench.tasks.metrics import MetricName
from interpbench.tasks.problem import Problem


@method("eap_ig")
@dataclass(frozen=True, config=STRICT)
class EapIg:
    """EAP with gradients averaged along the straight path from corrupted to clean input embeddings.

    With m = `steps`, the score is ⟨ã_u − a_u, (1/m) Σ_k ∂M/∂in_v at z_k⟩, where z_k is the run whose
    embeddings lie at the midpoint of the k-th of m equal intervals of the path. The published code takes the
    end of each interval that is nearer to the corrupted input, so the corrupted input is a point of the path
    and the clean one is not. It interpolates the token embedding alone; here token plus position embedding
    is, which is the same since positions do not change along the path.

    Attributes:
        steps: the number of points between corrupted and clean inputs.
        metric: the metric whose gradient is taken: all have one along the path.
        ablation: what replaces the writer's output in a patched edge.
        absolute: whether edges rank by absolute value.
        direction: which runs are patched: no difference for `logit_diff`, as the path has no direction.
    """

    steps: Count = 10
    metric: MetricName = "logit_diff"
    ablation: AblationValue = "resample"
    absolute: bool = True
    direction: Direction = "noising"
    record: ClassVar[MethodRecord] = MethodRecord(
        source="Hanna et al. 2024, section 3",
        code="hannamw/EAP-IG at 795f560",
        looks_at="clean and corrupted inputs, gradients",
        units="logit difference, or output",
        deviations=(
            "gradients at the midpoints of m intervals, where the code takes the points k / m of the way "
            "from the corrupted input, k = 0 … m - 1; scores are divided by the number of pairs once"
        ),
        test="compare_published --tools eap_ig, with our points and with theirs",
        budget="30 points by the code's default, 5 in its README and in MIB; 10 here",
        sign="larger: patching this edge would change the metric more, averaged along the path",
        cost="two forward passes, and `steps` forward and backward passes in one call each",
        first_order=True,
        granularity="edge",
    )

    @directed
    def __call__(self, problem: Problem) -> Scores:
        """Takes the gradients at all points in one batch."""
        cost = Cost()
        runs = clean_and_patch(problem, self.metric, self.ablation, cost)
        points = along_inputs(problem, midpoints(self.steps))
        values = attribute(problem, gradients(problem, runs, points, cost)).mean(0)
        return Scores(
            problem.graph, legal_scores(problem, values.abs() if self.absolute else values), cost=cost
        )
