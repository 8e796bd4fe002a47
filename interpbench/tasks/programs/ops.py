"""RASP pieces that many programs share."""

import logging
from collections.abc import Callable
from typing import Any

import tracr.rasp.rasp
from tracr.rasp.rasp import Selector, SOp

rasp: Any = tracr.rasp.rasp
"""Tracr's RASP, untyped: its values may be anything, so that checkers reject every lambda."""

tokens: SOp = rasp.tokens
indices: SOp = rasp.indices


def equal(key: Any, query: Any) -> bool:
    """The commonest predicate of a selector."""
    return key == query


def select(keys: SOp, queries: SOp, predicate: Callable[[Any, Any], bool] = equal) -> Selector:
    """Selects the keys for which `predicate(key, query)` holds."""
    return rasp.Select(keys, queries, predicate)


def length(over: SOp = tokens) -> SOp:
    """The sequence length at every position, counted over `over` (tokens or indices)."""
    return rasp.SelectorWidth(select(over, over, lambda key, query: True)).named("length")


def constant(value: Any, over: SOp = indices, name: str = "constant") -> SOp:
    """The same value everywhere, whatever `over` is."""
    return rasp.Map(lambda _: value, over).named(name)


def with_itself(function: Callable[[Any, Any], Any], of: SOp) -> SOp:
    """`function(x, x)` as a step with two inputs, without Tracr's advice to use one with a single input."""
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        return rasp.SequenceMap(function, of, of)
    finally:
        logger.setLevel(level)


def at_offset(offset: int, name: str, of: SOp = tokens) -> SOp:
    """The value `offset` places to the right (negative: to the left), None beyond the ends."""
    shifted = select(indices, indices, lambda key, query: key == query + offset)
    return rasp.Aggregate(shifted, of).named(name)


def take(place: SOp, name: str, of: SOp = tokens) -> SOp:
    """Each position fetches the value at the position that `place` says, None if there is none."""
    return rasp.Aggregate(select(indices, place), of).named(name)


def put(place: SOp, name: str, of: SOp = tokens) -> SOp:
    """Each position sends its value to the position that `place` says, None where nothing arrives."""
    return rasp.Aggregate(select(place, indices), of).named(name)


def multiplicity() -> SOp:
    """How often each token occurs in the whole sequence."""
    return rasp.SelectorWidth(select(tokens, tokens)).named("count")


def reversal(name: str) -> SOp:
    """The sequence read backwards; its length is counted over the tokens."""
    distance = rasp.SequenceMap(lambda n, i: n - i, length(), indices).named("distance")
    opposite = rasp.Map(lambda v: v - 1, distance).named("opposite")
    return take(opposite, name)


def indicator(of: Any, name: str) -> SOp:
    """The number 1 where a token is `of`, else 0."""
    return rasp.numerical(rasp.Map(lambda token: float(token == of), tokens)).named(name)


def prefix_mean(of: SOp, name: str) -> SOp:
    """The mean of a numerical sequence up to each position."""
    before = select(indices, indices, lambda key, query: key <= query)
    return rasp.numerical(rasp.Aggregate(before, of, default=0)).named(name)
