"""Programs that move tokens between positions, or compare them, in a way that the tokens do not change."""

from collections.abc import Callable
from string import ascii_lowercase

from tracr.rasp.rasp import SOp

from interpbench.tasks.catalogue import task
from interpbench.tasks.programs.ops import indices, length, put, rasp, reversal, select, take, tokens
from interpbench.tasks.samplers import mirrored


@task("reverse", legacy_id=2, vocab=ascii_lowercase, length=9, attention="bidirectional")
def reverse() -> SOp:
    """The letters in reverse order."""
    return reversal("reverse")


@task(
    "equals_mirror",
    legacy_id=17,
    vocab="abcdefghij",
    length=9,
    attention="bidirectional",
    balance=[mirrored],
)
def equals_mirror() -> SOp:
    """True where a token equals the one as far from the other end."""
    return rasp.SequenceMap(lambda x, y: x == y, tokens, reversal("reverse")).named("equals")


@task("identity_by_attention", legacy_id=24, vocab="abc", length=9, attention="causal")
def identity_by_attention() -> SOp:
    """Copies the input through an attention head."""
    return take(indices, "copy")


def _move(
    name: str,
    legacy_id: int,
    description: str,
    source: Callable[[int, int], int],
    length_over: SOp = indices,
    by: Callable[[SOp, str], SOp] = take,
) -> None:
    """Registers a task in which position i of n takes its token from (or moves it to) `source(i, n)`."""

    @task(
        name,
        legacy_id=legacy_id,
        description=description,
        vocab=range(11),
        length=9,
        attention="bidirectional",
    )
    def _() -> SOp:
        return by(rasp.SequenceMap(source, indices, length(length_over)).named("place"), "moved")


_move(
    "mirror_first_half",
    58,
    "The sequence with its second half replaced by the mirror image of the first half.",
    lambda i, n: n - 1 - i if i >= n // 2 else i,
    length_over=tokens,
)
_move(
    "interleave_with_reverse",
    74,
    "Even positions keep their token; odd ones have the token as far from the other end.",
    lambda i, n: i if i % 2 == 0 else n - i if n % 2 == 0 else n - i - 1,
)
_move(
    "swap_pairs_from_second",
    93,
    "Positions 1 and 2, 3 and 4, and so on swapped; the first one, and a last one left over, stay.",
    lambda i, n: i if (i == n - 1 and n % 2 == 0) or i == 0 else i - 1 if i % 2 == 0 else i + 1,
)
_move(
    "swap_pairs",
    103,
    "Positions 0 and 1, 2 and 3, and so on swapped; a last one left over stays.",
    lambda i, n: i if i == n - 1 and n % 2 == 1 else i + 1 if i % 2 == 0 else i - 1,
)
_move(
    "swap_ends",
    128,
    "The first and the last token swapped.",
    lambda i, n: n - 1 if i == 0 else 0 if i + 1 == n else i,
    by=put,
)


@task("swap_first_two", legacy_id=100, vocab=range(11), length=10, attention="bidirectional")
def swap_first_two() -> SOp:
    """The first and the second token swapped."""
    return put(rasp.Map(lambda i: {0: 1, 1: 0}.get(i, i), indices).named("place"), "moved")


@task("swap_halves", legacy_id=120, vocab=range(11), length=9, attention="bidirectional")
def swap_halves() -> SOp:
    """The two halves exchanged; the middle token of an odd length stays."""

    def place(i: int, half: float) -> int:
        if half == int(half):
            return int(i - half if i >= half else i + half)
        if i + 0.5 == half:
            return i
        return i + int(half) + 1 if i < half else i - int(half) - 1

    half = rasp.Map(lambda n: n / 2, length(indices)).named("half")
    return put(rasp.SequenceMap(place, indices, half).named("place"), "moved")


@task("spread_with_zeros", legacy_id=110, vocab=range(11), length=9, attention="bidirectional")
def spread_with_zeros() -> SOp:
    """Even position i has the token of position i / 2, odd positions have 0."""
    half_way = select(indices, indices, lambda key, query: key == int(query / 2))
    spread = rasp.Aggregate(half_way, tokens).named("spread")
    return rasp.SequenceMap(lambda x, i: x if i % 2 == 0 else 0, spread, indices).named("with_zeros")
