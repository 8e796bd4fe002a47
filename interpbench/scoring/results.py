"""The results of an evaluation, as types that are checked when they are read; without torch and scipy."""

from collections.abc import Mapping
from dataclasses import asdict, field
from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from interpbench.circuits.ground_truth import Level
from interpbench.core.config import STRICT, Amount, Finite, RankedItems, Share, Steps
from interpbench.core.estimate import Estimate

Granularity = Literal["edge", "node"]
"""The level of detail at which a method computes scores: those of edges, or those of nodes only."""
TestName = Literal["equivalence", "independence", "minimality", "sufficiency", "necessity"]
"""The name of a hypothesis test of circuits; see `hypotheses`."""
Rerun = Literal["pairs", "seeds"]
"""The difference between several runs of a method: bootstrap samples of the pairs of inputs, or the seed."""
ScoreName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
Threshold = Annotated[str, Field(pattern=r"^[0-9.e+-]{1,20}$")]
"""A threshold at which a method returns a circuit, as text."""
Numbers = tuple[Finite, ...]
Passes = Annotated[int, Field(ge=0, le=1 << 60)]


@dataclass(frozen=True, config=STRICT)
class LevelScores:
    """How well a ranking separates required from forbidden nodes or edges, at one level of detail.

    Attributes:
        positives: the number of required nodes or edges.
        negatives: the number of forbidden nodes or edges.
        metrics: the metrics by name; empty if no item is required, or none is forbidden.
        roc: the points `(false positive rate, true positive rate)` at which the ROC curve changes its slope,
            from (0, 0) to (1, 1).
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
        """Returns the value of a metric; None if it is not among `metrics`."""
        found = self.metrics.get(metric)
        return None if found is None else found.value

    @property
    def auroc(self) -> float | None:
        """The probability that a required item scores higher than a forbidden one; ties count half."""
        return self.value("auroc")

    @property
    def average_precision(self) -> float | None:
        """The area under the precision-recall curve, with a step at each distinct score."""
        return self.value("average_precision")


def headline_level(said: Level | None, levels: Mapping[Level, LevelScores]) -> Level:
    """Returns the level of detail at which methods are compared on a network (`Truth.headline`).

    Args:
        said: the level in the record; None in a record of an earlier version.
        levels: the scores at each level. In earlier versions, they show whether q/k/v edges are free, as each
            required head edge has a required q/k/v edge otherwise.
    """
    if said is not None:
        return said
    return "head_edge" if levels["head_edge"].positives > levels["qkv_edge"].positives else "qkv_edge"


@dataclass(frozen=True, config=STRICT)
class RunCost:
    """The cost of one run of a method.

    Attributes:
        forward_calls: the number of forward passes.
        forward_examples: the number of examples in forward passes.
        backward_calls: the number of backward passes.
        backward_examples: the number of examples in backward passes.
        cpu_seconds: the CPU time in seconds; None if no method was run.
        peak_bytes: by how much memory rose at most; None if it could not be measured.
    """

    forward_calls: Passes
    forward_examples: Passes
    backward_calls: Passes
    backward_examples: Passes
    cpu_seconds: Amount | None = None
    peak_bytes: Passes | None = None


@dataclass(frozen=True, config=STRICT)
class Faithfulness:
    """The faithfulness f of circuits of several sizes (Mueller et al. 2025, section 3.2).

    Attributes:
        sizes: the sizes of the circuits, as shares of all edges.
        connected: for each size, the share of all edges that is left in the circuit when edges are pruned
            that are on no path from the embedding to the logits.
        curve: f at each size.
        curve_low: the low ends of the 95 % intervals of `curve`.
        curve_high: the high ends of the 95 % intervals of `curve`.
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
    """The effect of knocking out sets K of the nodes of a circuit C (Wang et al. 2023, section 4).

    M is the network, and f the faithfulness.

    Attributes:
        nodes: the number of nodes in the circuit.
        sets: the number of sets K that were knocked out.
        gap: the largest |f(C - K) - f(M - K)|, which is 0 for a complete circuit.
        mean_gap: the mean |f(C - K) - f(M - K)|.
        least_effect: the largest |f(C - K - v) - f(C - K)| over K, of the node v for which it is smallest. It
            is 0 for a circuit that is not minimal.
    """

    nodes: Steps
    sets: Steps
    gap: Estimate
    mean_gap: Estimate
    least_effect: Estimate


