"""A domain of prompts of a fixed form: each position has its own choice of words."""

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from interpbench.tasks.domain import Corruption, Domain, in_hashed_tenth
from interpbench.tasks.stratum import Stratum, made

AGAIN, RETOLD = 8, 24
"""The numbers of attempts to make a source that is held out: as it is, then with other incidental words."""


class Slots(Domain):
    """All prompts with one of its words at each position; a tenth of a large domain is held out.

    Args:
        choices: the words that can be at each position.
        corruptions: functions that corrupt prompts, by name, besides `resample`.
        related: further functions that make a source of interventions from a base prompt.
        incidental: the positions whose words the output never depends on.

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
        """Returns the codes of words, their indices in `vocab`."""
        return [self.vocab.index(word) for word in words]

    @property
    def size(self) -> int:
        """The exact number of prompts."""
        return prod(map(len, self._codes))

    def all(self) -> np.ndarray:
        """Returns every prompt, `[size, length]`, in the order of the choices."""
        grid = np.indices([len(codes) for codes in self._codes]).reshape(self.length, -1)
        return np.stack([codes[place] for codes, place in zip(self._codes, grid)], 1)

    def sample(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draws prompts `[count, length]`, the word of each position uniformly."""
        return np.stack([rng.choice(codes, count) for codes in self._codes], 1)

    def is_held_out(self, tokens: np.ndarray) -> np.ndarray:
        """Returns bool `[row]`, which prompts belong to the held-out tenth."""
        return in_hashed_tenth(tokens)

    def sources(self, rng: np.random.Generator, base: np.ndarray, held_out: bool = False) -> np.ndarray:
        """Draws a source for each base: an independent prompt, a corruption of the base, or a related one.

        For a held-out base of a large domain, a source that is made from the base is made again until it is
        held out, too, in the end with other incidental words. Where that fails, and where training would get
        a held-out source, an independent prompt is drawn.
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
        """Returns two strata for each position with several words: prompts with its first and last word."""
        some = [(place, codes) for place, codes in enumerate(self._codes) if len(codes) > 1]
        return [self.with_word(place, code) for place, codes in some for code in (codes.min(), codes.max())]

    def with_word(self, place: int, code: int) -> Stratum:
        """Returns the stratum of prompts with a word, given by its code, at position `place`."""

        def has(rows: np.ndarray) -> np.ndarray:
            return rows[:, place] == code

        def make(rng: np.random.Generator, count: int) -> np.ndarray:
            rows = self.put(self.sample(rng, count), place, code)
            return rows[has(rows)]

        return made(self, f"extreme: {self.vocab[code]} at position {place}", has, make)

    def put(self, tokens: np.ndarray, place: int, code: int) -> np.ndarray:
        """Returns prompts in which one word is replaced.

        Args:
            tokens: prompts `[row, pos]`.
            place: the position of the word.
            code: the code of the new word, one that can be at this position.
        """
        tokens = tokens.copy()
        tokens[:, place] = code
        return tokens

    @property
    def corruptions(self) -> Mapping[str, Corruption]:
        """The corruptions that were given, then `resample`."""
        return {**self._corruptions, **super().corruptions}
