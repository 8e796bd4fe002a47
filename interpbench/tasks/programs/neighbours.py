"""Tokens compared or combined with their neighbours."""

from typing import Any

from interpbench.tasks.catalogue import task
from interpbench.tasks.programs.ops import at_offset, rasp, tokens


@task("trend_to_next", legacy_id=13, vocab=range(3), length=9, attention="bidirectional")
def trend_to_next() -> Any:
    """Whether the next token is larger (increasing), smaller (decreasing) or equal; None at the end."""

    def trend(here: int, following: int) -> str:
        return "increasing" if here < following else "decreasing" if here > following else "constant"

    return rasp.SequenceMap(trend, tokens, at_offset(1, "next")).named("trend")


@task("differs_from_both_neighbours", legacy_id=38, vocab="abc", length=9, attention="bidirectional")
def differs_from_both_neighbours() -> Any:
    """True where a token differs from both neighbours; None at both ends."""
    left = rasp.SequenceMap(lambda x, y: x != y, at_offset(-1, "previous"), tokens).named("differs_left")
    right = rasp.SequenceMap(lambda x, y: x != y, tokens, at_offset(1, "next")).named("differs_right")
    return rasp.SequenceMap(lambda x, y: x and y, left, right).named("differs")


@task("max_with_previous", legacy_id=131, vocab=range(11), length=9, attention="causal")
def max_with_previous() -> Any:
    """The larger of a token and its left neighbour; None at the first position."""
    return rasp.SequenceMap(lambda x, y: int(max(x, y)), tokens, at_offset(-1, "previous")).named("maximum")