@dataclass(frozen=True, config=STRICT)
class Sufficiency:
    """What a circuit does whose complement is patched from the corrupted inputs.

    It has as many edges as are required of any order (`Truth.witnesses`), those with the highest scores. A
    circuit can be sufficient that is not complete: of three copies of a variable that vote, it needs two.

    Attributes:
        edges: the number of its edges.
        held: the share of what is required of any order that is in it; 1 for a circuit that is complete.
        answers: the share of pairs for which its answers are those of the network.
        needed: of its edges, the share without which some answer is wrong that was right; 1 for a circuit
            that is minimal on these pairs. None if no answer is right.
    """

    edges: Steps
    held: Share
    answers: Estimate
    needed: Share | None


@dataclass(frozen=True, config=STRICT)
class Chosen:
    """A circuit whose size is chosen without the truth.

    Attributes:
        edges: the number of its edges; free edges of one head edge count as one.
        precision: the share of its edges that are required of any order or free, allowed ones left aside;
            None without any.
        held: the share of what is required of any order that is in it.
    """

    edges: Steps
    precision: Share | None
    held: Share


@dataclass(frozen=True, config=STRICT)
class HypothesisTest:
    """The result of a hypothesis test of a circuit.

    Attributes:
        statistic: the statistic of the test.
        p: the p-value.
        passed: whether the circuit passes.
        p_tost: for the test of equivalence, the p-value of the test with exchanged hypotheses; else None.
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
    """The agreement of several runs of a method; numbers are means over pairs of runs.

    Attributes:
        runs: the number of runs.
        jaccard: the Jaccard index of their circuits; None for a single run.
        rank_correlation: Spearman's correlation of their scores of edges; None for a single run, or if a run
            gives all edges the same score.
        auroc: the AUROC of the runs at each level of detail, as mean and standard deviation.
    """

    runs: Steps
    jaccard: Estimate | None
    rank_correlation: Estimate | None
    auroc: dict[Level, Spread]


@dataclass(frozen=True, config=STRICT)
class CircuitBehaviour:
    """The behaviour of the circuits that scores define; what was not asked for is None or empty.

    The circuit of the true size has as many edges as are required.

    Attributes:
        changed: the share of pairs whose corrupted input changes the network's answer.
        faithfulness: the faithfulness of circuits of several sizes.
        recovered: the percentage of the loss that causal scrubbing recovers with the circuit of as many edges
            as are required of any order; None if not measured or not defined.
        sufficiency: what the circuit does that has as many edges as are required of any order.
        smallest: the circuit of as many of the best edges as it takes to give the network's answers to all
            pairs.
        own: the circuits that the method itself returns, by its threshold (or penalty, or target sparsity).
        ties: whether equal scores leave a choice of which edges are in the circuit of the true size.
        completeness: the completeness of the circuit of the true size.
        tests: the results of hypothesis tests of the circuit of the true size, by their names.
        stability: the agreement of several runs, by what differs between them.
    """

    changed: Finite | None = None
    faithfulness: Faithfulness | None = None
    recovered: Estimate | None = None
    sufficiency: Sufficiency | None = None
    smallest: Chosen | None = None
    own: dict[Threshold, Chosen] = field(default_factory=dict[str, Chosen])
    ties: bool | None = None
    completeness: Completeness | None = None
    tests: dict[TestName, HypothesisTest] = field(default_factory=dict[TestName, HypothesisTest])
    stability: dict[Rerun, Stability] = field(default_factory=dict[Rerun, Stability])


@dataclass(frozen=True, config=STRICT)
class Conditions:
    """The conditions of an evaluation, besides network, method and settings; None stands for an unknown one.

    Attributes:
        examples: the number of pairs of inputs that the method was given.
        test_examples: the number of pairs on which its circuits were run.
        thorough: whether hypothesis tests and stability were asked for too.
        data: where the pairs came from.
        corruption: how inputs were corrupted, if not as the task does it.
        source: the SHA-256 of the file with a user's own method, or with the fitted numbers of a baseline.
        samples: the number of bootstrap samples of pairs on which stability was measured.
        seeds: the number of other seeds on which stability was measured.
        most_passes: the largest cost, in passes of one example, at which stability was measured.
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
        """Returns whether an evaluation under these conditions can stand for one under `wanted`."""
        demanded = {name: value for name, value in asdict(wanted).items() if value is not None}
        if not wanted.thorough:
            demanded.pop("thorough", None)  # a thorough evaluation holds more than is demanded
        same = all(getattr(self, name) == value for name, value in demanded.items())
        return same and self.corruption == wanted.corruption
