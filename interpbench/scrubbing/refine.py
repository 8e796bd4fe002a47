"""Stricter hypotheses: what two of them say together (Chan et al. 2022, section 6)."""

import numpy as np

from interpbench.core.errors import TaskError
from interpbench.scrubbing.classes import Classes
from interpbench.scrubbing.hypothesis import Hypothesis, NodeClaim


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
