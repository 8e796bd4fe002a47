"""What an evaluation finds out, as types that check themselves. Needs neither torch nor scipy."""

from collections.abc import Mapping
from dataclasses import asdict, field
from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from interpbench.circuits.ground_truth import Level
from interpbench.core.config import STRICT, Amount, Finite, RankedItems, Share, Steps
from interpbench.core.estimate import Estimate

Granularity = Literal["edge", "node"]
"""At which level a method gives scores of its own."""
TestName = Literal["equivalence", "independence", "minimality", "sufficiency", "necessity"]
Rerun = Literal["pairs", "seeds"]
"""What differs between the runs of a method: bootstrap samples of the pairs of inputs, or the seed."""
ScoreName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
Numbers = tuple[Finite, ...]
Passes = Annotated[int, Field(ge=0, le=1 << 60)]


@dataclass(frozen=True, config=STRICT)
class LevelScores:
    """How well a ranking separates what is required from what is forbidden, at one level.

    Attributes:
        positives: how many required nodes or edges there are.
        negatives: how many forbidden ones.
        metrics: metric to its number; none of them where one class is empty.
        roc: `(false positive rate, true positive rate)` from (0, 0) to (1, 1), where the curve bends.
    """

    positives: RankedItems
    negatives: RankedItems
    metrics: dict[ScoreName, Estimate] = field(default_factory=dict[str, Estimate])
    roc: tuple[tuple[Share, Share], ...] = ()

    def __repr__(self) -> str:
        items = f"{self.positives:,} required, {self.negatives:,} forbidden"
        if self.auroc is None or self.average_precision is None:
            return f"LevelScores({items}: nothing to tell apart)"
        auroc, precision = (f"{value:.3f}" for value in (self.auroc, self.average_precision))
        return f"LevelScores(AUROC {auroc}, average precision {precision}; {items})"

    def value(self, metric: str) -> float | None:
        """Returns the number of a metric, or None if it has none here."""
        found = self.metrics.get(metric)
        return None if found is None else found.value

    @property
    def auroc(self) -> float | None:
        """The probability that a required node or edge outranks a forbidden one, ties counted half."""
        return self.value("auroc")

    @property
    def average_precision(self) -> float | None:
        """The area under precision-recall, steps at distinct scores."""
        return self.value("average_precision")


def headline_level(said: Level | None, levels: Mapping[Level, LevelScores]) -> Level:
    """Returns the level at which a method on a model is compared with others (`Truth.headline`).

    Args:
        said: what the record says; None for a record of an earlier version, which does not.
        levels: the scores of each level: of the required head edges at least one q/k/v edge is required,
            unless these are free.
    """
    if said is not None:
        return said
    return "head_edge" if levels["head_edge"].positives > levels["qkv_edge"].positives else "qkv_edge"


@dataclass(frozen=True, config=STRICT)
class RunCost:
    """What one run of a method cost.

    Attributes:
        forward_calls, forward_examples, backward_calls, backward_examples: calls of the network, and examples
            that went through it.
        cpu_seconds: CPU time; None where no method was run.
        peak_bytes: how far memory rose; None where it could not be measured.
    """

    forward_calls: Passes
    forward_examples: Passes
    backward_calls: Passes
    backward_examples: Passes
    cpu_seconds: Amount | None = None
    peak_bytes: Passes | None = None


@dataclass(frozen=True, config=STRICT)
class Faithfulness:
    """The faithfulness f of the circuits of several sizes (Mueller et al. 2025, section 3.2).

    Attributes:
        sizes: the sizes, as shares of all edges.
        connected: share of all edges that is left when edges that lead nowhere are pruned.
        curve: f of each size.
        curve_low, curve_high: the ends of its 95 % intervals.
        cpr: the area under f.
        cmd: the area under |1 - f|.
    """

    sizes: Numbers
    connected: Numbers
    curve: Numbers
    curve_low: Numbers
    curve_high: Numbers
    cpr: Estimate
    cmd: Estimate


