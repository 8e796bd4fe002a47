"""Stricter hypotheses: what two of them say together, and which further claim would break one.

A hypothesis allows exchanges; a *refinement* allows fewer. If a refinement changes what is recovered, the
hypothesis was incomplete: outputs depend on more than it says (Chan et al. 2022, section 6).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from interpbench.circuits.naming import SLOTS, Reader, is_head, parse_node
from interpbench.core.errors import TaskError
from interpbench.core.estimate import Estimate
from interpbench.scrubbing.classes import Classes
from interpbench.scrubbing.hypothesis import Hypothesis, NodeClaim
from interpbench.scrubbing.path_draws import PathDraws
from interpbench.scrubbing.recovered import ScoredLabels, recovered
from interpbench.scrubbing.residual import ScrubbedNetwork, is_split


def join(first: Hypothesis, second: Hypothesis) -> Hypothesis:
    """Returns the hypothesis that allows an exchange, on any path from the output, if and only if both do.

    What a hypothesis has no claim about, it allows to be exchanged freely. A node that is read on paths of
    which the hypotheses say different things has a claim for each (`Hypothesis.copies`). If one of them tells
    the inputs of heads apart, the other first gets claims about them, too (`with_head_inputs`).

    Args:
        first: a hypothesis.
        second: another one, about the same network.

    Raises:
        TaskError: if they have other inputs or outputs, or values of other numbers of inputs.
    """
    ends = [(one.claims[one.input].image, one.claims[one.output].image) for one in (first, second)]
    if ends[0] != ends[1]:
        raise TaskError(f"hypotheses from {ends[0][0]} to {ends[0][1]} and from {ends[1][0]} to {ends[1][1]}")
    both = (first, second)
    if is_split(first) != is_split(second):
        both = (with_head_inputs(first), with_head_inputs(second))
    names: dict[_Pair, str] = {}
    claims: dict[str, NodeClaim] = {}

    def name(pair: _Pair) -> str:
        if pair not in names:
            found = [None if claim is None else one.claims[claim] for one, claim in zip(both, pair)]
            image = next(claim.image for claim in found if claim is not None)
            number = 1 + sum(claim.image == image for claim in claims.values())
            names[pair] = image if number == 1 else f"{image} ({number})"
            claims[names[pair]] = NodeClaim(image, _together(*found))
            waiting.append(pair)
        return names[pair]

    edges: list[tuple[str, str]] = []
    waiting: list[_Pair] = []
    name((first.output, second.output))
    for pair in waiting:  # which grows
        mine, theirs = (_read(one, claim) for one, claim in zip(both, pair))
        for image in {**mine, **theirs}:
            edges.append((name((mine.get(image), theirs.get(image))), names[pair]))
    if ends[0][0] not in claims:
        name((first.input, second.input))
    copies = len({claim.image for claim in claims.values()}) < len(claims)
    return Hypothesis(claims, tuple(edges), *ends[0], copies)


_Pair = tuple[str | None, str | None]
"""A claim of each of two hypotheses, about the same node; None if one says nothing."""


def _read(hypothesis: Hypothesis, claim: str | None) -> dict[str, str]:
    """Returns the parents of a claim by what they are about."""
    parents = () if claim is None else hypothesis.parents(claim)
    return {hypothesis.claims[parent].image: parent for parent in parents}


def with_head_inputs(hypothesis: Hypothesis) -> Hypothesis:
    """Returns a hypothesis about a transformer whose heads read through claims about their q, k and v inputs.

    These claims say nothing: inputs of a head are what they are on its input. But what they read is then
    drawn for each of them. A hypothesis that has such claims is returned as it is.

    Args:
        hypothesis: the hypothesis.
    """
    if is_split(hypothesis):
        return hypothesis
    claims = dict(hypothesis.claims)
    edges: dict[tuple[str, str], None] = {}
    for parent, child in hypothesis.edges:
        image = hypothesis.claims[child].image
        if not is_head(image):
            edges[parent, child] = None
            continue
        node = parse_node(image)
        for slot in SLOTS:
            reader = str(Reader(node.layer, slot, node.head))
            between = reader if child == image else f"{child}, {slot}"
            claims[between] = NodeClaim(reader)
            edges[parent, between] = edges[between, child] = None
    return replace(hypothesis, claims=claims, edges=tuple(edges))


def _together(first: NodeClaim | None, second: NodeClaim | None) -> np.ndarray | None:
    """Returns the values that agree where those of both claims do."""
    found = [claim for claim in (first, second) if claim is not None]
    if any(claim.values is None for claim in found):
        return None
    counts = sorted({len(np.asarray(claim.values)) for claim in found})
    if len(counts) > 1:
        raise TaskError(
            f"claims about {found[0].image} have values of {' and '.join(map(str, counts))} inputs"
        )
    return np.stack([Classes.of(claim.values, counts[0]).ids for claim in found], 1)


@dataclass(frozen=True)
class Refinement:
    """What a further claim changes.

    Attributes:
        claim: the claim that is refined.
        feature: the name of the feature that its values get, too.
        percent: the percentage of the loss that is recovered then; None if it is not defined.
        difference: by how much that is more than before; 0 if it is not defined.
    """

    claim: str
    feature: str
    percent: Estimate | None
    difference: float


def refinements(
    scrubbed: ScrubbedNetwork,
    hypothesis: Hypothesis,
    bank: Mapping[str, np.ndarray],
    draws: PathDraws,
    behaviour: ScoredLabels,
) -> list[Refinement]:
    """Returns what each feature of a bank changes in each claim, the largest change first.

    Args:
        scrubbed: the network.
        hypothesis: the hypothesis.
        bank: features by name: their values on each input, `[N]` or `[N, ...]`.
        draws: the draws.
        behaviour: the behaviour that is to be recovered.
    """
    lengths = draws.everything.ids

    def percent(claimed: Hypothesis) -> Estimate | None:
        logits = scrubbed.scrub(claimed, draws)
        return recovered(behaviour, logits, scrubbed.logits, draws.root, lengths=lengths).percent

    before = percent(hypothesis)
    found: list[Refinement] = []
    for name, claim in hypothesis.claims.items():
        if claim.values is None:
            continue
        for feature, values in bank.items():
            finer = NodeClaim(claim.image, _together(claim, NodeClaim(claim.image, values)))
            refined = replace(hypothesis, claims={**hypothesis.claims, name: finer})
            after = percent(refined)
            difference = 0.0 if before is None or after is None else after.value - before.value
            found.append(Refinement(name, feature, after, difference))
    return sorted(found, key=lambda one: (-abs(one.difference), one.claim, one.feature))
