"""Counting: shares of a prefix, multiplicities, frequency classes."""

from typing import Any

from interpbench.tasks.catalogue import task
from interpbench.tasks.programs.ops import length, prefix_mean, rasp, select, tokens


def _indicator(of: str, name: str) -> Any:
    return rasp.numerical(rasp.Map(lambda token: float(token == of), tokens)).named(name)


@task(
    "frac_prevs", legacy_id=3, vocab="abcx", length=4, attention="causal", alignment={"frac_prevs": "a1.h2"}
)
def frac_prevs() -> Any:
    """At each position, the share of tokens so far (inclusive) that equal x."""
    return prefix_mean(_indicator("x", "is_x"), "frac_prevs")


@task("paren_balance", legacy_id=4, vocab="()abc", length=9, attention="causal")
def paren_balance() -> Any:
    """At each position, the share of ( so far minus the share of )."""
    opened = prefix_mean(_indicator("(", "is_open"), "share_open")
    closed = prefix_mean(_indicator(")", "is_close"), "share_closed")
    return rasp.numerical(rasp.LinearSequenceMap(opened, closed, 1, -1)).named("balance")


def _multiplicity() -> Any:
    return rasp.SelectorWidth(select(tokens, tokens, lambda key, query: key == query)).named("count")


@task("hist", legacy_id=7, vocab="abc", length=9, attention="bidirectional")
def hist() -> Any:
    """How often each token occurs in the whole sequence."""
    return _multiplicity()


@task("frequency_class", legacy_id=18, vocab="abcde", length=9, attention="bidirectional")
def frequency_class() -> Any:
    """Whether a token makes up more than half (frequent), more than a quarter (common) or less (rare)."""

    def classify(count: int, total: int) -> str:
        return "frequent" if count > total / 2 else "common" if count > total / 4 else "rare"

    return rasp.SequenceMap(classify, _multiplicity(), length()).named("class")
