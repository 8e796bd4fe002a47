"""The rows of a leaderboard: one for each method on each model, small enough to be committed.

Needs neither torch nor scipy.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, JsonValue, TypeAdapter
from pydantic.dataclasses import dataclass

from interpbench.circuits.ground_truth import Level
from interpbench.core.config import STRICT, Amount, Finite, MethodName, Settings, Steps, TaskName, checked
from interpbench.core.errors import ScoresError
from interpbench.core.estimate import Estimate
from interpbench.core.files import read_json
from interpbench.core.old_names import renamed_record
from interpbench.scoring.evaluation_record import EvaluationRecord, Weights
from interpbench.scoring.old_records import current_rows
from interpbench.scoring.results import (
    Granularity,
    HypothesisTest,
    LevelScores,
    Numbers,
    Rerun,
    Stability,
    TestName,
    headline_level,
)

BOARD, FORMAT = "leaderboard.json", 3
TRUTH = "truth"
"""The name under which the true circuit stands beside the methods, as what they could reach."""
Headline = Literal["headline"]
HEADLINE_LEVEL: Headline = "headline"
"""Stands for the level at which methods are compared on a model: see `Truth.headline`."""


@dataclass(frozen=True, config=STRICT)
class CostRow:
    """What a method cost: passes of one example, CPU seconds, and how far memory rose."""

    passes: Amount
    seconds: Amount
    megabytes: Amount | None


@dataclass(frozen=True, config=STRICT)
class FaithfulnessRow:
    """Faithfulness of each size, and its two areas."""

    curve: Annotated[Numbers, Field(min_length=1)]
    cpr: Estimate
    cmd: Estimate


@dataclass(frozen=True, config=STRICT)
class CompletenessRow:
    """How complete the circuit of the true size is."""

    gap: Estimate
    mean_gap: Estimate
    least_effect: Estimate


@dataclass(frozen=True, config=STRICT)
class StabilityRow:
    """How alike several runs are."""

    jaccard: Estimate | None
    rank_correlation: Estimate | None
    auroc_deviation: Amount | None


@dataclass(frozen=True, config=STRICT)
class LeaderboardRow:
    """What a leaderboard keeps of an evaluation; every number has four digits.

    Attributes:
        checkpoint: the beginning of the SHA-256 of the weights.
        examples: pairs of inputs that the method saw.
        levels: with the ROC curve of the level of comparison alone.
        headline: that level; None in rows of earlier versions, for which `at` finds it.
        others: as in an `EvaluationRecord`.
    """

    task: TaskName
    program: TaskName
    checkpoint: Weights
    method: MethodName
    settings: Settings
    seed: int
    structural: bool
    examples: Steps
    granularity: Granularity
    baseline: bool
    budget: Amount | None
    left_out: tuple[str, ...]
    levels: dict[Level, LevelScores]
    cost: CostRow
    changed: Finite | None
    faithfulness: FaithfulnessRow | None
    completeness: CompletenessRow | None
    tests: dict[TestName, HypothesisTest]
    stability: dict[Rerun, StabilityRow]
    headline: Level | None = None

    def at(self, level: Level | Headline) -> LevelScores:
        """Returns the scores of a level, or of the level of comparison."""
        return self.levels[headline_level(self.headline, self.levels) if level == HEADLINE_LEVEL else level]


@dataclass(frozen=True, config=STRICT)
class BoardFile:
    """What `leaderboard.json` holds."""

    format: Literal[3]
    missing: tuple[Annotated[str, Field(max_length=256)], ...]
    rows: tuple[LeaderboardRow, ...]


def row(record: EvaluationRecord) -> LeaderboardRow:
    """Returns what a leaderboard keeps of a record."""
    cost, found = record.cost, record.behaviour
    faithful, complete = found.faithfulness, found.completeness
    headline = record.headline_level
    made = LeaderboardRow(
        task=record.task,
        program=record.program or record.task,
        checkpoint=record.checkpoint[:12],
        method=record.method,
        settings=record.settings,
        seed=record.seed,
        structural=record.structural,
        examples=record.conditions.examples or 0,
        granularity=record.granularity,
        baseline=record.baseline,
        budget=record.budget,
        left_out=tuple(record.left_out),
        levels={
            level: LevelScores(
                one.positives, one.negatives, one.metrics, one.roc if level == headline else ()
            )
            for level, one in record.levels.items()
        },
        cost=CostRow(
            0 if cost is None else cost.forward_examples + cost.backward_examples,
            record.seconds if record.cpu_seconds is None else record.cpu_seconds,
            None if cost is None or cost.peak_bytes is None else cost.peak_bytes / 2**20,
        ),
        changed=found.changed,
        faithfulness=faithful and FaithfulnessRow(faithful.curve, faithful.cpr, faithful.cmd),
        completeness=complete and CompletenessRow(complete.gap, complete.mean_gap, complete.least_effect),
        tests=found.tests,
        stability={name: _stability(one, headline) for name, one in found.stability.items()},
        headline=headline,
    )
    return checked(LeaderboardRow, _rounded(plain(made)), "a row", ScoresError)


def _stability(found: Stability, level: Level) -> StabilityRow:
    drawn = found.auroc.get(level)
    return StabilityRow(found.jaccard, found.rank_correlation, None if drawn is None else drawn.deviation)


def plain(one: LeaderboardRow) -> dict[str, JsonValue]:
    """Returns a row as plain data."""
    return TypeAdapter(LeaderboardRow).dump_python(one, mode="json")


def _rounded(value: object) -> object:
    """Rounds every number to four significant digits, or four places."""
    if isinstance(value, float):
        return round(value, 4) if abs(value) >= 0.01 else float(f"{value:.3g}")
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}  # pyright: ignore[reportUnknownVariableType]
    return [_rounded(part) for part in value] if isinstance(value, list) else value  # pyright: ignore


def board_text(rows: Sequence[LeaderboardRow], missing: Sequence[str]) -> str:
    """Returns `leaderboard.json`, a row on each line."""
    lines = ",\n".join(json.dumps(plain(one), separators=(",", ":"), allow_nan=False) for one in rows)
    return f'{{"format": {FORMAT}, "missing": {json.dumps(list(missing))}, "rows": [\n{lines}\n]}}\n'


def read_rows(path: Path) -> tuple[tuple[LeaderboardRow, ...], tuple[str, ...]]:
    """Reads `leaderboard.json`, of format 2 or 3: its rows, and the released models that are missing.

    Raises:
        ScoresError: if it is not one of ours, or damaged, naming the row and what is wrong with it.
    """
    data = read_json(path, ScoresError)
    version = data.get("format") if isinstance(data, dict) else None  # pyright: ignore
    if version == 1:
        raise ScoresError(f"{path} was made by an older version, of other columns: make it anew")
    if version not in (2, FORMAT):
        raise ScoresError(f"{path} is not a leaderboard of format {FORMAT}")
    if version == 2:
        data = {**data, "format": FORMAT, "rows": current_rows(data.get("rows"), path)}
    rows = data.get("rows")
    if isinstance(rows, list):
        data = {**data, "rows": [renamed_record(one) for one in rows]}
    found = checked(BoardFile, data, path, ScoresError)
    return found.rows, found.missing
