"""Stricter hypotheses: what two of them say together, and which further claim would break one.

A hypothesis allows exchanges; a *refinement* allows fewer. If a refinement changes what is recovered, the
hypothesis was incomplete: outputs depend on more than it says (Chan et al. 2022, section 6).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from interpbench.core.errors import TaskError
from interpbench.core.estimate import Estimate
from interpbench.scrubbing.classes import Classes
from interpbench.scrubbing.hypothesis import Hypothesis, NodeClaim
from interpbench.scrubbing.path_draws import PathDraws
from interpbench.scrubbing.recovered import ScoredLabels, recovered
from interpbench.scrubbing.residual import ScrubbedNetwork


def join(first: Hypothesis, second: Hypothesis) -> Hypothesis:
    """Returns the hypothesis that allows an exchange if and only if both do.

    Claims are told apart by what they are about, and called so. A node of which only one hypothesis has a
    claim may be exchanged freely by the other.

    Args:
        first: a hypothesis.
        second: another one, about the same network.

    Raises:
        TaskError: if they have other inputs or outputs, or values of other numbers of inputs.
    """
    ends = [(one.claims[one.input].image, one.claims[one.output].image) for one in (first, second)]
    if ends[0] != ends[1]:
        raise TaskError(f"hypotheses from {ends[0][0]} to {ends[0][1]} and from {ends[1][0]} to {ends[1][1]}")
    mine, theirs = ({claim.image: claim for claim in one.claims.values()} for one in (first, second))
    claims = {
        image: NodeClaim(image, _together(mine.get(image), theirs.get(image))) for image in {**mine, **theirs}
    }
    edges = [
        (one.claims[parent].image, one.claims[child].image)
        for one in (first, second)
        for parent, child in one.edges
    ]
    return Hypothesis(claims, tuple(dict.fromkeys(edges)), *ends[0])


def _together(first: NodeClaim | None, second: NodeClaim | None) -> np.ndarray | None:
    """Returns the values that agree where those of both claims do."""
    found = [claim for claim in (first, second) if claim is not None]
    if any(claim.values is None for claim in found):
        return None
    counts = {len(np.asarray(claim.values)) for claim in found}
    if len(counts) > 1:
        raise TaskError(
            f"claims about {found[0].image} have values of {' and '.join(map(str, counts))} inputs"
        )
    ids = [Classes.of(claim.values, counts.copy().pop()).ids for claim in found]
    return np.stack(ids, 1)


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
    before = recovered(behaviour, scrubbed.scrub(hypothesis, draws), scrubbed.logits, draws.root).percent
    found: list[Refinement] = []
    for name, claim in hypothesis.claims.items():
        if claim.values is None or name not in hypothesis.order:
            continue
        for feature, values in bank.items():
            finer = NodeClaim(claim.image, _together(claim, NodeClaim(claim.image, values)))
            refined = replace(hypothesis, claims={**hypothesis.claims, name: finer}, _parents={})
            logits = scrubbed.scrub(refined, draws)
            after = recovered(behaviour, logits, scrubbed.logits, draws.root).percent
            difference = 0.0 if before is None or after is None else after.value - before.value
            found.append(Refinement(name, feature, after, difference))
    return sorted(found, key=lambda one: (-abs(one.difference), one.claim, one.feature))
