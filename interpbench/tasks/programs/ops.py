"""RASP pieces that many programs share."""

from collections.abc import Callable
from typing import Any

import tracr.rasp.rasp

rasp: Any = tracr.rasp.rasp
"""Tracr's RASP, untyped: its values may be anything, so that checkers reject every lambda."""

tokens = rasp.tokens
indices = rasp.indices


def select(keys: Any, queries: Any, predicate: Callable[[Any, Any], bool]) -> Any:
    """Selects the keys for which `predicate(key, query)` holds."""
    return rasp.Select(keys, queries, predicate)


def length(over: Any = tokens) -> Any:
    """The sequence length at every position, counted over `over` (tokens or indices)."""
    return rasp.SelectorWidth(select(over, over, lambda key, query: True)).named("length")


def at_offset(offset: int, name: str) -> Any:
    """The token `offset` places to the right (negative: to the left), None beyond the ends."""
    shifted = select(indices, indices, lambda key, query: key == query + offset)
    return rasp.Aggregate(shifted, tokens).named(name)


def prefix_mean(of: Any, name: str) -> Any:
    """The mean of a numerical sequence up to each position."""
    before = select(indices, indices, lambda key, query: key <= query)
    return rasp.numerical(rasp.Aggregate(before, of, default=0)).named(name)
