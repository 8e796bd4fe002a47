"""Programs that compute shares of tokens in each prefix as numbers, or decide by such shares."""

from string import ascii_lowercase

from tracr.rasp.rasp import SOp

from interpbench.tasks.catalogue import task
from interpbench.tasks.programs.ops import indicator, indices, length, prefix_mean, rasp, select, take
from interpbench.tasks.samplers import balanced, often, shuffled


@task(
    "frac_prevs", legacy_id=3, vocab="abcx", length=4, attention="causal", alignment={"frac_prevs": "a1.h2"}
)
def frac_prevs() -> SOp:
    """At each position, the share of tokens so far (inclusive) that equal x."""
    return prefix_mean(indicator("x", "is_x"), "frac_prevs")


@task(
    "frac_prevs_long",
    legacy_id=39,
    vocab=ascii_lowercase,
    length=59,
    attention="causal",
    balance=[often(ascii_lowercase.index("x"))],
)
def frac_prevs_long() -> SOp:
    """The program of frac_prevs with the whole alphabet and 59 tokens: the share of x so far."""
    return prefix_mean(indicator("x", "is_x"), "frac_prevs")


def _balance(pair: str, suffix: str = "") -> SOp:
    opened = prefix_mean(indicator(pair[0], f"is_open{suffix}"), f"share_open{suffix}")
    closed = prefix_mean(indicator(pair[1], f"is_close{suffix}"), f"share_closed{suffix}")
    return rasp.numerical(rasp.LinearSequenceMap(opened, closed, 1, -1)).named(f"balance{suffix}")


@task("paren_balance", legacy_id=4, vocab="()abc", length=9, attention="causal")
def paren_balance() -> SOp:
    """At each position, the share of ( so far minus the share of )."""
    return _balance("()")


# The codes of ( ) x { } are 0 to 4.
_BALANCED = balanced([(0, 1), (3, 4)], filler=2)


@task(
    "two_brackets_balanced",
    legacy_id=5,
    vocab="()x{}",
    length=9,
    attention="bidirectional",
    balance=[_BALANCED, shuffled(_BALANCED)],
)
def two_brackets_balanced() -> SOp:
    """At every position, whether round and curly brackets are both balanced, crossing allowed."""
    round_ones, curly_ones = _balance("()", "_round"), _balance("{}", "_curly")
    below = [
        rasp.Map(lambda v: v < 0, balance).named(f"below_{kind}")
        for kind, balance in (("round", round_ones), ("curly", curly_ones))
    ]
    either = rasp.SequenceMap(lambda x, y: x or y, *below).named("either_below")
    as_number = rasp.numerical(rasp.Map(lambda x: x, either)).named("either_below_number")
    everywhere = select(indices, indices, lambda key, query: True)
    ever = rasp.numerical(rasp.Aggregate(everywhere, as_number, default=0)).named("share_below")
    level = [
        rasp.Map(lambda v: v == 0, balance).named(f"level_{kind}")
        for kind, balance in (("round", round_ones), ("curly", curly_ones))
    ]
    both = rasp.SequenceMap(lambda x, y: x and y, *level).named("both_level")
    final = take(rasp.Map(lambda n: n - 1, length()).named("last_place"), "level_at_end", both)
    never = rasp.Map(lambda v: not v, ever).named("never_below")
    return rasp.SequenceMap(lambda x, y: x and y, final, never).named("balanced")
