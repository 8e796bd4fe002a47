"""The domain of a task: the set of its inputs, which is enumerated if it is small and sampled if it is large.

A tenth of a large domain, chosen by a hash of the input, is held out: training never sees it, and
certificates use nothing else.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from interpbench.tasks.sequence_strata import near, sequence_strata
from interpbench.tasks.stratum import Stratum, length_strata

ENUMERATED_LIMIT = 200_000
"""The largest number of inputs of a domain of which nothing is held out."""
RESAMPLE = "resample"
"""The corruption that every domain has: another input, drawn independently."""
InputSampler = Callable[[np.random.Generator, int], np.ndarray]
"""A function that draws a number of inputs `[row, pos]`."""
Corruption = Callable[[np.random.Generator, np.ndarray], np.ndarray]
"""A function that returns a corrupted input for each of some inputs `[row, pos]`."""


class Domain(ABC):
    """The base class of domains.

    Inputs are arrays `[row, pos]` of int16 codes into the vocabulary, with -1 (None) after the end of a row.
    """

    @property
    @abstractmethod
    def size(self) -> int:
        """The exact number of inputs."""

    @property
    def enumerated(self) -> bool:
        """Whether the domain is so small that nothing is held out: training and certificates draw from all.

        A certificate need not check all pairs of its inputs.
        """
        return self.size <= ENUMERATED_LIMIT

    @abstractmethod
    def all(self) -> np.ndarray:
        """Returns every input, `[size, length]`; only an enumerated domain is small enough."""

    @abstractmethod
    def sample(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draws `[count, length]` inputs, held out or not."""

    @abstractmethod
    def is_held_out(self, tokens: np.ndarray) -> np.ndarray:
        """Returns bool `[row]`, which inputs `[row, pos]` of a large domain are held out of training."""

    def split(self, rng: np.random.Generator, tokens: np.ndarray) -> np.ndarray:
        """Returns bool `[row]`, which drawn inputs are used as held-out ones.

        By default, these are the inputs that are held out. A domain may use some inputs in both parts.
        """
        return self.is_held_out(tokens)

    def draw(self, rng: np.random.Generator, count: int, held_out: bool = False) -> np.ndarray:
        """Draws inputs `[count, length]`.

        From an enumerated domain no input is drawn twice before all have been drawn once.

        Args:
            rng: the random generator.
            count: the number of inputs.
            held_out: whether inputs come from the held-out part of a large domain, or from the rest of it.
        """
        if self.enumerated:
            return self.sample(rng, count)
        parts: list[np.ndarray] = []
        missing = count
        while missing > 0:
            drawn = self.sample(rng, int(missing * (11 if held_out else 1.2)) + 16)
            drawn = drawn[self.split(rng, drawn) == held_out][:missing]
            parts.append(drawn)
            missing -= len(drawn)
        return np.concatenate(parts)

    def sources(self, rng: np.random.Generator, base: np.ndarray, held_out: bool = False) -> np.ndarray:
        """Draws a source input of an interchange intervention for each base input.

        By default sources are drawn independently. A domain can draw sources that are related to their base,
        where unrelated inputs have little in common. Its corruptions must be among them, as certificates hold
        for the sources that are drawn here.

        Args:
            rng: the random generator.
            base: base inputs `[row, pos]`.
            held_out: whether sources are for held-out bases. Otherwise no source may be held out, as training
                learns the outputs of sources, too.
        """
        return self.draw(rng, len(base), held_out)

    def strata(self) -> Sequence[Stratum]:
        """Returns the strata of inputs, from each of which a certificate draws equally many inputs.

        By default there is one for each number of tokens. A domain adds those of unusual inputs: extremes,
        ties, the text around the answer. The task adds strata of outputs.
        """
        return length_strata(self)

    def near(self, rng: np.random.Generator, rows: np.ndarray) -> np.ndarray:
        """Returns for each input another one that is similar to it; by default `rows` themselves.

        The search for inputs with a rare output starts from such inputs that are known.
        """
        return rows

    def eventful(self, rng: np.random.Generator, rows: np.ndarray) -> np.ndarray:
        """Returns inputs in which happens what seldom happens in those that are drawn; by default `rows`.

        Truth is found on such bases.
        """
        return rows

    @property
    def corruptions(self) -> Mapping[str, Corruption]:
        """The ways to corrupt inputs, by name, the default first; the output then differs or is None."""
        return {RESAMPLE: lambda rng, base: self.draw(rng, len(base))}