@dataclass(frozen=True, config=STRICT)
class Completeness:
    """What happens when sets K of a circuit C's nodes are knocked out (Wang et al. 2023, section 4).

    Attributes:
        nodes: how many nodes the circuit has.
        sets: how many sets were knocked out.
        gap: the largest |f(C - K) - f(M - K)|, M being the network: 0 for a complete circuit.
        mean_gap: the mean of it.
        least_effect: for the least necessary node v, the largest |f(C - K - v) - f(C - K)| of any K: 0 for a
            circuit that is not minimal.
    """

    nodes: Steps
    sets: Steps
    gap: Estimate
    mean_gap: Estimate
    least_effect: Estimate


@dataclass(frozen=True, config=STRICT)
class HypothesisTest:
    """What one of the hypothesis tests of a circuit finds.

    Attributes:
        statistic: the statistic of the test.
        p: the p-value.
        passed: whether the circuit passes.
        p_tost: the p-value of the test with exchanged hypotheses, of the test of equivalence alone.
    """

    statistic: Estimate
    p: Share
    passed: bool
    p_tost: Share | None = None


@dataclass(frozen=True, config=STRICT)
class Spread:
    """A mean over several runs, with their standard deviation."""

    mean: Finite
    deviation: Amount


@dataclass(frozen=True, config=STRICT)
class Stability:
    """How alike several runs of a method are.

    Attributes:
        runs: how many runs.
        jaccard: the Jaccard index of their circuits, the mean over pairs of runs; None of a single run.
        rank_correlation: Spearman's correlation of all edges; None, too, if a run scores all edges alike.
        auroc: each level's AUROC.
    """

    runs: Steps
    jaccard: Estimate | None
    rank_correlation: Estimate | None
    auroc: dict[Level, Spread]


@dataclass(frozen=True, config=STRICT)
class CircuitBehaviour:
    """How the circuits of a ranking behave, as far as it was asked for.

    Attributes:
        changed: share of pairs whose corrupted input changes the network's answer; None if it never does.
        faithfulness: of the circuits of several sizes.
        ties: whether the circuit of the true size is a choice between edges of equal scores.
        completeness: of the circuit of the true size.
        tests: name of a hypothesis test to what it finds of the circuit of the true size.
        stability: how alike several runs are.
    """

    changed: Finite | None = None
    faithfulness: Faithfulness | None = None
    ties: bool | None = None
    completeness: Completeness | None = None
    tests: dict[TestName, HypothesisTest] = field(default_factory=dict[TestName, HypothesisTest])
    stability: dict[Rerun, Stability] = field(default_factory=dict[Rerun, Stability])


@dataclass(frozen=True, config=STRICT)
class Conditions:
    """What else decides the numbers of an evaluation; None for what a record does not say.

    Attributes:
        examples: pairs of inputs that the method saw.
        test_examples: pairs on which its circuits were run.
        thorough: whether everything was asked for.
        data: where the pairs came from.
        corruption: how inputs were corrupted, if not as the task does it.
        source: the hash of a user's own method.
        samples, seeds, most_passes: the settings of stability.
    """

    examples: Steps | None = None
    test_examples: Steps | None = None
    thorough: bool | None = None
    data: str | None = None
    corruption: str | None = None
    source: str | None = None
    samples: Steps | None = None
    seeds: Steps | None = None
    most_passes: Steps | None = None

    def will_do_for(self, wanted: "Conditions") -> bool:
        """Returns whether an evaluation under these conditions has all that one under `wanted` would have."""
        demanded = {name: value for name, value in asdict(wanted).items() if value is not None}
        if not wanted.thorough:
            demanded.pop("thorough", None)  # more than is demanded will do
        same = all(getattr(self, name) == value for name, value in demanded.items())
        return same and self.corruption == wanted.corruption
