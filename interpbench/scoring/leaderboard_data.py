"""The board: one compact row for each method on each model, and what is computed from all of them.

Rows are plain data, small enough to be committed; tables and figures are made from nothing else.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from interpbench.core.estimate import Estimate
from interpbench.scoring.comparison import Comparison, compare_methods, holm, mean_interval, mean_ranks
from interpbench.scoring.curves import METRICS, Curve
from interpbench.scoring.evaluation_record import Record
from interpbench.scoring.hypotheses import TESTS
from interpbench.scoring.intervals import percentiles
from interpbench.scoring.nulls import beats_random, random_null
from interpbench.scoring.record_files import Row

TRUTH = "truth"
"""The name under which the true circuit stands beside the methods, as what they could reach."""
AVERAGE = "average of random scores"
DRAWN = "qkv_edge"
"""The level of which ROC curves are kept and drawn."""
HEADLINE = ("levels", DRAWN, "auroc")
Path = Sequence[str]
"""Where in a row a number is, as `("levels", "node", "auroc")`."""


def row(record: Record) -> dict[str, Any]:
    """Returns a record without what only its own page needs; numbers that have an interval as three."""
    return _rounded(_row(record))


def _row(record: Record) -> dict[str, Any]:
    behaviour: Any = record.behaviour
    return {
        "task": record.task,
        "program": record.program or record.task,
        "checkpoint": record.checkpoint[:12],
        "method": record.method,
        "settings": record.settings,
        "seed": record.seed,
        "structural": record.structural,
        "examples": record.conditions.get("examples", 0),
        "granularity": record.granularity,
        "baseline": record.baseline,
        "budget": record.budget,
        "left_out": record.left_out,
        "levels": {level: _level(curve, level == DRAWN) for level, curve in record.levels.items()},
        "cost": {
            "passes": record.cost.get("forward_examples", 0) + record.cost.get("backward_examples", 0),
            "seconds": record.cost.get("cpu_seconds", record.seconds),
            "megabytes": record.cost["peak_bytes"] / 2**20 if "peak_bytes" in record.cost else None,
        },
        "changed": behaviour.get("changed"),
        "faithfulness": {
            name: _three(value) if isinstance(value, Mapping) else value
            for name, value in behaviour.get("faithfulness", {}).items()
            if name in ("cpr", "cmd", "curve")
        },
        "completeness": {
            name: _three(value)
            for name, value in behaviour.get("completeness", {}).items()
            if isinstance(value, Mapping)
        },
        "tests": {
            name: {"passed": one["passed"], "p": one["p"], "value": _three(one)}
            for name, one in behaviour.get("tests", {}).items()
        },
        "stability": {
            name: {
                "jaccard": _three(one["jaccard"]),
                "rank_correlation": _three(one["rank_correlation"]),
                "auroc_deviation": one["auroc"].get("qkv_edge", {}).get("deviation"),
            }
            for name, one in behaviour.get("stability", {}).items()
        },
    }


def _level(curve: Curve, drawn: bool) -> dict[str, Any]:
    numbers: dict[str, Any] = {
        name: None if value is None else [value, *curve.intervals.get(name, ())]
        for name in METRICS
        for value in [getattr(curve, name)]
    }
    if drawn:
        numbers["mib_auroc"] = None if curve.mib_auroc is None else [curve.mib_auroc]
        numbers["roc"] = [list(point) for point in curve.roc]
    return {"positives": curve.positives, "negatives": curve.negatives, **numbers}


def _three(estimate: Any) -> list[float] | None:
    """Returns the three numbers of an `Interval`."""
    return None if estimate is None else [estimate["value"], estimate["low"], estimate["high"]]


def _rounded(value: Any) -> Any:
    """Rounds every number to four significant digits, or four places."""
    if isinstance(value, float):
        return round(value, 4) if abs(value) >= 0.01 else float(f"{value:.3g}")
    if isinstance(value, Mapping):
        return {key: _rounded(part) for key, part in value.items()}
    return [_rounded(part) for part in value] if isinstance(value, list | tuple) else value


@dataclass(frozen=True)
class Board:
    """All rows, and the numbers that tables and figures show.

    Models that cannot tell methods apart (a dead corruption, nothing required or nothing forbidden) are left
    out of every mean and comparison; `left_out` says which and why.
    """

    rows: tuple[Row, ...]
    missing: tuple[str, ...] = ()
    """Released models that were not evaluated."""

    @classmethod
    def of(
        cls, records: Iterable[Record], released: Iterable[str] = (), earlier: Iterable[Row] = ()
    ) -> "Board":
        """Makes the rows of records, in the order of models and methods; says which released are missing.

        Args:
            records: the new results.
            released: names of released models.
            earlier: rows that stay, but for those of a method on a model that is among the records.
        """
        places = {(r["task"], r["checkpoint"], r["method"]): r for r in earlier}
        places |= {(r["task"], r["checkpoint"], r["method"]): r for r in map(row, records)}
        rows = sorted(places.values(), key=lambda r: (r["task"], r["method"]))
        return cls(tuple(rows), tuple(sorted(set(released) - {r["task"] for r in rows})))

    @cached_property
    def left_out(self) -> dict[str, list[str]]:
        """Models that are left out, and why."""
        return {self.model(r): r["left_out"] for r in self.rows if r["left_out"]}

    @cached_property
    def models(self) -> list[str]:
        """The models that are compared on."""
        return sorted({self.model(r) for r in self.rows} - set(self.left_out))

    @cached_property
    def programs(self) -> dict[str, str]:
        """Model to the program that it shares with others, or its own."""
        return {self.model(r): r["program"] for r in self.rows}

    @cached_property
    def methods(self) -> list[str]:
        """The methods, the best mean AUROC at q/k/v edges first; without the truth."""
        means = {
            name: self.mean(name, HEADLINE) for name in sorted({r["method"] for r in self.rows} - {TRUTH})
        }
        return sorted(means, key=lambda name: -(means[name].value if means[name] else -1.0))  # type: ignore[union-attr]

    @cached_property
    def edge_methods(self) -> list[str]:
        """Those of `methods` that score edges; what others say of edges is made of their scores of nodes."""
        return [m for m in self.methods if self.fact(m, "granularity") == "edge"]

    def fact(self, method: str, key: str) -> Any:
        """Returns what a method's first row says under a key."""
        return next(r[key] for r in self.rows if r["method"] == method)

    def compared_at(self, level: str) -> list[str]:
        """Returns the methods that are compared at a level: all at nodes, those that score edges at edges."""
        return self.methods if level == "node" else self.edge_methods

    def best_baseline(self, level: str = DRAWN) -> str | None:
        """Returns the baseline with the best mean AUROC at a level, or None if there is none."""
        found = {
            m: self.mean(m, ("levels", level, "auroc")) for m in self.methods if self.fact(m, "baseline")
        }
        known = {m: mean.value for m, mean in found.items() if mean}
        return max(known, key=lambda name: known[name]) if known else None

    @cached_property
    def _several(self) -> set[str]:
        """Tasks of which there are several models."""
        pairs = {(r["task"], r["checkpoint"]) for r in self.rows}
        tasks = [task for task, _ in pairs]
        return {task for task in tasks if tasks.count(task) > 1}

    def model(self, one: Row) -> str:
        """Returns the name of a row's model: its task, and where there are several a hash of its weights."""
        return f"{one['task']} {one['checkpoint'][:6]}" if one["task"] in self._several else one["task"]

    def values(self, method: str, path: Path) -> dict[str, float]:
        """Returns model to a method's number there, where it has one."""
        found: dict[str, float] = {}
        for one in self.rows:
            value = number(one, path)
            if one["method"] == method and self.model(one) not in self.left_out and value is not None:
                found[self.model(one)] = value
        return found

    def mean(self, method: str, path: Path) -> Estimate | None:
        """Returns a method's mean over models, with a bootstrap that draws programs."""
        found = self.values(method, path)
        if not found:
            return None
        return mean_interval(list(found.values()), [self.programs[m] for m in found])

    def passed(self, method: str, test: str) -> tuple[int, int]:
        """Returns on how many models a method's circuit passes a test, and how many there are."""
        assert test in TESTS
        rows = [r for r in self.rows if r["method"] == method and self.model(r) not in self.left_out]
        tested = [r["tests"][test]["passed"] for r in rows if test in r["tests"]]
        return sum(tested), len(tested)

    def better_than_random(self, method: str, level: str = "qkv_edge") -> tuple[int, int]:
        """Returns on how many models AUROC is above random (p < 0.05), and how many models there are."""
        sizes = self._sizes(level)
        values = self.values(method, ("levels", level, "auroc"))
        return sum(beats_random("auroc", value, *sizes[m]) < 0.05 for m, value in values.items()), len(values)

    def null(self, metric: str, level: str = "qkv_edge") -> Estimate | None:
        """Returns the mean over models of what random scores get, with the middle 95 % of it."""
        sizes = self._sizes(level)
        if not sizes:
            return None
        rng = np.random.Generator(np.random.PCG64(0))
        draws = np.mean([rng.permutation(random_null(*size)[metric]) for size in sizes.values()], axis=0)
        return Estimate(float(draws.mean()), *percentiles(draws), "null")

    def _sizes(self, level: str) -> dict[str, tuple[int, int]]:
        """Returns model to how many are required and forbidden."""
        counts = {
            self.model(r): (r["levels"][level]["positives"], r["levels"][level]["negatives"])
            for r in self.rows
        }
        return {m: counts[m] for m in self.models if all(counts[m])}

    def compare(self, path: Path = HEADLINE) -> list[Comparison]:
        """Compares every two methods on all models."""
        methods = self.compared_at(path[1])
        return compare_methods({m: self.values(m, path) for m in methods}, self.programs)

    def against_random(self, level: str = "qkv_edge") -> list[Comparison]:
        """Compares each method's AUROC with the average of random scores on the same models."""
        sizes = self._sizes(level)
        null = {m: float(random_null(*size)["auroc"].mean()) for m, size in sizes.items()}
        path = ("levels", level, "auroc")
        pairs = [{name: self.values(name, path), AVERAGE: null} for name in self.compared_at(level)]
        return self._each(pairs)

    def against_baseline(self, level: str = DRAWN) -> list[Comparison]:
        """Compares each other method's AUROC with that of the best baseline on the same models."""
        path, best = ("levels", level, "auroc"), self.best_baseline(level)
        if best is None:
            return []
        others = [name for name in self.compared_at(level) if name != best]
        return self._each([{name: self.values(name, path), best: self.values(best, path)} for name in others])

    def _each(self, pairs: Sequence[Mapping[str, Mapping[str, float]]]) -> list[Comparison]:
        """Compares two by two, corrected for their number."""
        found = [one for pair in pairs for one in compare_methods(pair, self.programs)]
        return [replace(one, adjusted=p) for one, p in zip(found, holm([one.p for one in found]))]

    def ranks(self, path: Path = HEADLINE) -> dict[str, float]:
        """Returns each method's mean rank."""
        values = {m: found for m in self.compared_at(path[1]) if (found := self.values(m, path))}
        return mean_ranks(values)


def number(one: Row, path: Path) -> float | None:
    """Returns the number at a path of a row: the value itself, not its interval; None if there is none."""
    value: Any = one
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value[0] if isinstance(value, list) else value
