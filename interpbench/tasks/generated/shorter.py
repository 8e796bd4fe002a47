"""Whether a program of fewer layers has the same outputs.

All programs of one and two layers that random programs are drawn from are compared with it on some inputs:
every output of a head, every function of one variable, and every function of two.
"""

from collections.abc import Iterator
from itertools import product

import numpy as np

from interpbench.causal.model import NONE
from interpbench.tasks.generated.expressions import (
    Changed,
    Combined,
    Counted,
    Expression,
    InputSizes,
    Moved,
    Taken,
)
from interpbench.tasks.generated.growth import FARTHEST
from interpbench.tasks.generated.number_functions import CHANGES, JOINS, PREDICATES, constants

FIRST = 16
"""The number of inputs that all programs are compared on; those that agree are compared on all."""


def shorter_program(program: Expression, inputs: np.ndarray) -> Expression | None:
    """Returns a program of fewer layers, two at most, that answers as this one does; None if there is none.

    Args:
        program: the program.
        inputs: the inputs `[row, pos]` on which answers are compared, where the program has one.
    """
    wanted = program.of(inputs)
    for layers in range(1, min(program.layers, 3)):
        for found in _alike(wanted[:FIRST], inputs[:FIRST], program.setting, layers):
            answers = found.of(inputs)
            if np.array_equal(np.where(wanted == NONE, NONE, answers), wanted):
                return found
    return None


def _alike(wanted: np.ndarray, inputs: np.ndarray, setting: InputSizes, layers: int) -> Iterator[Expression]:
    """Yields the programs of so many layers that answer like this on these inputs."""
    read = read_by(setting, layers)
    values = np.stack([one.of(inputs).ravel() for one in read])
    target = wanted.ravel()
    answered = target != NONE
    values, target = values[:, answered], target[answered]
    same = (values == target).all(1)
    yield from (one for one, equal in zip(read, same) if equal)
    last = 2 * layers
    here = [place for place, one in enumerate(read) if one.half < last]
    for place in here:
        one = read[place]
        for function, constant in changes_of(one):
            if (np.asarray(CHANGES[function].of(values[place], constant, setting.values)) == target).all():
                yield Changed(setting, function, constant, one)
    for function, joining in JOINS.items():
        left = right = np.arange(len(here))
        pairs = np.stack(np.meshgrid(left, right), -1).reshape(-1, 2).astype(np.int32)
        numbers = values[here]
        for sample in range(numbers.shape[1]):
            column = numbers[:, sample]
            made = joining.of(column[pairs[:, 0]], column[pairs[:, 1]], setting.values)
            none = (column[pairs] == NONE).any(1)
            pairs = pairs[(made == target[sample]) & ~none]
        yield from (Combined(setting, function, read[here[a]], read[here[b]]) for a, b in pairs.tolist())


def read_by(setting: InputSizes, layers: int) -> list[Expression]:
    """Returns all that an MLP of a layer, 1 or 2, may read or write, without what is made of it there."""
    tokens = Expression(setting)
    found: list[Expression] = [tokens]
    for layer in range(1, layers + 1):
        if layer > 1:
            before = [one for one in found if one.half < 2 * layer - 2]
            found += [Changed(setting, *told, one) for one in before for told in changes_of(one)]
            found += [
                Combined(setting, function, a, b)
                for function, (a, b) in product(JOINS, product(before, repeat=2))
                if (a.key < b.key or (a.key != b.key and not JOINS[function].symmetric))
            ]
        found += heads_of(setting, found)
    return list({one.key: one for one in found}.values())


def changes_of(one: Expression) -> Iterator[tuple[str, int]]:
    """Yields the functions of one variable, with their constants."""
    for function in CHANGES:
        for constant in constants(function, one.values, one.setting.values):
            yield function, constant


def heads_of(setting: InputSizes, read: list[Expression]) -> list[Expression]:
    """Returns all heads that read some expressions."""
    tokens = Expression(setting)
    sides = (-1,) if setting.causal else (-1, 1)
    offsets = [side * far for side in sides for far in range(1, FARTHEST + 1)]
    found: list[Expression] = [Moved(setting, offset, one) for one in read for offset in offsets]
    found += [Taken(setting, one) for one in read]
    for one, predicate in product(read, PREDICATES):
        found += [Counted(setting, predicate, *pair) for pair in ((one, one), (tokens, one), (one, tokens))]
    return found
