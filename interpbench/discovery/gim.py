"""Gradient interaction modifications (Edin et al. 2025, section 4)."""

from typing import Annotated, ClassVar

from pydantic import Field
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


@method("gim")
@dataclass(frozen=True, config=STRICT)
class Gim:
    """EAP with gradients corrected for self-repair in the softmax and for products of activations.

    The score is EAP's, ⟨ã_u − a_u, ∂M/∂in_v⟩, with three rules in the backward pass: a LayerNorm's scale is a
    constant; the softmax's gradient is that at a higher temperature; the gradient of a product is divided
    among its factors, a half for values, a quarter each for queries and keys. Networks without LayerNorm make
    no use of the first rule. The rule for gated MLPs is left out: networks that have them are refused.

    Attributes:
        temperature: the softmax's temperature in the backward pass; 1 changes nothing.
        divide: whether gradients are divided among the factors of a product.
        metric: the metric, which must have a gradient at the clean point.
        ablation: what replaces the writer's output in a patched edge.
        absolute: whether edges rank by absolute value.
        direction: which runs are patched: clean ones (`noising`, as its authors), corrupted ones
            (`denoising`), or both.
    """

    temperature: Annotated[float, Field(gt=0)] = 2.0
    divide: bool = True
    metric: SlopeName = "logit_diff"
    ablation: AblationValue = "resample"
    absolute: bool = True
    direction: Direction = "noising"
    record: ClassVar[MethodRecord] = MethodRecord(
        source="Edin et al. 2025, section 4",
        code="none compared",
        looks_at="clean and corrupted inputs, gradients",
        units="logit difference, or output",
        deviations="edges are scored as in EAP; the rule for gated MLPs is left out",
        test="tests/discovery/test_discovery_theory.py against literal backward rules",
        sign="larger: patching this edge would change the metric more, by corrected gradients",
        cost="two forward passes and one backward pass",
        first_order=True,
        granularity="edge",
        unsupported=("RMSNorm", "gated MLP"),
    )

    @directed
    def __call__(self, problem: Problem) -> Scores:
        """Takes the corrected gradient at the clean activations."""
        cost = Cost()
        qkv = (0.25, 0.25, 0.5) if self.divide else (1.0, 1.0, 1.0)
        ruled = with_rules(problem.network, Rules(freeze_norm=True, temperature=self.temperature, qkv=qkv))
        values = attribute(problem, clean_gradients(problem, self.metric, self.ablation, cost, ruled))[0]
        return Scores(
            problem.graph, legal_scores(problem, values.abs() if self.absolute else values), cost=cost
        )
