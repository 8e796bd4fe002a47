"""Programs with one output for the whole sequence: every position is checked, and failures are counted."""

from collections.abc import Callable
from typing import Any

from tracr.rasp.rasp import SOp

from interpbench.tasks.catalogue import task
from interpbench.tasks.programs.ops import (
    constant,
    equal,
    indices,
    length,
    multiplicity,
    put,
    rasp,
    select,
    tokens,
)
from interpbench.tasks.samplers import alternating, distinct, even, falling, one_changed, one_often, rising
from interpbench.tasks.samplers import constant as constant_rows


def _previous() -> SOp:
    """Returns the left neighbour of each token; that of the first token is itself."""
    before = select(indices, indices, lambda k, q: k == q - 1 or (k == 0 and q == 0))
    return rasp.Aggregate(before, tokens).named("previous")


def _number(of: Any, value: int, predicate: Callable[[Any, Any], bool] = equal) -> SOp:
    """Returns how many positions of `of` have `value`, or satisfy `predicate` with it."""
    wanted = constant(value, name="wanted")
    return rasp.SelectorWidth(select(of, wanted, predicate)).named("number")


def _none(number: SOp, name: str) -> SOp:
    return rasp.Map(lambda count: 0 if count > 0 else 1, number).named(name)


def _some(number: SOp, name: str) -> SOp:
    return rasp.Map(lambda count: 1 if count > 0 else 0, number).named(name)


@task(
    "is_non_decreasing",
    legacy_id=89,
    vocab=range(11),
    length=10,
    attention="bidirectional",
    balance=[rising, one_changed(rising)],
)
def is_non_decreasing() -> SOp:
    """At every position, 1 if the sequence never falls, else 0."""
    rises = rasp.SequenceMap(lambda x, y: 0 if x > y else 1, _previous(), tokens).named("is_in_order")
    return _none(_number(rises, 0), "non_decreasing")


@task(
    "is_non_increasing",
    legacy_id=94,
    vocab=range(11),
    length=9,
    attention="bidirectional",
    balance=[falling, one_changed(falling)],
)
def is_non_increasing() -> SOp:
    """At every position, 1 if the sequence never rises, else 0."""
    falls = rasp.SequenceMap(lambda x, y: 1 if x >= y else 0, _previous(), tokens).named("is_in_order")
    return _none(_number(falls, 0), "non_increasing")


@task(
    "has_duplicate",
    legacy_id=108,
    vocab=range(11),
    length=9,
    attention="bidirectional",
    balance=[distinct, one_changed(distinct)],
)
def has_duplicate() -> SOp:
    """At every position, 1 if some token occurs twice, else 0."""
    return _some(_number(multiplicity(), 2, lambda key, query: key >= query), "has_duplicate")


@task(
    "all_equal",
    legacy_id=124,
    vocab=range(11),
    length=9,
    attention="bidirectional",
    balance=[constant_rows, one_often],
)
def all_equal() -> SOp:
    """At every position, 1 if all tokens are equal, else 0."""
    others = rasp.SelectorWidth(select(tokens, tokens, lambda key, query: key != query)).named("others")
    return _some(_number(others, 0), "all_equal")


@task(
    "parity_alternates",
    legacy_id=125,
    vocab=range(11),
    length=9,
    attention="bidirectional",
    balance=[alternating, one_changed(alternating)],
)
def parity_alternates() -> SOp:
    """At every position, 1 if even and odd tokens take turns, else 0."""
    beside = select(indices, indices, lambda k, q: q == k + 1 or (k == 1 and q == 0))
    neighbour = rasp.Aggregate(beside, tokens).named("neighbour")
    even = rasp.Map(lambda v: 1 if v % 2 == 0 else 0, neighbour).named("neighbour_is_even")
    odd = rasp.Map(lambda v: 1 if v % 2 == 1 else 0, tokens).named("is_odd")
    alternates = rasp.SequenceMap(lambda x, y: 1 if x == y else 0, even, odd).named("differs_in_parity")
    return _none(_number(alternates, 0), "parity_alternates")


@task(
    "all_even",
    legacy_id=129,
    vocab=range(30),
    length=9,
    attention="bidirectional",
    balance=[even, one_changed(even)],
)
def all_even() -> SOp:
    """At every position, 1 if all tokens are even, else 0."""
    even = rasp.Map(lambda v: 1 if v % 2 == 0 else 0, tokens).named("is_even")
    return _none(_number(even, 0), "all_even")


@task(
    "reverse_if_sorted",
    legacy_id=113,
    vocab=range(30),
    length=9,
    attention="bidirectional",
    balance=[rising, one_changed(rising)],
)
def reverse_if_sorted() -> SOp:
    """The sequence reversed if it never falls, else unchanged."""
    in_order = rasp.SequenceMap(lambda x, y: 1 if x <= y else 0, _previous(), tokens).named("is_in_order")
    sign = rasp.Map(lambda count: 1 if count > 0 else -1, _number(in_order, 0)).named("sign")
    middle = rasp.Map(lambda n: n / 2 - 0.5, length(indices)).named("middle")
    distance = rasp.SequenceMap(lambda i, m: i - m, indices, middle).named("distance")
    turned = rasp.SequenceMap(lambda x, y: x * y, sign, distance).named("turned_distance")
    return put(rasp.SequenceMap(lambda x, y: x + y, middle, turned).named("place"), "moved")
