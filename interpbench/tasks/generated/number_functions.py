"""The functions of whole numbers that random programs consist of."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Comparing:
    """A way to compare two numbers.

    Attributes:
        of: the function of arrays.
        words: what it is in words, between the two.
    """

    of: Callable[[Any, Any], Any]
    words: str


PREDICATES: dict[str, Comparing] = {
    "equal": Comparing(np.equal, "equal to"),
    "less": Comparing(np.less, "less than"),
    "more": Comparing(np.greater, "more than"),
    "different": Comparing(np.not_equal, "different from"),
}
"""How a head that counts compares keys with its query."""


@dataclass(frozen=True)
class Joining:
    """A function of two numbers.

    Attributes:
        of: the function of two arrays and the number of tokens.
        words: a template with the words for both.
        symmetric: whether its arguments may be turned.
    """

    of: Callable[[Any, Any, int], Any]
    words: str
    symmetric: bool = True


JOINS: dict[str, Joining] = {
    "equal": Joining(lambda a, b, n: a == b, "whether {} equals {}"),
    "less": Joining(lambda a, b, n: a < b, "whether {} is less than {}", False),
    "larger": Joining(lambda a, b, n: np.maximum(a, b), "the larger of {} and {}"),
    "smaller": Joining(lambda a, b, n: np.minimum(a, b), "the smaller of {} and {}"),
    "sum": Joining(lambda a, b, n: (a + b) % n, "the sum (modulo {n}) of {} and {}"),
    "distance": Joining(lambda a, b, n: np.abs(a - b), "the distance between {} and {}"),
}
CHANGES: dict[str, Joining] = {
    "least": Joining(lambda a, c, n: a >= c, "whether {} is at least {}", False),
    "is": Joining(lambda a, c, n: a == c, "whether {} is {}", False),
    "most": Joining(lambda a, c, n: np.minimum(a, c), "{}, but at most {}", False),
    "plus": Joining(lambda a, c, n: (a + c) % n, "{} plus {} (modulo {n})", False),
}
"""Functions of a number and a constant."""


def constants(function: str, values: tuple[int, ...], modulus: int) -> tuple[int, ...]:
    """Returns the constants with which a function of `CHANGES` makes some values alike, or turns them.

    Args:
        function: the name of the function.
        values: the values, in ascending order.
        modulus: the number of tokens.
    """
    if function == "plus":
        return tuple(range(1, modulus))
    if function == "is":
        return values if len(values) > 2 else ()
    return values[1:] if function == "least" and len(values) > 2 else values[1:-1]
