"""Induction (Olsson et al. 2022): the token that followed this one before follows it again."""

import numpy as np

from interpbench.causal.model import CausalModel, Read, Variable
from interpbench.causal.selection import earlier, positions, selected
from interpbench.tasks.catalogue import causal_task
from interpbench.tasks.domain import Sequences
from interpbench.tasks.samplers import mixture, repeats

VOCAB = tuple("abcdefghijkl")
LENGTH = 10
EDITS = [repeats(2), repeats(3), repeats(4)]


def previous(query: np.ndarray, key: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Returns the token one position back.

    Args:
        query: the position of each query, `[row, query]`.
        key: the position of each key, `[row, key]`.
        tokens: the token of each key, `[row, key]`.
    """
    return selected(key[:, None, :] == query[:, :, None] - 1, tokens)


def follower(tokens: np.ndarray, before: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Returns the value at the positions up to here whose previous token is this one; None if they differ.

    Args:
        tokens: the token of each query, `[row, query]`.
        before: the previous token at each key, `[row, key]`.
        values: the token of each key, which is the result, `[row, key]`.
    """
    return selected((before[:, None, :] == tokens[:, :, None]) & earlier(LENGTH), values)


@causal_task(
    "induction",
    vocab=VOCAB,
    length=LENGTH,
    domain=Sequences(len(VOCAB), LENGTH, mixture(EDITS, len(VOCAB), LENGTH)),
    alignment={"previous": "a0.h1", "induction": "a1.h2"},
)
def induction() -> CausalModel:
    """The token that followed this one each time before; None if it is new or the followers differ."""
    return CausalModel(
        [
            Variable("tokens", (), lambda tokens: tokens, VOCAB),
            Variable("positions", (), positions, tuple(range(LENGTH))),
            Variable(
                "previous",
                (Read("positions", "q"), Read("positions", "k"), Read("tokens", "v")),
                previous,
                VOCAB,
                "the token one position back",
            ),
            Variable(
                "induction",
                (Read("tokens", "q"), Read("previous", "k"), Read("tokens", "v")),
                follower,
                VOCAB,
                "the token wherever previous has been this token; none if these differ or there is none",
            ),
        ],
        "induction",
    )
