"""Programs that sort the sequence, or find its median or maximum in the same way.

They make all keys different by adding a small multiple of the position, rank the keys by counting smaller
ones, and take tokens by rank.
"""

from tracr.rasp.rasp import SOp

from interpbench.tasks.catalogue import task
from interpbench.tasks.programs.ops import indices, length, put, rasp, select, take, tokens
from interpbench.tasks.samplers import one_often, small

WORDS = "J LB TPSI V b no oCLrZaW poiVg".split()


def _sorted(key: SOp) -> SOp:
    rank = rasp.SelectorWidth(select(key, key, lambda k, q: k < q)).named("rank")
    return put(rank, "sorted")


@task("sort_digits", legacy_id=9, vocab=range(10), length=9, attention="bidirectional")
def sort_digits() -> SOp:
    """The digits in ascending order, equal ones in input order."""
    return _sorted(rasp.SequenceMap(lambda t, i: t + i / 10, tokens, indices).named("key"))


@task("sort_integers", legacy_id=59, vocab=range(11), length=9, attention="bidirectional")
def sort_integers() -> SOp:
    """The numbers in ascending order, equal ones in input order."""
    return _sorted(rasp.SequenceMap(lambda v, i: v + i * 0.00001, tokens, indices).named("key"))


@task("sort_words_by_length", legacy_id=22, vocab=WORDS, length=9, attention="bidirectional")
def sort_words_by_length() -> SOp:
    """The words from the shortest to the longest, equally long ones in input order."""
    lengths = rasp.Map(len, tokens).named("word_length")
    return _sorted(rasp.SequenceMap(lambda v, i: v + i / 10, lengths, indices).named("key"))


def _median(key: SOp) -> SOp:
    in_order, n = _sorted(key), length()
    lower = take(rasp.Map(lambda v: (v - 1) // 2, n).named("lower_place"), "lower", in_order)
    upper = take(rasp.Map(lambda v: v // 2, n).named("upper_place"), "upper", in_order)
    return rasp.SequenceMap(lambda x, y: (x + y) / 2, lower, upper).named("median")


@task("median", legacy_id=81, vocab=range(11), length=9, attention="bidirectional", balance=[one_often])
def median() -> SOp:
    """The median of the sequence, at every position."""
    return _median(rasp.SequenceMap(lambda v, i: v + i / 100, tokens, indices).named("key"))


@task(
    "median_fine",
    legacy_id=126,
    vocab=range(11),
    length=9,
    attention="bidirectional",
    balance=[one_often],
    duplicate_of="median",
)
def median_fine() -> SOp:
    """The median of the sequence, at every position, with finer steps between equal tokens."""
    return _median(rasp.SequenceMap(lambda v, i: v + 0.0001 * i, tokens, indices).named("key"))


def _maximum() -> SOp:
    """Returns the largest token: the number of keys that are not larger than its own is the length."""
    key = rasp.SequenceMap(lambda v, i: v + i * 1e-14, tokens, indices).named("key")
    rank = rasp.SelectorWidth(select(key, key, lambda k, q: k <= q)).named("rank")
    return rasp.Aggregate(select(rank, length()), tokens).named("maximum")


@task("broadcast_max", legacy_id=98, vocab=range(11), length=9, attention="bidirectional", balance=[small])
def broadcast_max() -> SOp:
    """The largest token, at every position."""
    return _maximum()


@task("divide_by_max", legacy_id=97, vocab=range(11), length=9, attention="bidirectional", balance=[small])
def divide_by_max() -> SOp:
    """Each token divided by the largest one, 0 if that is 0; the quotients are classes."""
    return rasp.SequenceMap(lambda v, m: v / m if m > 0 else 0, tokens, _maximum()).named("quotient")
