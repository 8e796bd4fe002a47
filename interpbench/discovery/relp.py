"""Relevance patching (Rezaei Jafari et al. 2025, section 3 and its table of propagation rules)."""

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
from interpbench.transformer.backward_rules import Rules, with_rules


@method("relp")
@dataclass(frozen=True, config=STRICT)
class RelP:
    """EAP with the coefficients of layer-wise relevance propagation (LRP) in place of gradients.

    The score is ⟨ã_u − a_u, ρ_v⟩ with ρ_v in place of EAP's ∂M/∂in_v. The backward pass has these rules: a
    LayerNorm's scale is a constant; an activation function f(x) is x times the constant f(x)/x; linear maps
    keep their gradients. In networks without LayerNorm only the second rule differs from EAP. The rule that
    halves the gradients of gated MLPs is left out: networks that have them are refused.

    Attributes:
        constant_attention: whether attention patterns are constants (the paper's AH rule): edges into
            queries and keys then score 0.
        metric: the metric, which must have a gradient at the clean point.
        ablation: what replaces the writer's output in a patched edge.
        absolute: whether edges rank by absolute value.
        direction: which runs are patched: clean ones (`noising`, as its authors), corrupted ones
            (`denoising`), or both.
    """

    constant_attention: bool = False
    metric: SlopeName = "logit_diff"
    ablation: AblationValue = "resample"
    absolute: bool = True
    direction: Direction = "noising"
    record: ClassVar[MethodRecord] = MethodRecord(
        source="Rezaei Jafari et al. 2025, section 3",
        code="none compared",
        looks_at="clean and corrupted inputs, gradients",
        units="logit difference, or output",
        deviations="edges are scored as in EAP; the rule for gated MLPs is left out",
        test="tests/discovery/test_discovery_theory.py against literal backward rules",
        sign="larger: patching this edge would change the metric more, by LRP's coefficients",
        cost="two forward passes and one backward pass",
        first_order=True,
        granularity="edge",
        unsupported=("RMSNorm", "gated MLP"),
    )

    @directed
    def __call__(self, problem: Problem) -> Scores:
        """Propagates relevance back through the clean run."""
        cost = Cost()
        rules = Rules(freeze_norm=True, ratio_activation=True, freeze_pattern=self.constant_attention)
        ruled = with_rules(problem.network, rules)
        values = attribute(problem, clean_gradients(problem, self.metric, self.ablation, cost, ruled))[0]
        return Scores(
            problem.graph, legal_scores(problem, values.abs() if self.absolute else values), cost=cost
        )
