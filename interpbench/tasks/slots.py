"""Prompts of a fixed form as a domain: each position has its own words to choose from."""

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from interpbench.tasks.domain import Corruption, Domain, in_hashed_tenth
from interpbench.tasks.stratum import Stratum, made

AGAIN, RETOLD = 8, 24
"""How often a source is made again until it is held out: as it is, and then with other incidental words."""


class Slots(Domain):
    """All ways to fill positions, each from its own words; a tenth of a large domain is held out.

    Args:
        choices: the words of each position.
        corruptions: ways to corrupt prompts, by name, besides drawing another one.
        related: ways to make other sources of interventions from a prompt.
        incidental: positions whose words no answer depends on.

    Attributes:
        vocab: all words, sorted.
        length: the number of positions.
    """

    def __init__(
        self,
        choices: Sequence[Sequence[str]],
        corruptions: Mapping[str, Corruption] | None = None,
        related: Sequence[Corruption] = (),
        incidental: Sequence[int] = (),
    ):
        self._incidental = tuple(incidental)
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
        """Draws sources in one of several ways: other prompts, corrupted ones, ones related to the base.

        In a large domain, those made of the base are made again until they are held out, at last with other
        incidental words. Where that fails, and in training where they are held out, another prompt is drawn.
        """
        sources = self.draw(rng, len(base), held_out)
        way = rng.integers(len(self._related) + 1, size=len(base))
        for number, make in enumerate(self._related, 1):
            rows = np.flatnonzero(way == number)
            made = make(rng, base[rows])
            right = np.ones(len(rows), bool) if self.enumerated else self.is_held_out(made) == held_out
            for attempt in range(AGAIN + RETOLD if held_out else 0):
                left = np.flatnonzero(~right)
                if not len(left):
                    break
                again = make(rng, base[rows[left]])
                made[left] = again if attempt < AGAIN else self._retold(rng, again)
                right[left] = self.is_held_out(made[left])
            sources[rows[right]] = made[right]
        return sources

    def _retold(self, rng: np.random.Generator, tokens: np.ndarray) -> np.ndarray:
        """Returns prompts with other incidental words."""
        tokens = tokens.copy()
        for place in self._incidental:
            drawn = rng.choice(self._codes[place], len(tokens))
            tokens[:, place] = np.where(tokens[:, place] >= 0, drawn, tokens[:, place])
        return tokens

    def strata(self) -> Sequence[Stratum]:
        """Returns, for each position with several words, the prompts that have its first and its last one."""
        some = [(place, codes) for place, codes in enumerate(self._codes) if len(codes) > 1]
        return [self.with_word(place, code) for place, codes in some for code in (codes.min(), codes.max())]

    def with_word(self, place: int, code: int) -> Stratum:
        """Returns the stratum of the prompts that have the word of a code at a position."""

        def has(rows: np.ndarray) -> np.ndarray:
            return rows[:, place] == code

        def make(rng: np.random.Generator, count: int) -> np.ndarray:
            rows = self.put(self.sample(rng, count), place, code)
            return rows[has(rows)]

        return made(self, f"extreme: {self.vocab[code]} at position {place}", has, make)

    def put(self, tokens: np.ndarray, place: int, code: int) -> np.ndarray:
        """Returns prompts with another word at a position, if they can have it."""
        tokens = tokens.copy()
        tokens[:, place] = code
        return tokens

    @property
    def corruptions(self) -> Mapping[str, Corruption]:
        """Those that were given, then another prompt."""
        return {**self._corruptions, **super().corruptions}
