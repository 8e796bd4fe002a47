"""Strata of outputs: inputs with an output in each class or range, or with the least, greatest or rarest."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from interpbench.tasks.stratum import ranges, span

MOST, GROUPS = 16, 8
"""The largest number of different outputs with a stratum each; more are grouped into `GROUPS` ranges."""
DIGITS = 9
"""The number of decimal places to which numerical outputs are rounded before they are compared."""
Outputs = tuple[np.ndarray, np.ndarray]
"""Outputs `[row, pos]`, codes or numbers, and bool `[row, pos]`, at which positions they are scored."""


@dataclass(frozen=True)
class Answers:
    """Groups of a task's outputs; an input belongs to each group that has its output at a scored position.

    Attributes:
        values: the outputs that occur, sorted, as codes or numbers.
        names: the names of the groups.
        member: bool `[group, value]`, which values each group has.
        throughout: whether there is one more group, of inputs with the same output at all scored positions.
    """

    values: np.ndarray
    names: tuple[str, ...]
    member: np.ndarray
    throughout: bool

    def labels(self, outputs: Outputs) -> np.ndarray:
        """Returns bool `[row, group]`, the groups to which inputs with these outputs belong."""
        found, scored = outputs
        if not len(self.values):
            return np.zeros((len(found), 0), bool)
        places = nearest(self.values, np.where(scored, found, self.values[0]))
        labels = [(member[places] & scored).any(1) for member in self.member]
        if self.throughout:
            labels.append(same_throughout(outputs))
        return np.stack(labels, 1)


def group(values: np.ndarray, times: np.ndarray, say: Callable[[float], str], throughout: bool) -> Answers:
    """Returns groups of the outputs that occur.

    Args:
        values: the different outputs, sorted.
        times: the number of times that each of them occurs.
        say: returns an output as text.
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
    """Returns the scored outputs `[n]`, rounded if they are numbers, and the rows `[n]` they are from."""
    found, scored = outputs
    values = found[scored]
    return (np.round(values, DIGITS) if values.dtype.kind == "f" else values), np.nonzero(scored)[0]


def nearest(values: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Returns the indices of those of the sorted `values` that are nearest to `found`."""
    if values.dtype.kind != "f":
        return np.searchsorted(values, found).clip(0, len(values) - 1)
    return np.searchsorted((values[1:] + values[:-1]) / 2, found)


def same_throughout(outputs: Outputs) -> np.ndarray:
    """Returns bool `[row]`, which inputs have two or more scored positions, all with the same output."""
    found, scored = outputs
    high = np.where(scored, found, -np.inf).max(1)
    low = np.where(scored, found, np.inf).min(1)
    return (scored.sum(1) > 1) & (high - low < 10.0**-DIGITS)


def sayer(classes: Sequence[object] | None) -> Callable[[float], str]:
    """Returns a function that gives an output as text: the value of a class, or the digits of a number."""
    if classes is None:
        return lambda value: f"{value:.6g}"
    return lambda code: repr(classes[int(code)])
