"""S14: what causal scrubbing draws has the largest entropy that a hypothesis allows (Chan et al. 2022, A.2).

The hypothesis is a tree of two levels: the output reads `first` and `second`, and `first` reads `left` and
`right`. Its top-level inputs are those of `left`, `right` and `second`.
"""

import itertools

import numpy as np
import pytest

from interpbench.scrubbing.classes import Classes
from interpbench.scrubbing.hypothesis import Hypothesis, NodeClaim
from interpbench.scrubbing.path_draws import PATH
from tests.scrubbed_graphs import draws

LEFT = np.array([0, 0, 1, 1, 2, 2, 2])
RIGHT = np.array([0, 1, 0, 0, 1, 1, 0])
FIRST = (LEFT + RIGHT) % 2
SECOND = np.array([0, 1, 1, 0, 1, 0, 1])
COUNT = len(LEFT)
VALUES = {"left": LEFT, "right": RIGHT, "first": FIRST, "second": SECOND}


def entropy(shares: np.ndarray) -> float:
    shares = shares[shares > 0]
    return float(-(shares * np.log(shares)).sum())


def of_values(*tables: np.ndarray) -> float:
    """Returns the entropy of values on a random input, in nats."""
    counts = np.unique(np.stack(tables, 1), axis=0, return_counts=True)[1]
    return entropy(counts / counts.sum())


def exact() -> np.ndarray:
    """Returns how likely each triple of inputs of `left`, `right` and `second` is, by the definition."""
    law = np.zeros((COUNT,) * 3)
    agreeing = {name: [np.flatnonzero(v == v[at]) for at in range(COUNT)] for name, v in VALUES.items()}
    for root in range(COUNT):
        for first, last in itertools.product(agreeing["first"][root], agreeing["second"][root]):
            share = 1 / COUNT / len(agreeing["first"][root]) / len(agreeing["second"][root])
            for one, two in itertools.product(agreeing["left"][first], agreeing["right"][first]):
                many = len(agreeing["left"][first]) * len(agreeing["right"][first])
                law[one, two, last] += share / many
    return law


def test_s14_fact_3_the_entropy_is_that_of_the_output_and_what_each_node_adds():
    """H(output) + the sum over nodes of H(what it reads) - H(its value); the bottom reads the input."""
    added = of_values(FIRST, SECOND)  # the output's value is its inputs'
    added += of_values(LEFT, RIGHT) - of_values(FIRST)
    for bottom in (LEFT, RIGHT, SECOND):
        added += np.log(COUNT) - of_values(bottom)
    assert entropy(exact()) == pytest.approx(added)


def constraints() -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns what the hypothesis fixes: a label of each triple of inputs, and how likely each label is.

    Each bottom input is distributed as inputs are, and so are the values that each node reads.
    """
    one, two, three = np.indices((COUNT,) * 3)
    read = [one, two, three, LEFT[one] * 2 + RIGHT[two]]
    read.append(((LEFT[one] + RIGHT[two]) % 2) * 2 + SECOND[three])
    known = [np.arange(COUNT)] * 3 + [LEFT * 2 + RIGHT, FIRST * 2 + SECOND]
    return [
        (label, np.bincount(value, minlength=label.max() + 1) / COUNT) for label, value in zip(read, known)
    ]


def test_s14_theorem_2_no_other_distribution_with_what_it_fixes_has_a_larger_entropy():
    """Iterative proportional fitting from the uniform distribution finds the one with the largest entropy."""
    law = np.full((COUNT,) * 3, 1.0)
    for _ in range(2000):
        for label, wanted in constraints():
            found = np.bincount(label.ravel(), law.ravel(), minlength=len(wanted))
            law *= np.divide(wanted, found, out=np.zeros_like(wanted), where=found > 0)[label]
    np.testing.assert_allclose(law, exact(), atol=1e-9)


def test_s14_theorem_2_holds_what_is_fixed():
    for label, wanted in constraints():
        np.testing.assert_allclose(
            np.bincount(label.ravel(), exact().ravel(), minlength=len(wanted)), wanted, atol=1e-12
        )


def test_s14_the_inputs_that_are_drawn_have_this_distribution():
    claimed = Hypothesis(
        {name: NodeClaim(name, value) for name, value in VALUES.items()}
        | {"out": NodeClaim("out"), "x": NodeClaim("x")},
        [("first", "out"), ("second", "out"), ("left", "first"), ("right", "first")],
        input="x",
        output="out",
    )
    drawn = draws(COUNT, samples=70_000)
    current: dict[str, np.ndarray] = {"out": drawn.root}
    for parent, child in claimed.edges:
        classes = Classes.of(claimed.claims[parent].values, COUNT)
        path = f"{child}{PATH}{parent}"
        current[parent] = drawn.agreeing(path, classes, current[child])
    found = np.zeros((COUNT,) * 3)
    np.add.at(found, (current["left"], current["right"], current["second"]), 1)
    expected = exact() * len(drawn.root)
    assert found[expected == 0].sum() == 0
    some = expected > 0
    squares = ((found - expected)[some] ** 2 / expected[some]).sum()
    free = some.sum() - 1
    assert squares < free + 5 * (2 * free) ** 0.5, "chi-squared"
