"""The record of an evaluation of one method on one checkpoint."""

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
"""The version of the format of records that is written."""
Weights = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{0,80}$")]
"""The SHA-256 of a network's weights, or the first digits of it."""

ModelKind = Annotated[str, Field(pattern=r"^[a-z_]{1,40}$")]
"""The name of a group of models."""


@dataclass(frozen=True, config=STRICT)
class EvaluationRecord:
    """The record of an evaluation, which is stored as JSON.

    Attributes:
        task: the name of the task.
        checkpoint: the SHA-256 of the network's weights, or the first digits of it.
        method: the name of the method.
        settings: the settings of the method.
        seed: the seed of the evaluation.
        structural: whether allowed nodes and edges counted as required.
        levels: for each level of detail (`node`, `head_edge`, `qkv_edge`), how well the method does at it.
        cost: the cost of the method; None for scores that were read from a file.
        seconds: the wall-clock time of the method alone.
        edges: the scores of q/k/v edges, in the order of the graph's edges.
        nodes: the scores of nodes, in the order of the graph's nodes; None if they were not recorded.
        program: the task whose program the network was trained on; tasks may share a program.
        conditions: whatever else decides the numbers, such as the number of examples. An evaluation is not
            repeated while weights, method, settings, seed and conditions are the same.
        left_out: the reasons for which comparisons leave the network out; empty if they do not.
        behaviour: faithfulness, completeness, hypothesis tests and stability, if they were asked for.
        granularity: whether the method scores edges, or nodes alone.
        baseline: whether the method uses neither answers nor gradients.
        budget: the method's training steps as a share of those of its authors; None for a method that does
            not train.
        version: the version of the format of records.
        headline: the level of detail at which methods are compared on this network (`Truth.headline`); None
            in records of earlier versions, for which `headline_level` finds it.
        kinds: the groups of models that the network belongs to, such as `trivial` and `deep`; empty in
            records of earlier versions.
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
    kinds: list[ModelKind] = field(default_factory=list[ModelKind])

    @property
    def headline_level(self) -> Level:
        """The level of detail at which methods are compared on this network."""
        return headline_level(self.headline, self.levels)

    @property
    def cpu_seconds(self) -> float | None:
        """The CPU time of the method alone, in seconds; None for scores that were read from a file.

        For a record of an earlier version without it, it is the wall-clock time.
        """
        if self.cost is None:
            return None
        return self.seconds if self.cost.cpu_seconds is None else self.cost.cpu_seconds

    def to_json(self) -> dict[str, JsonValue]:
        """Returns the record as plain data, as in its JSON file."""
        return TypeAdapter(EvaluationRecord).dump_python(self, mode="json")

    @classmethod
    def from_json(cls, data: object, where: object = "a record") -> "EvaluationRecord":
        """Reads a record from plain data, as `to_json` of this version or of an earlier one returns it.

        Args:
            data: the plain data.
            where: the name of the file, with which an error message begins.

        Raises:
            ScoresError: if anything is missing, unknown or ill-typed.
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
    """Returns whether plain data, which may be damaged, looks like the record of an evaluation."""
    return isinstance(data, dict) and {"method", "checkpoint", "levels", "edges"} <= set(data)  # pyright: ignore


def degenerate(truth: Truth) -> list[str]:
    """Returns, in words, at which levels of detail there is no required, or no forbidden, node or edge."""
    said: list[str] = []
    for level in LEVELS:
        states = truth.at(level)[1:] if level == "node" else truth.at(level)
        for state in (State.REQUIRED, State.FORBIDDEN):
            if not (states == state).any():
                said.append(f"no {state.name.lower()} {level.replace('_', ' ').replace('qkv', 'q/k/v')}")
    return said
