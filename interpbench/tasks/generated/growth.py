"""Growth of random expressions: from the output back to the tokens."""

from dataclasses import dataclass

import numpy as np

from interpbench.tasks.generated.expressions import (
    Changed,
    Combined,
    Counted,
    Expression,
    InputSizes,
    Moved,
    Taken,
)
from interpbench.tasks.generated.number_functions import CHANGES, JOINS, PREDICATES, constants

FARTHEST = 2
"""The largest number of positions that a value is moved by."""


@dataclass(frozen=True)
class OperationShares:
    """How often each kind of operation is drawn, relative to the others, and what its arguments are.

    Attributes:
        moves: the weight of heads that move values by some positions.
        counts: the weight of heads that count.
        takes: the weight of heads that take the token at a place.
        joins: the share of MLPs that join two variables; the others change one.
        again: the share of arguments that may be of any earlier layer, or be the tokens. The others are of
            the layer before.
    """

    moves: float
    counts: float
    takes: float
    joins: float
    again: float


class Growth:
    """Draws expressions of a given depth.

    Args:
        setting: what all expressions have in common.
        shares: how often each kind of operation is drawn.
        rng: the random generator.
    """

    def __init__(self, setting: InputSizes, shares: OperationShares, rng: np.random.Generator):
        self.setting, self.shares, self.rng = setting, shares, rng
        self.tokens = Expression(setting)

    def __call__(self, layers: int) -> Expression:
        """Returns an expression of about so many layers; those of its parts decide."""
        head = self._head(layers)
        if isinstance(head, Counted) and self.rng.random() < 0.5:
            return head
        if self.rng.random() >= self.shares.joins:
            return self._change(head)
        return self._join(head, self._beside(head, layers))

    def _beside(self, other: Expression, layers: int) -> Expression:
        """Returns an argument beside another one: the tokens, or a head of any layer up to this."""
        below = int(self.rng.integers(layers + 1))
        found = self._head(below) if below else self.tokens
        return self.tokens if found.key == other.key else found

    def _below(self, layers: int) -> Expression:
        """Returns an argument of the layer before, or of any earlier one."""
        if layers > 1 and self.rng.random() < self.shares.again:
            layers = int(self.rng.integers(1, layers))
        return self.tokens if layers <= 1 else self(layers - 1)

    def _head(self, layers: int) -> Expression:
        weights = np.array([self.shares.moves, self.shares.counts, self.shares.takes])
        kind = self.rng.choice(3, p=weights / weights.sum())
        read = self._below(layers)
        if kind == 0:
            sides = (-1,) if self.setting.causal else (-1, 1)
            offset = int(self.rng.choice(sides) * self.rng.integers(1, FARTHEST + 1))
            return Moved(self.setting, offset, read)
        if kind == 1:
            predicate = str(self.rng.choice(list(PREDICATES)))
            asked = self.rng.integers(3)
            keys = self.tokens if asked == 1 else read
            queries = self.tokens if asked == 2 else read
            return Counted(self.setting, predicate, keys, queries)
        return Taken(self.setting, read)

    def _change(self, read: Expression) -> Expression:
        chosen = {name: constants(name, read.values, self.setting.values) for name in CHANGES}
        function = str(self.rng.choice([name for name, there in chosen.items() if there]))
        return Changed(self.setting, function, int(self.rng.choice(chosen[function])), read)

    def _join(self, first: Expression, second: Expression) -> Expression:
        pair = [first, second] if self.rng.random() < 0.5 else [second, first]
        return Combined(self.setting, str(self.rng.choice(list(JOINS))), *pair)
