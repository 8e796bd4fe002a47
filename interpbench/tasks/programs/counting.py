"""Programs that count equal, larger or smaller tokens in the whole sequence, or decide by such counts."""

from collections.abc import Callable, Sequence
from typing import Any

from tracr.rasp.rasp import SOp

from interpbench.tasks.catalogue import task
from interpbench.tasks.programs.ops import equal, indices, length, multiplicity, put, rasp, select, tokens
from interpbench.tasks.samplers import Edit, one_often


def _count(
    name: str,
    legacy_id: int,
    description: str,
    predicate: Callable[[Any, Any], bool],
    vocab: Sequence[object] = range(11),
    duplicate_of: str | None = None,
    balance: Sequence[Edit] = (),
) -> None:
    """Registers a task that counts, at each token, the keys that satisfy `predicate(key, query)`."""

    @task(
        name,
        legacy_id=legacy_id,
        description=description,
        vocab=vocab,
        length=9,
        attention="bidirectional",
        duplicate_of=duplicate_of,
        balance=balance,
    )
    def _() -> SOp:
        return rasp.SelectorWidth(select(tokens, tokens, predicate)).named("count")


_count("hist", 7, "How often each token occurs in the whole sequence.", equal, "abc", balance=[one_often])
_count("hist_of_letters", 47, "The program of hist on ten letters.", equal, "abcdefghij", "hist", [one_often])
_count(
    "hist_of_letters_again",
    78,
    "The program of hist on ten letters, which is hist_of_letters under another number.",
    equal,
    "abcdefghij",
    "hist",
    [one_often],
)
_count(
    "count_a",
    14,
    "How many tokens are a, at every position.",
    lambda key, query: key == "a",
    "abc",
    balance=[one_often],
)
_count("count_greater", 44, "How many tokens are larger than this one.", lambda key, query: key > query)
_count("count_smaller", 63, "How many tokens are smaller than this one.", lambda key, query: key < query)


@task("frequency_class", legacy_id=18, vocab="abcde", length=9, attention="bidirectional")
def frequency_class() -> SOp:
    """Whether a token makes up more than half (frequent), more than a quarter (common) or less (rare)."""

    def classify(count: int, total: int) -> str:
        return "frequent" if count > total / 2 else "common" if count > total / 4 else "rare"

    return rasp.SequenceMap(classify, multiplicity(), length()).named("class")


@task(
    "relative_frequency", legacy_id=25, vocab="abc", length=9, attention="bidirectional", balance=[one_often]
)
def relative_frequency() -> SOp:
    """How often each token occurs, divided by the length; the quotients are classes."""
    share = lambda count, total: count / total if total > 0 else None
    return rasp.SequenceMap(share, multiplicity(), length()).named("relative_frequency")


@task("rank_ascending", legacy_id=61, vocab=range(11), length=9, attention="bidirectional")
def rank_ascending() -> SOp:
    """One more than the number of smaller tokens; equal tokens share a rank."""
    smaller = rasp.SelectorWidth(select(tokens, tokens, lambda key, query: key < query)).named("smaller")
    return rasp.Map(lambda count: count + 1, smaller).named("rank")


@task("zero_non_unique", legacy_id=96, vocab=range(1, 11), length=9, attention="bidirectional")
def zero_non_unique() -> SOp:
    """Zero for every token that occurs more than once; the others stay."""
    ordinal = rasp.Map(lambda i: i + 1, indices).named("ordinal")
    bounded = rasp.SequenceMap(lambda c, j: c if c <= j else 0, multiplicity(), ordinal).named(
        "bounded_count"
    )
    unique = rasp.Map(lambda count: 1 if count == 1 else 0, bounded).named("is_unique")
    return rasp.SequenceMap(lambda v, flag: v if flag == 1 else 0, tokens, unique).named("unique_tokens")


@task("first_occurrences", legacy_id=21, vocab="abc", length=9, attention="causal")
def first_occurrences() -> SOp:
    """Each token at its first occurrence, None elsewhere."""
    pairs = rasp.SequenceMap(lambda t, i: (t, i), tokens, indices).named("token_and_position")
    seen = select(pairs, pairs, lambda key, query: key[0] == query[0] and key[1] <= query[1])
    times = rasp.SelectorWidth(seen).named("times_seen")
    place = rasp.SequenceMap(lambda w, i: i if w == 1 else -1, times, indices).named("first_place")
    return put(place, "first_occurrence")
