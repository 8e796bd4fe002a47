"""Programs that take tokens from fixed positions, to every position or to combine them with every token."""

from collections.abc import Callable

from tracr.rasp.rasp import SOp

from interpbench.tasks.catalogue import task
from interpbench.tasks.programs.ops import constant, indices, length, rasp, select, take, tokens, with_itself
from interpbench.tasks.samplers import last_repeated


@task("broadcast_first", legacy_id=42, vocab="abcdefghij", length=9, attention="causal")
def broadcast_first() -> SOp:
    """The first token, at every position."""
    return take(constant(0, name="first_place"), "first")


@task("broadcast_second", legacy_id=57, vocab="abcdefghij", length=9, attention="bidirectional")
def broadcast_second() -> SOp:
    """The second token, at every position."""
    return take(constant(1, name="second_place"), "second")


@task("mean_of_ends", legacy_id=88, vocab=range(11), length=9, attention="bidirectional")
def mean_of_ends() -> SOp:
    """The mean of the first and the last token, at every position."""
    first_position = select(indices, indices, lambda key, query: key == 0)
    first = rasp.Aggregate(first_position, tokens).named("first")
    opposite = rasp.SequenceMap(lambda i, n: n - i - 1, indices, length(indices)).named("opposite")
    reverse = rasp.Aggregate(select(opposite, indices), tokens).named("reversed")
    last = rasp.Aggregate(first_position, reverse).named("last")
    return rasp.SequenceMap(lambda x, y: (x + y) / 2.0, first, last).named("mean")


def _last_two(combine: Callable[[int, int], int], name: str) -> SOp:
    n = length()
    last = take(rasp.Map(lambda v: v - 1, n).named("last_place"), "last")
    other = take(rasp.Map(lambda v: v - 2, n).named("other_place"), "last_but_one")
    return rasp.SequenceMap(combine, last, other).named(name)


@task(
    "last_two_equal",
    legacy_id=109,
    vocab=range(11),
    length=9,
    attention="bidirectional",
    balance=[last_repeated],
)
def last_two_equal() -> SOp:
    """At every position, 1 if the last two tokens are equal, else 0."""
    return _last_two(lambda x, y: 1 if x == y else 0, "equal")


@task("sum_last_two", legacy_id=117, vocab=range(11), length=9, attention="bidirectional")
def sum_last_two() -> SOp:
    """The sum of the last two tokens, at every position."""
    return _last_two(lambda x, y: x + y, "sum")


@task("last_to_front", legacy_id=111, vocab=range(11), length=9, attention="bidirectional")
def last_to_front() -> SOp:
    """The last token at the first position, 0 at all others."""
    last = take(rasp.Map(lambda n: n - 1, length()).named("last_place"), "last")
    return rasp.SequenceMap(lambda x, i: x if i == 0 else 0, last, indices).named("at_front")


@task("multiple_of_first", legacy_id=116, vocab=range(11), length=10, attention="bidirectional")
def multiple_of_first() -> SOp:
    """Whether a token is a multiple of the first one, as 1 or 0; always 0 if the first one is 0."""
    first = take(constant(0, name="first_place"), "first")
    divides = lambda x, y: (1 if x % y == 0 else 0) if y != 0 else 0
    return rasp.SequenceMap(divides, tokens, first).named("is_multiple")


@task("polynomial_value", legacy_id=119, vocab=range(6), length=4, attention="bidirectional")
def polynomial_value() -> SOp:
    """For the tokens b, x, y, z: x·b² + y·b + z, at every position."""
    total = with_itself(lambda x, y: x - y, tokens).named("total_0")
    base = take(total, "base")
    for j in (1, 2, 3):
        weight = take(constant(j, tokens, f"place_{j}"), f"weight_{j}")
        term = rasp.SequenceMap(lambda x, y, j=j: y * x ** (3 - j), base, weight).named(f"term_{j}")
        total = rasp.SequenceMap(lambda x, y: x + y, total, term).named(f"total_{j}")
    return total


@task("divide_by_ratio", legacy_id=127, vocab=range(11), length=9, attention="bidirectional")
def divide_by_ratio() -> SOp:
    """Each token divided by the second over the first token, or by 1 if one of these is 0."""
    first = take(constant(0, name="first_place"), "first")
    place = rasp.Map(lambda n: 1 if n > 1 else 0, length(indices)).named("second_place")
    ratio = lambda x, y: y / x if x != 0 and y != 0 else 1
    divisor = rasp.SequenceMap(ratio, first, take(place, "second")).named("divisor")
    return rasp.SequenceMap(lambda x, y: x / y, tokens, divisor).named("quotient")
