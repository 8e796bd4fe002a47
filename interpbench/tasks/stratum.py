"""A stratum: inputs of a domain with something in common, which ordinary draws may hardly contain.

In a large domain, some inputs of a stratum are held out. Where these are hardly any (such as of inputs that
repeat one token throughout), draws for the held-out part come from the whole stratum, and
`Domain.is_held_out` says which of them are held out. Draws for training never contain a held-out input.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from interpbench.core import seeds

FEW = 16
"""The number of different held-out inputs below which draws for the held-out part take the whole stratum."""
PROBED = 2048
"""The number of inputs that are drawn to find whether a stratum has so many."""
ROUNDS = 20
"""The number of attempts to draw enough inputs from one part of the domain."""
Make = Callable[[np.random.Generator, int], np.ndarray]
"""A function that draws a number of inputs `[row, pos]` of a stratum, held out or not."""
PartDraw = Callable[[np.random.Generator, int, bool], np.ndarray]
"""A function that draws a number of inputs `[row, pos]` from the held-out part (True) or the rest."""


class Split(Protocol):
    """The part of a domain (`domain.Domain`) that strata use."""

    @property
    def enumerated(self) -> bool:
        """Whether the domain is so small that nothing is held out."""
        ...

    def is_held_out(self, tokens: np.ndarray) -> np.ndarray:
        """Returns bool `[row]`, which inputs `[row, pos]` are held out."""
        ...

    def sample(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draws `[count, length]` inputs, held out or not."""
        ...


@dataclass(frozen=True)
class Stratum:
    """Inputs with something in common.

    Attributes:
        name: what they have in common, in words.
        has: a function that returns bool `[row]`, which inputs `[row, pos]` belong to the stratum.
        draw: a function that draws inputs of one part, fewer than asked for if there are too few; None if
            they cannot be drawn directly and have to be found among other draws.
        whole: a function that returns whether draws for the held-out part come from the whole stratum, as
            hardly any of its inputs are held out.
    """

    name: str
    has: Callable[[np.ndarray], np.ndarray]
    draw: PartDraw | None = None
    whole: Callable[[], bool] = lambda: False


def made(domain: Split, name: str, has: Callable[[np.ndarray], np.ndarray], make: Make) -> Stratum:
    """Returns a stratum whose inputs can be drawn directly.

    Args:
        domain: the domain of the inputs.
        name: what the inputs have in common, in words.
        has: a function that returns bool `[row]`, which inputs `[row, pos]` belong to the stratum.
        make: a function that draws a number of its inputs, held out or not.
    """
    part = _Part(domain, name, make)
    return Stratum(name, has, part, part.whole)


class _Part:
    """Draws inputs of a stratum from one part of a domain, by rejection."""

    def __init__(self, domain: Split, name: str, make: Make):
        self.domain, self.name, self.make = domain, name, make
        self._whole: bool | None = None

    def whole(self) -> bool:
        """Returns whether the domain is large and hardly any inputs of the stratum are held out."""
        if self._whole is None:
            rows = self.make(seeds.generator(0, "stratum", self.name), PROBED)
            self._whole = not self.domain.enumerated and few(rows[self.domain.is_held_out(rows)])
        return self._whole

    def __call__(self, rng: np.random.Generator, count: int, held_out: bool) -> np.ndarray:
        """Draws `count` inputs, or fewer if a limited number of attempts does not find as many."""
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
    """Returns whether inputs `[row, pos]` are fewer than `FEW` different ones."""
    return len(rows) < FEW or len(np.unique(rows, axis=0)) < FEW


def length_strata(domain: Split) -> list[Stratum]:
    """Returns a stratum for each number of tokens, or for eight ranges of it if there are more than 16."""
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
    """Groups values into ranges.

    Args:
        values: the values, sorted.
        most: the largest number of values of which each is a range of its own.
        few: the number of ranges if there are more values.

    Returns:
        The lowest and the highest value of each range.
    """
    if len(values) <= most:
        return [(value, value) for value in values]
    return [(part[0], part[-1]) for part in (p.tolist() for p in np.array_split(np.array(values), few))]


def span(low: object, high: object) -> str:
    """Returns the text of a range, such as `2 to 5`, or `2` if both ends are the same."""
    return f"{low}" if low == high else f"{low} to {high}"
