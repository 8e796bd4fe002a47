"""Tokens moved, kept or combined by where they stand."""

from typing import Any

from interpbench.tasks.catalogue import task
from interpbench.tasks.programs.ops import indices, length, rasp, select, tokens


def _equal(key: Any, query: Any) -> bool:
    return key == query


@task("reverse", legacy_id=2, vocab="abcdefghijklmnopqrstuvwxyz", length=9, attention="bidirectional")
def reverse() -> Any:
    """The letters in reverse order."""
    distance = rasp.SequenceMap(lambda n, i: n - i, length(), indices).named("distance")
    opposite = rasp.Map(lambda v: v - 1, distance).named("opposite")
    return rasp.Aggregate(select(indices, opposite, _equal), tokens).named("reverse")


@task("first_occurrences", legacy_id=21, vocab="abc", length=9, attention="causal")
def first_occurrences() -> Any:
    """Each token at its first occurrence, None elsewhere."""
    pairs = rasp.SequenceMap(lambda t, i: (t, i), tokens, indices).named("token_and_position")
    seen = select(pairs, pairs, lambda key, query: key[0] == query[0] and key[1] <= query[1])
    times = rasp.SelectorWidth(seen).named("times_seen")
    place = rasp.SequenceMap(lambda w, i: i if w == 1 else -1, times, indices).named("first_place")
    return rasp.Aggregate(select(place, indices, _equal), tokens).named("first_occurrence")


@task("identity_by_attention", legacy_id=24, vocab="abc", length=9, attention="causal")
def identity_by_attention() -> Any:
    """Copies the input through an attention head."""
    return rasp.Aggregate(select(indices, indices, _equal), tokens).named("copy")


@task("mean_of_ends", legacy_id=88, vocab=range(11), length=9, attention="bidirectional")
def mean_of_ends() -> Any:
    """The mean of the first and the last token, at every position."""
    first_position = select(indices, indices, lambda key, query: key == 0)
    first = rasp.Aggregate(first_position, tokens).named("first")
    opposite = rasp.SequenceMap(lambda i, n: n - i - 1, indices, length(indices)).named("opposite")
    reverse = rasp.Aggregate(select(opposite, indices, _equal), tokens).named("reversed")
    last = rasp.Aggregate(first_position, reverse).named("last")
    return rasp.SequenceMap(lambda x, y: (x + y) / 2.0, first, last).named("mean")
