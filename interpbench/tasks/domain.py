"""The inputs of a task: how many there are, all of them, or draws from them.

Where a domain is too large to enumerate, a tenth of it, chosen by a hash of the input, is held out: training
never sees it and certificates use nothing else. Inputs of one token throughout, as many as there are tokens,
are in both parts: where they alone have some answer (are all tokens equal?), nothing else could teach it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

ENUMERATED_LIMIT = 200_000
Sampler = Callable[[np.random.Generator, int], np.ndarray]


@dataclass(frozen=True)
class Domain:
    """All sequences of `length` tokens over `vocab_size` tokens, drawn by `sampler` or uniformly."""

    vocab_size: int
    length: int
    sampler: Sampler | None = None

    @property
    def size(self) -> int:
        """The exact number of inputs."""
        return self.vocab_size**self.length

    @property
    def enumerated(self) -> bool:
        """Whether training and certificates use the whole domain."""
        return self.size <= ENUMERATED_LIMIT

    def all(self) -> np.ndarray:
        """Returns every input, `[size, length]`, in lexicographic order."""
        return self.rows(np.arange(self.size))

    def rows(self, numbers: np.ndarray) -> np.ndarray:
        """Returns the inputs of these ranks in lexicographic order."""
        tokens = np.empty((len(numbers), self.length), np.int16)
        for place in reversed(range(self.length)):
            numbers, tokens[:, place] = np.divmod(numbers, self.vocab_size)
        return tokens

    def draw(self, rng: np.random.Generator, count: int, held_out: bool = False) -> np.ndarray:
        """Draws `[count, length]` inputs; from the held-out part or the rest if the domain is large.

        From an enumerated domain nothing is drawn twice before everything has been drawn once.
        """
        if self.enumerated:
            return self._sample(rng, count)
        parts: list[np.ndarray] = []
        missing = count
        while missing > 0:
            drawn = self._sample(rng, int(missing * (11 if held_out else 1.2)) + 16)
            constant = (drawn == drawn[:, :1]).all(1)
            held = np.where(constant, rng.random(len(drawn)) < 0.1, self.is_held_out(drawn))
            drawn = drawn[held == held_out][:missing]
            parts.append(drawn)
            missing -= len(drawn)
        return np.concatenate(parts)

    def _sample(self, rng: np.random.Generator, count: int) -> np.ndarray:
        if self.sampler is not None:
            return self.sampler(rng, count)
        if self.enumerated:
            rounds, rest = divmod(count, self.size)
            everything = np.broadcast_to(np.arange(self.size), (rounds, self.size))
            some = rng.choice(self.size, rest, replace=False)
            return self.rows(np.concatenate([rng.permuted(everything, axis=1).ravel(), some]))
        return rng.integers(self.vocab_size, size=(count, self.length), dtype=np.int16)

    @staticmethod
    def is_held_out(tokens: np.ndarray) -> np.ndarray:
        """Returns which inputs `[row, pos]` belong to the held-out tenth of a large domain."""
        mixed = np.zeros(len(tokens), np.uint64)
        for column in tokens.T.astype(np.uint64):
            mixed = (mixed ^ (column + np.uint64(0x9E3779B9))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed ^= mixed >> np.uint64(29)
        return mixed % np.uint64(10) == 0
