"""The record of one evaluation: one method on one checkpoint."""

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Literal, TypeGuard

from pydantic import Field, JsonValue, TypeAdapter
from pydantic.dataclasses import dataclass

from interpbench.circuits.ground_truth import LEVELS, Level, State, Truth
from interpbench.circuits.ordered_scores import OrderedScores
from interpbench.core.config import STRICT, Amount, MethodName, Settings, TaskName, checked
from interpbench.core.errors import ScoresError
from interpbench.core.old_names import renamed_record
from interpbench.core.text import shown
from interpbench.scoring.old_records import current_record
from interpbench.scoring.results import (
    CircuitBehaviour,
    Conditions,
    Granularity,
    LevelScores,
    RunCost,
    headline_level,
)

VERSION = 2
Weights = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{0,80}$")]
"""The SHA-256 of a network's weights, or the beginning of it."""


@dataclass(frozen=True, config=STRICT)
class EvaluationRecord:
    """What is kept of an evaluation, as JSON beside the pictures.

    Attributes:
        task: name of the task.
        checkpoint: where the model came from.
        method: name of the method, with its `settings`.
        structural: whether allowed nodes and edges counted as positives.
        levels: node, head_edge and qkv_edge to how well the method does there.
        cost: what the method spent; None for scores that were read from a file.
        seconds: wall-clock time of the method alone.
        edges: the scores of q/k/v edges, in the order of the graph's.
        nodes: the scores of nodes, in the order of the graph's.
        program: the task whose program it is, the same for tasks that share one.
        conditions: what else decides the numbers (examples, data, the hash of a user's own method, …); an
            evaluation is not repeated while weights, method, settings, seed and these are the same.
        left_out: why comparisons leave this model out, if they do.
        behaviour: faithfulness, completeness, hypothesis tests and stability, as far as they were asked for.
        granularity: whether the method scores edges, or nodes alone.
        baseline: whether it looks at neither answers nor gradients.
        budget: which share of its authors' steps of training it took; None for a method that does not train.
        version: of the form of records.
        headline: the level at which methods are compared on this model (`Truth.headline`); None in records of
            earlier versions, for which `headline_level` finds it.
    """

    task: TaskName
    checkpoint: Weights
    method: MethodName
    settings: Settings
    seed: int
    structural: bool
    levels: Mapping[Level, LevelScores]
    cost: RunCost | None
    seconds: Amount
    edges: OrderedScores
    nodes: OrderedScores | None = None
    program: TaskName | Literal[""] = ""
    conditions: Conditions = Conditions()
    left_out: list[str] = field(default_factory=list[str])
    behaviour: CircuitBehaviour = CircuitBehaviour()
    granularity: Granularity = "edge"
    baseline: bool = False
    budget: Amount | None = None
    version: Literal[2] = VERSION
    headline: Level | None = None

    @property
    def headline_level(self) -> Level:
        """The level at which the method is compared with others on this model."""
        return headline_level(self.headline, self.levels)

    @property
    def cpu_seconds(self) -> float | None:
        """CPU seconds of the method alone; None for scores that were read from a file.

        An old record that lacks them gives its wall-clock seconds instead.
        """
        if self.cost is None:
            return None
        return self.seconds if self.cost.cpu_seconds is None else self.cost.cpu_seconds

    def to_json(self) -> dict[str, JsonValue]:
        """Returns plain data."""
        return TypeAdapter(EvaluationRecord).dump_python(self, mode="json")

    @classmethod
    def from_json(cls, data: object, where: object = "a record") -> "EvaluationRecord":
        """Reads what `to_json` wrote, in this version or in an earlier one.

        Raises:
            ScoresError: one line that begins with `where`, if anything is missing, unknown or ill-typed.
        """
        if isinstance(data, dict) and (unknown := set(data) - set(cls.__dataclass_fields__)):  # pyright: ignore
            raise ScoresError(f"{where} is of another version: unknown key {shown(min(map(str, unknown)))!r}")
        if is_record(data) and "version" not in data:
            data = current_record(data, where)
        record = checked(cls, renamed_record(data), where, ScoresError)
        if missing := [level for level in LEVELS if level not in record.levels]:
            raise ScoresError(f"{where} is damaged: levels.{missing[0]}: required, but missing")
        return record


def is_record(data: object) -> TypeGuard[Mapping[str, object]]:
    """Returns whether plain data, damaged or not, is meant to be a record of an evaluation."""
    return isinstance(data, dict) and {"method", "checkpoint", "levels", "edges"} <= set(data)  # pyright: ignore


def degenerate(truth: Truth) -> list[str]:
    """Says at which levels there is nothing to tell apart: no required or no forbidden node or edge."""
    said: list[str] = []
    for level in LEVELS:
        states = truth.at(level)[1:] if level == "node" else truth.at(level)
        for state in (State.REQUIRED, State.FORBIDDEN):
            if not (states == state).any():
                said.append(f"no {state.name.lower()} {level.replace('_', ' ').replace('qkv', 'q/k/v')}")
    return said
