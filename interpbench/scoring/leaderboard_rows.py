"""The rows of a leaderboard, one for each method on each model, and the file that holds them.

This module needs neither torch nor scipy.
"""

import json
from collections.abc import Sequence
from dataclasses import field
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
from interpbench.scoring.evaluation_record import EvaluationRecord, ModelKind, Weights
from interpbench.scoring.old_records import current_rows
from interpbench.scoring.results import (
    Chosen,
    Granularity,
    HypothesisTest,
    LevelScores,
    Numbers,
    Rerun,
    Stability,
    Sufficiency,
    TestName,
    Threshold,
    headline_level,
)

BOARD, FORMAT = "leaderboard.json", 3
"""The name of a leaderboard's file, and the version of its format."""
TRUTH = "truth"
"""The name of the method that returns the true circuit, as an upper bound for the others."""
Headline = Literal["headline"]
HEADLINE_LEVEL: Headline = "headline"
"""The name of the level of detail at which methods are compared on a network (`Truth.headline`)."""


@dataclass(frozen=True, config=STRICT)
class CostRow:
    """The cost of a method.

    Attributes:
        passes: the number of examples in forward and backward passes.
        seconds: the CPU time in seconds; the wall-clock time if CPU time was not measured.
        megabytes: by how much memory rose, in MiB; None if it was not measured.
    """

    passes: Amount
    seconds: Amount
    megabytes: Amount | None


@dataclass(frozen=True, config=STRICT)
class FaithfulnessRow:
    """The faithfulness of the circuits of several sizes.

    Attributes:
        curve: the faithfulness at each size.
        cpr: the area under it.
        cmd: the area between it and 1.
    """

    curve: Annotated[Numbers, Field(min_length=1)]
    cpr: Estimate
    cmd: Estimate


@dataclass(frozen=True, config=STRICT)
class CompletenessRow:
    """The completeness of the circuit of the true size; the fields are as in `Completeness`.

    Attributes:
        gap: the largest difference in faithfulness between circuit and network under knock-outs.
        mean_gap: the mean difference.
        least_effect: the largest change in faithfulness by knocking out the least necessary node.
    """

    gap: Estimate
    mean_gap: Estimate
    least_effect: Estimate


@dataclass(frozen=True, config=STRICT)
class StabilityRow:
    """The agreement of several runs of a method.

    Attributes:
        jaccard: the mean Jaccard index of their circuits; None for a single run.
        rank_correlation: the mean rank correlation of their scores; None for a single run, or if a run gives
            all edges the same score.
        auroc_deviation: the standard deviation of their AUROC at the level of comparison; None if not known.
    """

    jaccard: Estimate | None
    rank_correlation: Estimate | None
    auroc_deviation: Amount | None


