"""Relevance patching (Rezaei Jafari et al. 2025, section 3 and its table of propagation rules)."""

from typing import ClassVar

from pydantic.dataclasses import dataclass

from interpbench.circuits.scores import Cost, Scores
from interpbench.core.config import STRICT
from interpbench.discovery.attribution import attribute, clean_slopes
from interpbench.discovery.directions import Direction, directed
from interpbench.discovery.method import AblationValue, legal_scores, method
from interpbench.discovery.method_record import MethodRecord
from interpbench.tasks.metrics import SlopeName
from interpbench.tasks.problem import Problem
from interpbench.transformer.backward_rules import Rules, with_rules


@method("relp")
@dataclass(frozen=True, config=STRICT)
class RelP:
    """EAP with the coefficients of layer-wise relevance propagation in place of gradients.

    Rules: a LayerNorm's scale is a constant; an activation f(x) is x times the constant f(x)/x; linear maps
    keep their gradients. Without LayerNorm the first rule is empty, and only the second differs from EAP.
    The networks have no gated MLPs, so the rule that halves products is empty throughout.

    Attributes:
        constant_attention: whether attention patterns are constants, too: the AH rule, with which all edges
            into queries and keys score 0.
        metric: the metric, which must have a gradient at the clean point.
        ablation: what the edge would be patched with.
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
        deviations="edges as in EAP; the rule for gated MLPs has nothing to act on",
        test="tests/discovery/test_discovery_theory.py: literal backward rules",
        sign="larger: the metric's relevance for what patching this edge changes is larger",
        cost="two forward passes and one backward pass",
        first_order=True,
        granularity="edge",
        unsupported=("RMSNorm", "gated MLP"),
    )

    @directed
    def __call__(self, problem: Problem) -> Scores:
        """Propagates relevance from the clean point."""
        cost = Cost()
        rules = Rules(freeze_norm=True, ratio_activation=True, freeze_pattern=self.constant_attention)
        ruled = with_rules(problem.network, rules)
        values = attribute(problem, clean_slopes(problem, self.metric, self.ablation, cost, ruled))[0]
        return Scores(
            problem.graph, legal_scores(problem, values.abs() if self.absolute else values), cost=cost
        )
