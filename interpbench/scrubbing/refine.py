"""Stricter hypotheses: what two of them say together (Chan et al. 2022, section 6)."""

from dataclasses import replace

import numpy as np

from interpbench.circuits.naming import SLOTS, Reader, is_head, parse_node
from interpbench.core.errors import TaskError
from interpbench.scrubbing.classes import Classes
from interpbench.scrubbing.hypothesis import Hypothesis, NodeClaim
from interpbench.scrubbing.residual import is_split


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