@dataclass(frozen=True)
class Sequences(Domain):
    """All sequences of a length over a vocabulary.

    Inputs that repeat one token throughout are used in both parts of a large domain and are never held out:
    they may be the only ones with some output (such as "all tokens are equal"), which could then not be
    learned.

    Attributes:
        vocab_size: the number of tokens of the vocabulary.
        length: the number of tokens of a sequence.
        sampler: draws sequences; None to draw them uniformly.
    """

    vocab_size: int
    length: int
    sampler: InputSampler | None = None

    @property
    def size(self) -> int:
        """The exact number of inputs."""
        return self.vocab_size**self.length

    def all(self) -> np.ndarray:
        """Returns every input, `[size, length]`, in lexicographic order."""
        return self.rows(np.arange(self.size))

    def rows(self, numbers: np.ndarray) -> np.ndarray:
        """Returns the inputs `[len(numbers), length]` of these ranks in lexicographic order."""
        tokens = np.empty((len(numbers), self.length), np.int16)
        for place in reversed(range(self.length)):
            numbers, tokens[:, place] = np.divmod(numbers, self.vocab_size)
        return tokens

    def sample(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draws inputs with the sampler; without one, uniformly, from a small domain without replacement."""
        if self.sampler is not None:
            return self.sampler(rng, count)
        if self.enumerated:
            rounds, rest = divmod(count, self.size)
            everything = np.broadcast_to(np.arange(self.size), (rounds, self.size))
            some = rng.choice(self.size, rest, replace=False)
            return self.rows(np.concatenate([rng.permuted(everything, axis=1).ravel(), some]))
        return rng.integers(self.vocab_size, size=(count, self.length), dtype=np.int16)

    def split(self, rng: np.random.Generator, tokens: np.ndarray) -> np.ndarray:
        """Returns bool `[row]`, which drawn inputs are used as held-out ones; a tenth of constant ones is."""
        return np.where(_constant(tokens), rng.random(len(tokens)) < 0.1, in_hashed_tenth(tokens))

    def is_held_out(self, tokens: np.ndarray) -> np.ndarray:
        """Returns bool `[row]`, which inputs belong to the held-out tenth; no constant one does."""
        return in_hashed_tenth(tokens) & ~_constant(tokens)

    def strata(self) -> Sequence[Stratum]:
        """Returns the strata of sequences (`sequence_strata.py`)."""
        return sequence_strata(self, self.vocab_size, self.length)

    def near(self, rng: np.random.Generator, rows: np.ndarray) -> np.ndarray:
        """Returns sequences with some tokens replaced, exchanged or renamed, or with all of them permuted."""
        return near(rng, rows, self.vocab_size)


def _constant(tokens: np.ndarray) -> np.ndarray:
    """Returns bool `[row]`, which inputs repeat one token throughout."""
    return (tokens == tokens[:, :1]).all(1)


def in_hashed_tenth(codes: np.ndarray) -> np.ndarray:
    """Returns bool `[row]`, which rows `[row, pos]` of codes belong to a tenth that is chosen by a hash."""
    return row_hash(codes) % np.uint64(10) == 0


def row_hash(codes: np.ndarray) -> np.ndarray:
    """Returns a 64-bit hash of each row `[row, pos]` of codes."""
    mixed = np.zeros(len(codes), np.uint64)
    for column in codes.T.astype(np.uint64):
        mixed = (mixed ^ (column + np.uint64(0x9E3779B9))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(29)
    return mixed
