"""Donors agree with an input, and are distributed as inputs are."""

import numpy as np

from interpbench.scrubbing.donors import mutated, with_donors
from interpbench.tasks.domain import Sequences
from tests.builders import setting

SIZE, LENGTH = 3, 4


def counts(tokens: np.ndarray) -> np.ndarray:
    """Returns how often each token occurs, `[N, token]`."""
    return np.stack([(tokens == code).sum(1) for code in range(SIZE)], 1)


def test_donors_agree_with_their_inputs():
    tokens = Sequences(SIZE, LENGTH).all()
    made = mutated(np.random.default_rng(0), tokens, SIZE, counts)
    np.testing.assert_array_equal(counts(made), counts(tokens))
    several = np.array([len(np.unique(row)) > 1 for row in tokens])
    assert (made != tokens).any(1)[several].mean() > 0.6, "most of those that have other members of a class"
    assert (made == tokens).all(1)[~several].all(), "a single member stays"


def test_donors_of_uniform_inputs_are_uniform():
    """One change after the other is symmetric: from each member of a class to each other one alike."""
    everything = Sequences(SIZE, LENGTH).all()
    tokens = np.tile(everything, (400, 1))
    made = mutated(np.random.default_rng(1), tokens, SIZE, lambda rows: rows[:, :1] + rows[:, 1:2])
    ranks = (made * SIZE ** np.arange(LENGTH)[::-1]).sum(1)
    found = np.bincount(ranks, minlength=len(everything))
    squares = ((found - 400) ** 2 / 400).sum()
    assert squares < len(everything) + 5 * (2 * len(everything)) ** 0.5, "chi-squared"


def test_inputs_come_first_and_once():
    _, alignment, _ = setting("hist")
    tokens = alignment.task.domain.draw(np.random.default_rng(0), 100)
    found = with_donors(alignment, tokens)
    own = np.unique(tokens, axis=0)
    assert len(found) == len(np.unique(found, axis=0)) > len(own)
    np.testing.assert_array_equal(np.unique(found[: len(own)], axis=0), own)
    np.testing.assert_array_equal(found, with_donors(alignment, tokens))
