"""RASP expressions that many programs share."""

import logging
from collections.abc import Callable
from typing import Any

import tracr.rasp.rasp
from tracr.rasp.rasp import Selector, SOp

rasp: Any = tracr.rasp.rasp
"""The RASP of Tracr without types: its values may be anything, so that type checkers reject every lambda."""
tokens: SOp = rasp.tokens
"""The tokens of the sequence."""
indices: SOp = rasp.indices
"""The positions of the sequence, from 0."""


def equal(key: Any, query: Any) -> bool:
    """Returns whether key and query are equal, the most common predicate of a selector."""
    return key == query


def select(keys: SOp, queries: SOp, predicate: Callable[[Any, Any], bool] = equal) -> Selector:
    """Returns the selector of pairs of positions for which a predicate holds.

    Args:
        keys: the values at the positions that are selected.
        queries: the values at the positions that select.
        predicate: a function of a key and a query.
    """
    return rasp.Select(keys, queries, predicate)


def length(over: SOp = tokens) -> SOp:
    """Returns the length of the sequence at every position, counted over `over` (tokens or indices)."""
    return rasp.SelectorWidth(select(over, over, lambda key, query: True)).named("length")


def constant(value: Any, over: SOp = indices, name: str = "constant") -> SOp:
    """Returns an expression with the same value at every position.

    Args:
        value: the value.
        over: the expression that is mapped to it.
        name: the name of the variable.
    """
    return rasp.Map(lambda _: value, over).named(name)


def with_itself(function: Callable[[Any, Any], Any], of: SOp) -> SOp:
    """Returns `function(x, x)` as a SequenceMap, without Tracr's warning that a Map would do."""
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        return rasp.SequenceMap(function, of, of)
    finally:
        logger.setLevel(level)


def at_offset(offset: int, name: str, of: SOp = tokens) -> SOp:
    """Returns the value some positions to the right, None beyond the ends of the sequence.

    Args:
        offset: the number of positions; it is negative for positions to the left.
        name: the name of the variable.
        of: the expression whose values are taken.
    """
    shifted = select(indices, indices, lambda key, query: key == query + offset)
    return rasp.Aggregate(shifted, of).named(name)


def take(place: SOp, name: str, of: SOp = tokens) -> SOp:
    """Returns the value at another position, None if there is no such position.

    Args:
        place: the position to take the value from, at each position.
        name: the name of the variable.
        of: the expression whose values are taken.
    """
    return rasp.Aggregate(select(indices, place), of).named(name)


def put(place: SOp, name: str, of: SOp = tokens) -> SOp:
    """Returns values moved to other positions, None where no value is moved to.

    Args:
        place: the position to which each position's value is moved.
        name: the name of the variable.
        of: the expression whose values are moved.
    """
    return rasp.Aggregate(select(place, indices), of).named(name)


def multiplicity() -> SOp:
    """Returns how often each token occurs in the whole sequence."""
    return rasp.SelectorWidth(select(tokens, tokens)).named("count")


def reversal(name: str) -> SOp:
    """Returns the sequence in reverse order; its length is counted over the tokens."""
    distance = rasp.SequenceMap(lambda n, i: n - i, length(), indices).named("distance")
    opposite = rasp.Map(lambda v: v - 1, distance).named("opposite")
    return take(opposite, name)


def indicator(of: Any, name: str) -> SOp:
    """Returns the number 1 where a token is `of`, else 0."""
    return rasp.numerical(rasp.Map(lambda token: float(token == of), tokens)).named(name)


def prefix_mean(of: SOp, name: str) -> SOp:
    """Returns the mean of a numerical sequence up to each position."""
    before = select(indices, indices, lambda key, query: key <= query)
    return rasp.numerical(rasp.Aggregate(before, of, default=0)).named(name)
