"""Prompts of a fixed form as a domain: each position has its own words to choose from."""

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from interpbench.tasks.domain import Corruption, Domain, in_hashed_tenth


class Slots(Domain):
    """All ways to fill positions, each from its own words; a tenth of a large domain is held out.

    Args:
        choices: the words of each position.
        corruptions: ways to corrupt prompts, by name, besides drawing another one.
        related: ways to make other sources of interventions from a prompt.

    Attributes:
        vocab: all words, sorted.
        length: the number of positions.
    """

    def __init__(
        self,
        choices: Sequence[Sequence[str]],
        corruptions: Mapping[str, Corruption] | None = None,
        related: Sequence[Corruption] = (),
    ):
        self._related = (*(corruptions or {}).values(), *related)
        self.vocab = tuple(sorted({word for words in choices for word in words}))
        self.length = len(choices)
        self._corruptions = dict(corruptions or {})
        self._codes = [np.array(self.codes(words), np.int16) for words in choices]

    def codes(self, words: Sequence[str]) -> list[int]:
        """Returns the codes of words."""
        return [self.vocab.index(word) for word in words]

    @property
    def size(self) -> int:
        """The exact number of prompts."""
        return prod(map(len, self._codes))

    def all(self) -> np.ndarray:
        """Returns every prompt, in the order of its choices."""
        grid = np.indices([len(codes) for codes in self._codes]).reshape(self.length, -1)
        return np.stack([codes[place] for codes, place in zip(self._codes, grid)], 1)

    def sample(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draws every position uniformly from its words."""
        return np.stack([rng.choice(codes, count) for codes in self._codes], 1)

    def is_held_out(self, tokens: np.ndarray) -> np.ndarray:
        """Returns which prompts belong to the held-out tenth."""
        return in_hashed_tenth(tokens)

    def sources(self, rng: np.random.Generator, base: np.ndarray, held_out: bool = False) -> np.ndarray:
        """Draws sources in one of several ways: other prompts, corrupted ones, ones related to the base."""
        sources = self.draw(rng, len(base), held_out)
        everything = held_out or self.enumerated
        way = rng.integers(len(self._related) + 1, size=len(base))
        for number, make in enumerate(self._related, 1):
            rows = np.flatnonzero(way == number)
            made = make(rng, base[rows])
            allowed = everything | ~self.is_held_out(made)
            sources[rows[allowed]] = made[allowed]
        return sources

    @property
    def corruptions(self) -> Mapping[str, Corruption]:
        """Those that were given, then another prompt."""
        return {**self._corruptions, **super().corruptions}