@dataclass(frozen=True, config=STRICT)
class LeaderboardRow:
    """The row of an evaluation in a leaderboard, with numbers rounded to about four digits.

    Attributes:
        task: the name of the task.
        program: the task whose program the network was trained on.
        checkpoint: the first digits of the SHA-256 of the network's weights.
        method: the name of the method, with settings that are not the default (`variant`).
        settings: the settings of the method.
        seed: the seed of the evaluation.
        structural: whether allowed nodes and edges counted as required.
        examples: the number of pairs of inputs that the method was given; 0 if it is not known.
        granularity: whether the method scores edges, or nodes alone.
        baseline: whether the method uses neither answers nor gradients.
        budget: the method's training steps as a share of those of its authors; None for a method that does
            not train.
        left_out: the reasons for which comparisons leave the network out; empty if they do not.
        levels: how well the method does at each level of detail; the ROC curve is kept at the level of
            comparison only.
        cost: the cost of the method.
        changed: the share of pairs whose corrupted input changes the network's answer; None if not measured.
        faithfulness: the faithfulness of its circuits; None if not measured.
        completeness: the completeness of its circuit of the true size; None if not measured.
        tests: the results of hypothesis tests of its circuit of the true size.
        stability: the agreement of several runs, by what differs between them.
        headline: the level of comparison; None in rows of earlier versions, for which `at` finds it.
        kinds: the groups of models that the network belongs to; empty in rows of earlier versions.
        sufficiency: what its circuit of the true size does, whose size counts what is required of any order;
            None if not measured, and in rows of earlier versions.
        smallest: the circuit of as many of its best edges as give the network's answers; likewise.
        own: the circuits that the method itself returns, by its threshold.
        recovered: the percentage of the loss that causal scrubbing recovers with its circuit; None if it is
            not known, and in rows of earlier versions.
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
    kinds: tuple[ModelKind, ...] = ()
    sufficiency: Sufficiency | None = None
    smallest: Chosen | None = None
    own: dict[Threshold, Chosen] = field(default_factory=dict[str, Chosen])
    recovered: Estimate | None = None

    def at(self, level: Level | Headline) -> LevelScores:
        """Returns the scores at a level of detail, or with `HEADLINE_LEVEL` at the level of comparison."""
        return self.levels[headline_level(self.headline, self.levels) if level == HEADLINE_LEVEL else level]


@dataclass(frozen=True, config=STRICT)
class BoardFile:
    """The contents of `leaderboard.json`.

    Attributes:
        format: the version of the format.
        missing: the names of released models that were not evaluated.
        rows: the rows.
    """

    format: Literal[3]
    missing: tuple[Annotated[str, Field(max_length=256)], ...]
    rows: tuple[LeaderboardRow, ...]


def variant(method: str, settings: Settings) -> str:
    """Returns the name of a method with settings of its own, as in `exact+direction=both`.

    Args:
        method: the name of the method.
        settings: its settings that are not the default.
    """
    values = {key: value if isinstance(value, str) else json.dumps(value) for key, value in settings.items()}
    return "+".join([method, *(f"{key}={value}" for key, value in values.items())])


def row(record: EvaluationRecord) -> LeaderboardRow:
    """Returns the row of a record in a leaderboard, whose method has its settings in its name."""
    cost, found = record.cost, record.behaviour
    faithful, complete = found.faithfulness, found.completeness
    headline = record.headline_level
    made = LeaderboardRow(
        task=record.task,
        program=record.program or record.task,
        checkpoint=record.checkpoint[:12],
        method=variant(record.method, record.settings),
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
        kinds=tuple(record.kinds),
        sufficiency=found.sufficiency,
        smallest=found.smallest,
        own=found.own,
        recovered=found.recovered,
    )
    return rounded(made)


def _stability(found: Stability, level: Level) -> StabilityRow:
    drawn = found.auroc.get(level)
    return StabilityRow(found.jaccard, found.rank_correlation, None if drawn is None else drawn.deviation)


def rounded(one: LeaderboardRow) -> LeaderboardRow:
    """Returns a row with numbers rounded to about four digits."""
    return checked(LeaderboardRow, _rounded(plain(one)), "a row", ScoresError)


def plain(one: LeaderboardRow) -> dict[str, JsonValue]:
    """Returns a row as plain data."""
    return TypeAdapter(LeaderboardRow).dump_python(one, mode="json")


def _rounded(value: object) -> object:
    """Returns plain data with numbers rounded to four decimals, or if small to three significant digits."""
    if isinstance(value, float):
        return round(value, 4) if abs(value) >= 0.01 else float(f"{value:.3g}")
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}  # pyright: ignore[reportUnknownVariableType]
    return [_rounded(part) for part in value] if isinstance(value, list) else value  # pyright: ignore


def board_text(rows: Sequence[LeaderboardRow], missing: Sequence[str]) -> str:
    """Returns the text of `leaderboard.json`, with one row on each line."""
    lines = ",\n".join(json.dumps(plain(one), separators=(",", ":"), allow_nan=False) for one in rows)
    return f'{{"format": {FORMAT}, "missing": {json.dumps(list(missing))}, "rows": [\n{lines}\n]}}\n'


def read_rows(path: Path) -> tuple[tuple[LeaderboardRow, ...], tuple[str, ...]]:
    """Reads `leaderboard.json`, in format 2 or 3.

    Returns:
        The rows, and the names of released models that were not evaluated.

    Raises:
        ScoresError: if the file is not a leaderboard, or is damaged; the message names the row.
    """
    data = read_json(path, ScoresError)
    version = data.get("format") if isinstance(data, dict) else None  # pyright: ignore
    if version == 1:
        raise ScoresError(
            f"{path} has the format of an older version, with other columns; make the leaderboard again"
        )
    if version not in (2, FORMAT):
        raise ScoresError(f"{path} is not a leaderboard of format {FORMAT}")
    if version == 2:
        data = {**data, "format": FORMAT, "rows": current_rows(data.get("rows"), path)}
    rows = data.get("rows")
    if isinstance(rows, list):
        data = {**data, "rows": [renamed_record(one) for one in rows]}
    found = checked(BoardFile, data, path, ScoresError)
    return found.rows, found.missing
