"""Programs that compare or combine tokens with their neighbours."""

from collections.abc import Callable, Sequence
from typing import Any

from tracr.rasp.rasp import SOp

from interpbench.tasks.catalogue import task
from interpbench.tasks.programs.ops import at_offset, indices, length, rasp, select, tokens
from interpbench.tasks.samplers import Edit, containing, repeats

WORDS = "MbJmTPSI SBvrj UDIh Wvgfy bVrp fJsONxK fLBcbfno iVgRV oCLrZaW wwMq".split()


def _with_previous(
    name: str,
    legacy_id: int,
    description: str,
    function: Callable[[Any, Any], Any],
    variable: str,
    vocab: Sequence[object],
    length: int = 9,
    offset: int = -1,
    balance: Sequence[Edit] = (),
) -> None:
    """Registers a function of each token and the one at an offset (None beyond the ends) as a task."""

    @task(
        name,
        legacy_id=legacy_id,
        description=description,
        vocab=vocab,
        length=length,
        attention="causal",
        balance=balance,
    )
    def _() -> SOp:
        return rasp.SequenceMap(function, tokens, at_offset(offset, "previous")).named(variable)


_with_previous(
    "max_with_previous",
    131,
    "The larger of a token and its left neighbour; None at the first position.",
    lambda x, y: int(max(x, y)),
    "maximum",
    range(11),
)
_with_previous(
    "differs_from_previous",
    32,
    "True where a word differs from the one before it; None at the first position.",
    lambda x, y: x != y,
    "differs",
    WORDS,
    balance=[repeats(1)],
)
_with_previous(
    "drop_repeats",
    19,
    "Each token that differs from the one before it; None at repeats and at the first position.",
    lambda x, y: x if x != y else None,
    "kept",
    "abc",
    length=14,
)
_with_previous(
    "equals_two_back",
    1,
    "True where a token equals the one two places earlier; None at the first two positions.",
    lambda x, y: x == y,
    "equals",
    "abcde",
    offset=-2,
    balance=[repeats(2)],
)


@task("zero_if_below_previous", legacy_id=92, vocab=range(11), length=9, attention="causal")
def zero_if_below_previous() -> SOp:
    """Zero where a token is smaller than the one before it, else the token; the first one stays."""
    before = select(indices, indices, lambda k, q: q == k + 1 or (k == 0 and q == 0))
    previous = rasp.Aggregate(before, tokens).named("previous")
    return rasp.SequenceMap(lambda x, y: 0 if x < y else x, tokens, previous).named("kept")


@task("add_previous", legacy_id=118, vocab=range(11), length=9, attention="bidirectional")
def add_previous() -> SOp:
    """The sum of a token and its left neighbour; None at the first position."""
    previous = at_offset(-1, "previous")
    inside = rasp.SequenceMap(lambda x, i: x if i > 0 else 0, previous, indices).named("previous_or_zero")
    return rasp.SequenceMap(lambda x, y: int(x + y), tokens, inside).named("sum")


@task(
    "detect_abc",
    legacy_id=12,
    vocab="abc",
    length=14,
    attention="causal",
    balance=[containing(0, 1, 2)] * 2,
)
def detect_abc() -> SOp:
    """True where the substring abc ends; None at the first two positions."""
    is_a, is_b, is_c = (
        rasp.Map(lambda token, letter=letter: token == letter, tokens).named(f"is_{letter}")
        for letter in "abc"
    )
    a_then_b = rasp.SequenceMap(
        lambda x, y: x and y, at_offset(-2, "a_two_back", is_a), at_offset(-1, "b_before", is_b)
    ).named("ab_before")
    return rasp.SequenceMap(lambda x, y: x and y, a_then_b, is_c).named("abc_ends")


@task("trend_to_next", legacy_id=13, vocab=range(3), length=9, attention="bidirectional")
def trend_to_next() -> SOp:
    """Whether the next token is larger (increasing), smaller (decreasing) or equal; None at the end."""

    def trend(here: int, following: int) -> str:
        return "increasing" if here < following else "decreasing" if here > following else "constant"

    return rasp.SequenceMap(trend, tokens, at_offset(1, "next")).named("trend")


@task("differs_from_both_neighbours", legacy_id=38, vocab="abc", length=9, attention="bidirectional")
def differs_from_both_neighbours() -> SOp:
    """True where a token differs from both neighbours; None at both ends."""
    left = rasp.SequenceMap(lambda x, y: x != y, at_offset(-1, "previous"), tokens).named("differs_left")
    right = rasp.SequenceMap(lambda x, y: x != y, tokens, at_offset(1, "next")).named("differs_right")
    return rasp.SequenceMap(lambda x, y: x and y, left, right).named("differs")


@task("direction_change", legacy_id=6, vocab=range(10), length=9, attention="bidirectional")
def direction_change() -> SOp:
    """True where just one of the steps from the left and to the right neighbour rises; None at both ends."""
    before = rasp.SequenceMap(lambda x, y: y > x, at_offset(-1, "previous"), tokens).named("rises_before")
    after = rasp.SequenceMap(lambda x, y: y > x, tokens, at_offset(1, "next")).named("rises_after")
    return rasp.SequenceMap(lambda x, y: x != y, before, after).named("changes")


def _next() -> SOp:
    """The right neighbour; the last token has itself."""
    place = rasp.SequenceMap(lambda i, n: i if i < n - 1 else i - 1, indices, length(indices))
    after = select(indices, place.named("place"), lambda key, query: key - 1 == query)
    return rasp.Aggregate(after, tokens).named("next")


@task("add_next", legacy_id=99, vocab=range(11), length=9, attention="bidirectional")
def add_next() -> SOp:
    """The sum of a token and its right neighbour; the last token is doubled."""
    return rasp.SequenceMap(lambda x, y: x + y if y != 0 else x, tokens, _next()).named("sum")


@task("next_minus_current", legacy_id=112, vocab=range(11), length=9, attention="bidirectional")
def next_minus_current() -> SOp:
    """The right neighbour minus the token; 0 at the last position."""
    return rasp.SequenceMap(lambda x, y: x - y, _next(), tokens).named("difference")


@task("times_next", legacy_id=115, vocab=range(11), length=9, attention="bidirectional")
def times_next() -> SOp:
    """The product of a token and its right neighbour; the last token is squared."""
    return rasp.SequenceMap(lambda x, y: x * y, tokens, _next()).named("product")
