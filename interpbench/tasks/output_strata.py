"""Strata of outputs: each class, ranges of many classes or numbers, the least, the greatest, the rarest."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from interpbench.tasks.stratum import ranges, span

MOST, GROUPS = 16, 8
"""More different outputs than `MOST` are grouped into `GROUPS` ranges."""
DIGITS = 9
"""Numbers are the same up to so many digits after the point."""
Outputs = tuple[np.ndarray, np.ndarray]
"""Outputs `[row, pos]`, codes or numbers, and where they are scored, bool `[row, pos]`."""


@dataclass(frozen=True)
class Answers:
    """Groups of the outputs that a task reaches; an input belongs to all groups that a scored position is in.

    Attributes:
        values: the outputs, sorted: codes, or numbers.
        names: of the groups.
        member: bool `[group, value]`.
        throughout: whether there is one more group, of inputs with the same output at all scored positions.
    """

    values: np.ndarray
    names: tuple[str, ...]
    member: np.ndarray
    throughout: bool

    def labels(self, outputs: Outputs) -> np.ndarray:
        """Returns which inputs are in which group, bool `[row, group]`."""
        found, scored = outputs
        if not len(self.values):
            return np.zeros((len(found), 0), bool)
        places = nearest(self.values, np.where(scored, found, self.values[0]))
        labels = [(member[places] & scored).any(1) for member in self.member]
        if self.throughout:
            labels.append(same_throughout(outputs))
        return np.stack(labels, 1)


def group(values: np.ndarray, times: np.ndarray, say: Callable[[float], str], throughout: bool) -> Answers:
    """Returns the groups of outputs that occur.

    Args:
        values: the outputs, sorted.
        times: how often each has been seen.
        say: writes one down.
        throughout: whether some inputs, but not all, have the same output at all scored positions.
    """
    if not len(values):
        return Answers(values, (), np.zeros((0, 0), bool), False)
    number = np.arange(len(values))
    parts = ranges(number.tolist(), MOST, GROUPS)
    names = [f"output: {span(say(values[low]), say(values[high]))}" for low, high in parts]
    member = [(number >= low) & (number <= high) for low, high in parts]
    if len(values) > MOST:
        rarest = np.lexsort((number, times))[: len(values) // GROUPS]
        names += ["output: the least", "output: the greatest", "output: the rarest"]
        member += [number == 0, number == number[-1], np.isin(number, rarest)]
    names += ["output: the same throughout"] * throughout
    return Answers(values, tuple(names), np.stack(member), throughout)


def flat(outputs: Outputs) -> tuple[np.ndarray, np.ndarray]:
    """Returns the scored outputs, rounded if they are numbers, and the row of each."""
    found, scored = outputs
    values = found[scored]
    return (np.round(values, DIGITS) if values.dtype.kind == "f" else values), np.nonzero(scored)[0]


def nearest(values: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Returns the places of the nearest of sorted `values`."""
    if values.dtype.kind != "f":
        return np.searchsorted(values, found).clip(0, len(values) - 1)
    return np.searchsorted((values[1:] + values[:-1]) / 2, found)


def same_throughout(outputs: Outputs) -> np.ndarray:
    """Returns which inputs have two scored positions or more, all with the same output."""
    found, scored = outputs
    high = np.where(scored, found, -np.inf).max(1)
    low = np.where(scored, found, np.inf).min(1)
    return (scored.sum(1) > 1) & (high - low < 10.0**-DIGITS)


def sayer(classes: Sequence[object] | None) -> Callable[[float], str]:
    """Returns what writes an output down: a class by its value, a number by its first digits."""
    if classes is None:
        return lambda value: f"{value:.6g}"
    return lambda code: repr(classes[int(code)])
