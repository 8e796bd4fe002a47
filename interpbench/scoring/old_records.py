"""Converts records and leaderboards of earlier versions to the current format, before they are checked."""

from collections.abc import Callable, Mapping
from typing import Any

from interpbench.circuits.ordered_scores import order_of
from interpbench.core.config import Unchecked
from interpbench.core.errors import ScoresError
from interpbench.core.estimate import IntervalKind

Part = dict[str, Any]
"""A mapping in the data of a file that has not been checked yet."""
KINDS: Mapping[str, IntervalKind] = {"auroc": "score", "precision_at_size": "exact"}
"""The kinds of intervals of metrics for which it was not the bootstrap, in earlier versions."""
ESTIMATES = {"faithfulness": ("cpr", "cmd"), "completeness": ("gap", "mean_gap", "least_effect")}
"""The fields of a record's `behaviour` that are estimates."""
METRICS = ("auroc", "average_precision", "precision_at_size", "best_f1", "staircase", "mib_auroc")
"""The metrics of rankings in earlier versions."""


def current_record(old: object, where: object) -> object:
    """Returns a record of version 1, which has no field `version`, in the format of version 2.

    Raises:
        ScoresError: if it is not a record of version 1; the message begins with `where`, its file.
    """
    return _tried(_record, old, where)


def current_rows(old: object, where: object) -> object:
    """Returns the rows of a leaderboard of format 2 in format 3.

    Raises:
        ScoresError: if they are not rows of format 2; the message begins with `where`, their file.
    """
    return _tried(lambda rows: [_row(row) for row in rows], old, where)


def _tried(change: Callable[[Any], object], old: object, where: object) -> object:
    try:
        return change(old)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ScoresError(f"{where} is damaged: it does not have the format of its version") from None


def _record(old: Unchecked) -> Part:
    levels = {name: _level(level) for name, level in _copies(old["levels"])}
    behaviour: Part = dict(old.get("behaviour", {}))
    for part, names in ESTIMATES.items():
        if part in behaviour:
            behaviour[part] = {**behaviour[part], **_estimates(behaviour[part], names)}
    if "ties" in behaviour:
        behaviour["ties"] = bool(behaviour["ties"])
    behaviour["tests"] = {name: _test(test) for name, test in _copies(behaviour.get("tests", {}))}
    behaviour["stability"] = {
        name: {**runs, **_estimates(runs, ("jaccard", "rank_correlation"))}
        for name, runs in _copies(behaviour.get("stability", {}))
    }
    return {
        **old,
        "version": 2,
        "edges": _ordered(old["edges"]),
        "nodes": _ordered(nodes) if (nodes := old.get("nodes")) else None,
        "levels": levels,
        "behaviour": behaviour,
        "cost": old.get("cost") or None,
    }


def _copies(parts: Unchecked) -> list[tuple[str, Part]]:
    return [(name, dict(part)) for name, part in parts.items()]


def _ordered(scores: Mapping[str, float]) -> Part:
    return {"order": order_of(scores), "values": list(scores.values())}


def _level(level: Part) -> Part:
    """Returns the scores at a level with all metrics, and their intervals, in `metrics`."""
    ends: Unchecked = level.pop("intervals", {})
    numbers = {name: level.pop(name, None) for name in METRICS}
    listed = {
        name: value if isinstance(value, list) else [value, *ends.get(name, ())]
        for name, value in numbers.items()
        if value is not None
    }
    return {**level, "metrics": {name: _estimate(value, KINDS.get(name)) for name, value in listed.items()}}


def _estimates(part: Unchecked, names: tuple[str, ...]) -> Part:
    return {name: _estimate(part[name]) for name in names}


def _estimate(old: Any, kind: IntervalKind | None = None) -> list[object] | None:
    """Returns an estimate in the current format: `[value, low, high, kind]`, or only `[value]`."""
    if isinstance(old, Mapping):
        old = [old["value"], old["low"], old["high"]]  # pyright: ignore[reportUnknownVariableType]
    return old if old is None or len(old) == 1 else [*old, kind or "bootstrap"]


def _test(test: Part) -> Part:
    """Returns the result of a test with the statistic and its interval in one field, `statistic`."""
    numbers = [test.pop(name) for name in ("value", "low", "high")]
    return {**test, "statistic": [*numbers, "exact"]}


def _row(old: Unchecked) -> Part:
    faith = old["faithfulness"]
    return {
        **old,
        "levels": {name: _level(level) for name, level in _copies(old["levels"])},
        "faithfulness": {**faith, **_estimates(faith, ("cpr", "cmd"))} if faith else None,
        "completeness": {name: _estimate(three) for name, three in old["completeness"].items()} or None,
        "tests": {
            name: {"passed": test["passed"], "p": test["p"], "statistic": _estimate(test["value"], "exact")}
            for name, test in old["tests"].items()
        },
        "stability": {
            name: {**runs, **_estimates(runs, ("jaccard", "rank_correlation"))}
            for name, runs in old["stability"].items()
        },
    }
