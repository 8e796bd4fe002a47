"""The inputs of a task: how many there are, all of them, or draws from them.

Where a domain is too large to enumerate, a part of it, chosen by a hash of the input, is held out: training
never sees it and certificates use nothing else.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from interpbench.tasks.sequence_strata import near, sequence_strata
from interpbench.tasks.stratum import Stratum, length_strata

ENUMERATED_LIMIT = 200_000
RESAMPLE = "resample"
InputSampler = Callable[[np.random.Generator, int], np.ndarray]
Corruption = Callable[[np.random.Generator, np.ndarray], np.ndarray]
"""Makes a corrupted input of each input `[row, pos]`."""


class Domain(ABC):
    """Inputs as arrays `[row, pos]` of int16 codes into the vocabulary, -1 (None) after the end of a row."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The exact number of inputs."""

    @property
    def enumerated(self) -> bool:
        """Whether training and certificates may draw the whole domain, which is small: nothing is held out.

        It does not say that a certificate checks all pairs of inputs.
        """
        return self.size <= ENUMERATED_LIMIT

    @abstractmethod
    def all(self) -> np.ndarray:
        """Returns every input, `[size, length]`; only for an enumerated domain."""

    @abstractmethod
    def sample(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draws `[count, length]` inputs, held out or not."""

    @abstractmethod
    def is_held_out(self, tokens: np.ndarray) -> np.ndarray:
        """Returns which inputs `[row, pos]` of a large domain are held out: training never sees them."""

    def split(self, rng: np.random.Generator, tokens: np.ndarray) -> np.ndarray:
        """Returns which drawn inputs go to the held-out part; a domain may have inputs that go to both."""
        return self.is_held_out(tokens)

    def draw(self, rng: np.random.Generator, count: int, held_out: bool = False) -> np.ndarray:
        """Draws `[count, length]` inputs; from the held-out part or the rest if the domain is large.

        From an enumerated domain nothing is drawn twice before everything has been drawn once.
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
        """Draws a source of interchange interventions for each base `[row, pos]`.

        By default any other input; a domain whose unrelated inputs say little about each other can draw
        related ones. Its corruptions must be among them, since certificates hold for what is drawn here.
        Without `held_out`, none may be a held-out input: training learns the sources' answers, too.
        """
        return self.draw(rng, len(base), held_out)

    def strata(self) -> Sequence[Stratum]:
        """Returns kinds of inputs that a certificate draws evenly, by default each number of tokens.

        What is particular about an input belongs here: extremes, ties, the text around it. Those of the
        outputs are added by the task.
        """
        return length_strata(self)

    def near(self, rng: np.random.Generator, rows: np.ndarray) -> np.ndarray:
        """Returns for each input another one that has much in common with it; by default `rows` themselves.

        Inputs with a rare output are sought near those that are known.
        """
        return rows

    @property
    def corruptions(self) -> Mapping[str, Corruption]:
        """The ways to corrupt an input so that its answer changes or is lost, by name, the default first."""
        return {RESAMPLE: lambda rng, base: self.draw(rng, len(base))}


@dataclass(frozen=True)
class Sequences(Domain):
    """All sequences of `length` tokens over `vocab_size` tokens, drawn by `sampler` or uniformly.

    Inputs of one token throughout, as many as there are tokens, are drawn for both parts of a large domain,
    and are not held out: where they alone have some answer (are all tokens equal?), nothing else could teach
    it.
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
        """Returns the inputs of these ranks in lexicographic order."""
        tokens = np.empty((len(numbers), self.length), np.int16)
        for place in reversed(range(self.length)):
            numbers, tokens[:, place] = np.divmod(numbers, self.vocab_size)
        return tokens

    def sample(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draws by the sampler; else without replacement from a small domain, uniformly from a large one."""
        if self.sampler is not None:
            return self.sampler(rng, count)
        if self.enumerated:
            rounds, rest = divmod(count, self.size)
            everything = np.broadcast_to(np.arange(self.size), (rounds, self.size))
            some = rng.choice(self.size, rest, replace=False)
            return self.rows(np.concatenate([rng.permuted(everything, axis=1).ravel(), some]))
        return rng.integers(self.vocab_size, size=(count, self.length), dtype=np.int16)

    def split(self, rng: np.random.Generator, tokens: np.ndarray) -> np.ndarray:
        """Returns which drawn inputs go to the held-out part: constant ones now and then."""
        return np.where(_constant(tokens), rng.random(len(tokens)) < 0.1, in_hashed_tenth(tokens))

    def is_held_out(self, tokens: np.ndarray) -> np.ndarray:
        """Returns which inputs belong to the held-out tenth; no constant one does."""
        return in_hashed_tenth(tokens) & ~_constant(tokens)

    def strata(self) -> Sequence[Stratum]:
        """Returns those of `sequence_strata.py`."""
        return sequence_strata(self, self.vocab_size, self.length)

    def near(self, rng: np.random.Generator, rows: np.ndarray) -> np.ndarray:
        """Returns sequences with some tokens replaced, exchanged or renamed, or with all of them permuted."""
        return near(rng, rows, self.vocab_size)


def _constant(tokens: np.ndarray) -> np.ndarray:
    """Returns which inputs are one token throughout."""
    return (tokens == tokens[:, :1]).all(1)


def in_hashed_tenth(codes: np.ndarray) -> np.ndarray:
    """Returns which rows `[row, pos]` of codes belong to a tenth chosen by a hash."""
    return row_hash(codes) % np.uint64(10) == 0


def row_hash(codes: np.ndarray) -> np.ndarray:
    """Returns a 64-bit hash of each row `[row, pos]` of codes."""
    mixed = np.zeros(len(codes), np.uint64)
    for column in codes.T.astype(np.uint64):
        mixed = (mixed ^ (column + np.uint64(0x9E3779B9))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(29)
    return mixed
