"""Programs that compute functions of a token with its position, or with the length of the sequence."""

from collections.abc import Callable, Sequence
from typing import Any

from tracr.rasp.rasp import SOp

from interpbench.tasks.catalogue import task
from interpbench.tasks.programs.ops import indices, length, rasp, tokens, with_itself


def _of_position(
    name: str,
    legacy_id: int,
    description: str,
    function: Callable[[Any, Any], Any],
    prepare: Callable[[int], int] | None = None,
    vocab: Sequence[object] = range(11),
) -> None:
    """Registers a function of token and position, or of token and `prepare(position)`, as a task."""

    @task(name, legacy_id=legacy_id, description=description, vocab=vocab, length=9, attention="causal")
    def _() -> SOp:
        place = indices if prepare is None else rasp.Map(prepare, indices).named("place_kind")
        return rasp.SequenceMap(function, tokens, place).named(name)


_of_position("add_position", 48, "The token plus its position.", lambda v, i: v + i)
_of_position(
    "keep_only_second",
    106,
    "The token at the second position, 0 at all others.",
    lambda v, i: v if i == 1 else 0,
)
_of_position(
    "repeat_by_position",
    26,
    "The letter repeated as often as its place in the sequence, counted from 1.",
    lambda letter, i: letter * (i + 1),
    vocab="abc",
)
_of_position(
    "add_position_parity",
    53,
    "The token, plus one at odd positions.",
    lambda v, odd: v + odd,
    lambda i: i % 2,
)
_of_position(
    "zero_every_third",
    56,
    "The token, but 0 at positions 2, 5, 8 and so on.",
    lambda v, third: 0 if third else v,
    lambda i: 1 if (i + 1) % 3 == 0 else 0,
)
_of_position(
    "zero_even_positions",
    76,
    "The token, but 0 at even positions.",
    lambda v, kind: v if kind == -1 else 0,
    lambda i: 0 if i % 2 == 0 else -1,
)


@task("double_minus_position", legacy_id=15, vocab=range(5), length=4, attention="causal")
def double_minus_position() -> SOp:
    """Twice the token minus its position, computed from growing tuples."""
    pair = with_itself(lambda x, y: (x, y), tokens).named("pair")
    triple = rasp.SequenceMap(lambda xy, i: (*xy, i), pair, indices).named("triple")
    return rasp.Map(lambda t: t[0] + t[1] - t[2], triple).named("result")


@task("double_first_half", legacy_id=45, vocab=range(11), length=9, attention="bidirectional")
def double_first_half() -> SOp:
    """Twice the token in the first half (the middle of an odd length included), else the token."""
    early = rasp.SequenceMap(lambda i, n: 1 if i < n / 2 else 0, indices, length()).named("in_first_half")
    return rasp.SequenceMap(lambda v, first: v * (1 + first), tokens, early).named("result")


@task("halve_second_half", legacy_id=82, vocab=range(11), length=9, attention="bidirectional")
def halve_second_half() -> SOp:
    """Half the token in the second half (the middle of an odd length included), else the token."""
    half = rasp.Map(lambda n: n // 2, length()).named("half_length")
    late = rasp.SequenceMap(lambda i, h: i >= h, indices, half).named("in_second_half")
    return rasp.SequenceMap(lambda v, second: v / 2 if second else v, tokens, late).named("result")


@task("times_length", legacy_id=67, vocab=range(11), length=9, attention="bidirectional")
def times_length() -> SOp:
    """The token times the length of the sequence."""
    return rasp.SequenceMap(lambda v, n: v * n, tokens, length()).named("product")


@task("divide_by_length", legacy_id=71, vocab=range(11), length=9, attention="bidirectional")
def divide_by_length() -> SOp:
    """The token divided by the length of the sequence; the quotients are classes."""
    return rasp.SequenceMap(lambda v, n: v / n if n > 0 else 0, tokens, length()).named("quotient")
