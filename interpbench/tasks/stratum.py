"""One stratum: inputs of a domain that have something in common and that ordinary draws may hardly contain.

In a large domain a stratum has a held-out part, like everything else. Where hardly any of its inputs are held
out (at most a few of the inputs of one token throughout can be), draws for the held-out part take all of the
stratum: `Domain.is_held_out` says which rows are. Draws for training never contain a held-out input.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from interpbench.core import seeds

FEW = 16
"""A stratum with fewer different inputs in the held-out part is drawn as a whole there."""
PROBED = 2048
"""Inputs that are drawn to see whether a stratum has so many."""
ROUNDS = 20
"""Attempts to fill a draw from one part."""
Make = Callable[[np.random.Generator, int], np.ndarray]
PartDraw = Callable[[np.random.Generator, int, bool], np.ndarray]


class Split(Protocol):
    """What a stratum has to know of its domain (`domain.Domain`)."""

    @property
    def enumerated(self) -> bool:
        """Whether nothing is held out."""
        ...

    def is_held_out(self, tokens: np.ndarray) -> np.ndarray:
        """Returns which inputs `[row, pos]` are."""
        ...

    def sample(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draws `[count, length]` inputs, held out or not."""
        ...


@dataclass(frozen=True)
class Stratum:
    """Inputs that have something in common.

    Attributes:
        name: what, in words.
        has: returns which inputs `[row, pos]` belong to it, bool `[row]`.
        draw: draws inputs from the held-out part or the rest, fewer than asked for if there are too few;
            None if they can only be found among others.
        whole: returns whether draws for the held-out part are of the whole stratum, as so few are held out.
    """

    name: str
    has: Callable[[np.ndarray], np.ndarray]
    draw: PartDraw | None = None
    whole: Callable[[], bool] = lambda: False


def made(domain: Split, name: str, has: Callable[[np.ndarray], np.ndarray], make: Make) -> Stratum:
    """Returns the stratum whose inputs `make` draws, whether or not they are held out."""
    part = _Part(domain, name, make)
    return Stratum(name, has, part, part.whole)


class _Part:
    """Draws from one part of a domain by rejection."""

    def __init__(self, domain: Split, name: str, make: Make):
        self.domain, self.name, self.make = domain, name, make
        self._whole: bool | None = None

    def whole(self) -> bool:
        """Whether hardly any of these inputs of a large domain are held out."""
        if self._whole is None:
            rows = self.make(seeds.generator(0, "stratum", self.name), PROBED)
            self._whole = not self.domain.enumerated and few(rows[self.domain.is_held_out(rows)])
        return self._whole

    def __call__(self, rng: np.random.Generator, count: int, held_out: bool) -> np.ndarray:
        """Draws `count` inputs, or as many as there are in a number of attempts."""
        if self.domain.enumerated or (held_out and self.whole()):
            return self.make(rng, count)
        drawn: list[np.ndarray] = []
        missing = count
        for _ in range(ROUNDS):
            rows = self.make(rng, int(missing * (11 if held_out else 1.2)) + 8)
            drawn.append(rows[self.domain.is_held_out(rows) == held_out][:missing])
            missing -= len(drawn[-1])
            if missing <= 0:
                break
        return np.concatenate(drawn)


def few(rows: np.ndarray) -> bool:
    """Whether these are hardly any different inputs."""
    return len(rows) < FEW or len(np.unique(rows, axis=0)) < FEW


def length_strata(domain: Split) -> list[Stratum]:
    """Returns a stratum for each number of tokens, or for eight ranges of it if there are many."""
    lengths = np.unique(_lengths(domain.sample(seeds.generator(0, "lengths"), PROBED)))
    if len(lengths) < 2:
        return []
    return [
        Stratum(f"length: {span(low, high)}", lambda rows, low=low, high=high: _between(rows, low, high))
        for low, high in ranges(lengths.tolist())
    ]


def _lengths(rows: np.ndarray) -> np.ndarray:
    return (rows >= 0).sum(1)


def _between(rows: np.ndarray, low: int, high: int) -> np.ndarray:
    lengths = _lengths(rows)
    return (lengths >= low) & (lengths <= high)


def ranges(values: list[int], most: int = 16, few: int = 8) -> list[tuple[int, int]]:
    """Returns each value as a range, or if there are more than `most`, about `few` ranges of them."""
    if len(values) <= most:
        return [(value, value) for value in values]
    return [(part[0], part[-1]) for part in (p.tolist() for p in np.array_split(np.array(values), few))]


def span(low: object, high: object) -> str:
    """Returns a range in words."""
    return f"{low}" if low == high else f"{low} to {high}"
