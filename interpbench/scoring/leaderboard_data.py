"""The leaderboard (`Board`): its rows, and the numbers of its tables and figures, computed from the rows."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from interpbench.circuits.ground_truth import Level
from interpbench.core.estimate import Estimate
from interpbench.scoring.comparison import Comparison, compare_methods, holm, mean_interval, mean_ranks
from interpbench.scoring.evaluation_record import EvaluationRecord
from interpbench.scoring.intervals import percentiles, within
from interpbench.scoring.leaderboard_rows import HEADLINE_LEVEL, TRUTH, Headline, LeaderboardRow, row
from interpbench.scoring.metric import ScoreMetric
from interpbench.scoring.nulls import beats_random, random_null
from interpbench.scoring.ranking_metrics import HEADLINE, auroc
from interpbench.scoring.results import TestName

AVERAGE = "average of random scores"
"""The name under which random scores are compared with methods."""
TRIVIAL = "trivial"
"""The group of models that no mean over other models includes."""


@dataclass(frozen=True)
class Board:
    """A leaderboard: its rows, and the numbers that tables and figures show.

    Models on which all methods score alike (because corruption changes no answer, or no edge is required, or
    none is forbidden) are left out of every mean and comparison; `left_out` gives the reasons. So are trivial
    models, in which a single node computes the output, unless all are: they are a group of their own.

    Attributes:
        rows: one row for each method on each model.
        missing: the names of released models that were not evaluated.
    """

    rows: tuple[LeaderboardRow, ...]
    missing: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        records: Iterable[EvaluationRecord],
        released: Iterable[str] = (),
        earlier: Iterable[LeaderboardRow] = (),
    ) -> "Board":
        """Returns the leaderboard of records, with its rows sorted by task and method.

        Args:
            records: the records of new evaluations.
            released: the names of released models; those without a row are `missing`.
            earlier: the rows of an earlier leaderboard. A row is replaced if there is a new record of its
                method on its model.
        """
        places = {(r.task, r.checkpoint, r.method): r for r in earlier}
        places |= {(r.task, r.checkpoint, r.method): r for r in map(row, records)}
        rows = sorted(places.values(), key=lambda r: (r.task, r.method))
        return cls(tuple(rows), tuple(sorted(set(released) - {r.task for r in rows})))

    @cached_property
    def left_out(self) -> dict[str, tuple[str, ...]]:
        """The models that are left out, each with the reasons."""
        return {self.model(r): r.left_out for r in self.rows if r.left_out}

    @cached_property
    def trivial(self) -> list[str]:
        """The trivial models that are left out of means and comparisons; none if all models are trivial."""
        found = {name for name, kinds in self._kinds.items() if TRIVIAL in kinds} - set(self.left_out)
        others = set(self._kinds) - set(self.left_out) - found
        return sorted(found) if others else []

    @cached_property
    def models(self) -> list[str]:
        """The models on which methods are compared."""
        return sorted({self.model(r) for r in self.rows} - set(self.left_out) - set(self.trivial))

    def of_kind(self, kind: str) -> "Board":
        """Returns the leaderboard of the models of one group; trivial ones only if the group is `trivial`."""
        apart = set[str]() if kind == TRIVIAL else {*self.trivial}
        chosen = {name for name, kinds in self._kinds.items() if kind in kinds and name not in apart}
        return Board(tuple(r for r in self.rows if self.model(r) in chosen))

    @cached_property
    def _kinds(self) -> dict[str, set[str]]:
        """The groups of each model: those of any of its rows, as rows of earlier versions name none."""
        found: dict[str, set[str]] = {}
        for one in self.rows:
            found.setdefault(self.model(one), set()).update(one.kinds)
        return found

    @cached_property
    def with_free_edges(self) -> list[str]:
        """The models on which methods are compared at head edges, as some of their q/k/v edges are free."""
        found = {self.model(r) for r in self.rows if r.at(HEADLINE_LEVEL) is r.at("head_edge")}
        return sorted(found & set(self.models))

    @cached_property
    def programs(self) -> dict[str, str]:
        """The program that each model was trained on; models may share a program."""
        return {self.model(r): r.program for r in self.rows}

    @cached_property
    def methods(self) -> list[str]:
        """The methods, from the best to the worst mean AUROC of edges; the ground truth is left out."""
        means = {name: self.mean(name, HEADLINE) for name in sorted({r.method for r in self.rows} - {TRUTH})}
        return sorted(means, key=lambda name: -(means[name].value if means[name] else -1.0))  # type: ignore[union-attr]

    @cached_property
    def edge_methods(self) -> list[str]:
        """The methods that score edges; for the others, scores of edges are derived from those of nodes."""
        return [m for m in self.methods if self.first(m).granularity == "edge"]

    def first(self, method: str) -> LeaderboardRow:
        """Returns the first row of a method, for what is the same in all its rows, such as `granularity`."""
        return next(r for r in self.rows if r.method == method)

    def compared_at(self, level: Level | Headline | None) -> list[str]:
        """Returns the methods to compare at a level: for nodes all, for edges those that score edges."""
        return self.methods if level == "node" else self.edge_methods

    def best_baseline(self, level: Level | Headline = HEADLINE_LEVEL) -> str | None:
        """Returns the baseline with the highest mean AUROC at a level; None if there are no baselines."""
        found = {m: self.mean(m, auroc.at(level)) for m in self.methods if self.first(m).baseline}
        known = {m: mean.value for m, mean in found.items() if mean}
        return max(known, key=lambda name: known[name]) if known else None

    @cached_property
    def _compared(self) -> set[str]:
        """The names of `models`."""
        return set(self.models)

    @cached_property
    def _several(self) -> set[str]:
        """The tasks for which there are several models."""
        pairs = {(r.task, r.checkpoint) for r in self.rows}
        tasks = [task for task, _ in pairs]
        return {task for task in tasks if tasks.count(task) > 1}

    def model(self, one: LeaderboardRow) -> str:
        """Returns the name of a row's model: its task, and a hash of its weights if the task has several."""
        return f"{one.task} {one.checkpoint[:6]}" if one.task in self._several else one.task

    def values(self, method: str, metric: ScoreMetric) -> dict[str, float]:
        """Returns a method's number on each of the compared models for which it has one."""
        found: dict[str, float] = {}
        for one in self.rows:
            value = metric.of(one) if one.method == method else None
            if value is not None and self.model(one) in self._compared:
                found[self.model(one)] = value.value
        return found

    def mean(self, method: str, metric: ScoreMetric) -> Estimate | None:
        """Returns a method's mean over programs, with the interval of a bootstrap of these, or None."""
        found = self.values(method, metric)
        if not found:
            return None
        return mean_interval(list(found.values()), [self.programs[m] for m in found])

    def passed(self, method: str, test: TestName) -> tuple[int, int]:
        """Returns on how many models a method's circuit passes a hypothesis test, and of how many models."""
        rows = [r for r in self.rows if r.method == method and self.model(r) in self._compared]
        tested = [r.tests[test].passed for r in rows if test in r.tests]
        return sum(tested), len(tested)

    def better_than_random(self, method: str, level: Level | Headline = HEADLINE_LEVEL) -> tuple[int, int]:
        """Returns on how many models a method's AUROC is above random (p < 0.05), and of how many models."""
        sizes = self._sizes(level)
        values = self.values(method, auroc.at(level))
        return sum(beats_random(auroc.name, value, *sizes[m]) < 0.05 for m, value in values.items()), len(
            values
        )

    def null(self, metric: ScoreMetric) -> Estimate | None:
        """Returns the mean over programs of a metric of random scores, with the middle 95 % of that mean.

        It is None if the metric has no null distribution, or there are no models.
        """
        sizes = self._sizes(metric.level) if metric.has_null and metric.level else {}
        if not sizes:
            return None
        rng = np.random.Generator(np.random.PCG64(0))
        each = np.array([rng.permutation(random_null(*size)[metric.name]) for size in sizes.values()])
        draws = within([self.programs[model] for model in sizes], each.T).mean(1)
        return Estimate(float(draws.mean()), *percentiles(draws), "null")

    def _sizes(self, level: Level | Headline) -> dict[str, tuple[int, int]]:
        """Returns the numbers of required and of forbidden nodes or edges of each model."""
        found = {self.model(r): r.at(level) for r in self.rows}
        counts = {model: (one.positives, one.negatives) for model, one in found.items()}
        return {m: counts[m] for m in self.models if all(counts[m])}

    def compare(self, metric: ScoreMetric = HEADLINE) -> list[Comparison]:
        """Compares every two methods on the models for which both have a number."""
        methods = self.compared_at(metric.level)
        return compare_methods({m: self.values(m, metric) for m in methods}, self.programs)

    def against_random(self, level: Level | Headline = HEADLINE_LEVEL) -> list[Comparison]:
        """Compares each method's AUROC with the mean AUROC of random scores on the same models."""
        sizes = self._sizes(level)
        null = {m: float(random_null(*size)[auroc.name].mean()) for m, size in sizes.items()}
        metric = auroc.at(level)
        pairs = [{name: self.values(name, metric), AVERAGE: null} for name in self.compared_at(level)]
        return self._each(pairs)

    def against_baseline(self, level: Level | Headline = HEADLINE_LEVEL) -> list[Comparison]:
        """Compares the AUROC of each other method with that of the best baseline on the same models."""
        metric, best = auroc.at(level), self.best_baseline(level)
        if best is None:
            return []
        others = [name for name in self.compared_at(level) if name != best]
        return self._each(
            [{name: self.values(name, metric), best: self.values(best, metric)} for name in others]
        )

    def _each(self, pairs: Sequence[Mapping[str, Mapping[str, float]]]) -> list[Comparison]:
        """Compares the two methods of each pair; p-values are corrected for the number of pairs."""
        found = [one for pair in pairs for one in compare_methods(pair, self.programs)]
        return [replace(one, adjusted=p) for one, p in zip(found, holm([one.p for one in found]))]

    def ranks(self, metric: ScoreMetric = HEADLINE) -> dict[str, float]:
        """Returns each method's mean rank over programs; 1 is best."""
        values = {m: found for m in self.compared_at(metric.level) if (found := self.values(m, metric))}
        return mean_ranks(values, self.programs)
