"""What records and leaderboards hold as files, all of it checked. Needs neither torch nor scipy."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, with_config
from typing_extensions import TypedDict

from interpbench.circuits.ground_truth import Level
from interpbench.core.config import STRICT, Amount, Finite, Items, MethodName, Share, Steps, TaskName, checked
from interpbench.core.errors import ScoresError
from interpbench.core.files import read_json
from interpbench.core.old_names import renamed_record

BOARD, FORMAT = "leaderboard.json", 2
Row = Mapping[str, Any]
"""What a `BoardRow` is once it has been checked."""
Weights = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{0,80}$")]
"""The SHA-256 of a network's weights, or the beginning of it."""
Place = Annotated[str, Field(pattern=r"^[a-z0-9.<>-]{1,60}$")]
"""The name of a node or an edge."""
Test = Literal["equivalence", "independence", "minimality", "sufficiency", "necessity"]
Numbers = list[Finite]
NotNegative = Annotated[int, Field(ge=0, le=1 << 60)] | Annotated[float, Field(ge=0, allow_inf_nan=False)]


@with_config(STRICT)
class Interval(TypedDict):
    """A number with its 95 % interval."""

    value: Finite
    low: Finite
    high: Finite


@with_config(STRICT)
class Faithful(TypedDict):
    """What `faithfulness` returns."""

    sizes: Numbers
    connected: Numbers
    curve: Numbers
    curve_low: Numbers
    curve_high: Numbers
    cpr: Interval
    cmd: Interval


@with_config(STRICT)
class Complete(TypedDict):
    """What `completeness` returns."""

    nodes: Steps
    sets: Steps
    gap: Interval
    mean_gap: Interval
    least_effect: Interval


@with_config(STRICT)
class Tested(Interval):
    """What one of the hypothesis tests returns."""

    p: Finite
    p_tost: NotRequired[Finite]
    passed: bool


@with_config(STRICT)
class Spread(TypedDict):
    """A mean with a standard deviation."""

    mean: Finite
    deviation: Finite


@with_config(STRICT)
class Stable(TypedDict):
    """How alike several runs of a method are."""

    runs: Steps
    jaccard: Interval | None
    rank_correlation: Interval | None
    auroc: dict[Level, Spread]


@with_config(STRICT)
class Conditions(TypedDict, total=False):
    """What else decides the numbers of an evaluation."""

    examples: Steps
    test_examples: Steps
    thorough: bool
    data: str
    corruption: str | None
    source: str
    samples: Steps
    seeds: Steps
    most_passes: Steps


@with_config(STRICT)
class Behaved(TypedDict, total=False):
    """How the circuits of a ranking behave, as far as it was asked for."""

    changed: Finite
    faithfulness: Faithful
    ties: bool | Steps
    completeness: Complete
    tests: dict[Test, Tested]
    stability: dict[Literal["pairs", "seeds"], Stable]


Granularity = Literal["edge", "node"]
"""At which level a method gives scores of its own."""

Three = Annotated[list[Finite], Field(min_length=1, max_length=3)]
"""A number, or one with the low and the high end of its interval."""


@with_config(STRICT)
class LevelRow(TypedDict):
    """The numbers of one level."""

    positives: Items
    negatives: Items
    auroc: Three | None
    average_precision: Three | None
    precision_at_size: Three | None
    best_f1: Three | None
    staircase: Three | None
    mib_auroc: NotRequired[Three | None]
    roc: NotRequired[list[tuple[Share, Share]]]


@with_config(STRICT)
class LevelRows(TypedDict):
    """The numbers of all levels."""

    node: LevelRow
    head_edge: LevelRow
    qkv_edge: LevelRow


@with_config(STRICT)
class CostRow(TypedDict):
    """What a method cost."""

    passes: Amount
    seconds: Amount
    megabytes: Amount | None


@with_config(STRICT)
class TestRow(TypedDict):
    """One hypothesis test."""

    passed: bool
    p: Finite
    value: Three


@with_config(STRICT)
class StableRow(TypedDict):
    """How alike several runs are."""

    jaccard: Three | None
    rank_correlation: Three | None
    auroc_deviation: Amount | None


@with_config(STRICT)
class BoardRow(TypedDict):
    """A row as `leaderboard.json` has it; what `row` makes."""

    task: TaskName
    program: TaskName
    checkpoint: Weights
    method: MethodName
    settings: dict[str, Any]
    seed: int
    structural: bool
    examples: Steps
    granularity: Granularity
    baseline: bool
    budget: Amount | None
    left_out: list[str]
    levels: LevelRows
    cost: CostRow
    changed: Finite | None
    faithfulness: dict[Literal["cpr", "cmd", "curve"], Annotated[list[Finite], Field(min_length=1)]]
    completeness: dict[Literal["gap", "mean_gap", "least_effect"], Three]
    tests: dict[Test, TestRow]
    stability: dict[Literal["pairs", "seeds"], StableRow]


@with_config(STRICT)
class BoardFile(TypedDict):
    """What `leaderboard.json` holds."""

    format: Literal[2]
    missing: list[Annotated[str, Field(max_length=256)]]
    rows: list[BoardRow]


def read_rows(path: Path) -> tuple[tuple[Row, ...], tuple[str, ...]]:
    """Reads `leaderboard.json`: its rows, and the released models that are missing.

    Raises:
        ScoresError: if it is not one of ours, or damaged, naming the row and what is wrong with it.
    """
    data = read_json(path, ScoresError)
    if isinstance(data, dict) and data.get("format") == 1:  # pyright: ignore[reportUnknownMemberType]
        raise ScoresError(f"{path} was made by an older version, of other columns: make it anew")
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ScoresError(f"{path} is not a leaderboard of format {FORMAT}")
    found = checked(BoardFile, data, path, ScoresError)
    return tuple(map(renamed_record, data["rows"])), tuple(found["missing"])
