"""The record of one evaluation: one method on one checkpoint."""

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np

from interpbench.circuits.ground_truth import LEVELS, Level, State, Truth
from interpbench.circuits.naming import edge_name
from interpbench.circuits.scores import Scores
from interpbench.core.config import Amount, Finite, MethodName, TaskName, checked
from interpbench.core.errors import ScoresError
from interpbench.core.old_names import renamed_record
from interpbench.core.text import shown
from interpbench.scoring.curves import Curve, score, to_json
from interpbench.scoring.mib import mib_auroc
from interpbench.scoring.record_files import Behaved, Conditions, Granularity, NotNegative, Place, Weights

MOST_ITEMS = 50_000


@dataclass(frozen=True)
class Record:
    """What is kept of an evaluation, as JSON beside the pictures.

    Attributes:
        task: name of the task.
        checkpoint: where the model came from.
        method: name of the method, with its `settings`.
        structural: whether allowed nodes and edges counted as positives.
        levels: node, head_edge and qkv_edge to their curves.
        cost: forward and backward calls and examples; `peak_bytes` where it could be measured.
        seconds: wall-clock time of the method alone.
        edges: edge name to score, at q/k/v level.
        nodes: node name to score.
        program: the task whose program it is, the same for tasks that share one.
        conditions: what else decides the numbers (examples, data, the hash of a user's own method, …); an
            evaluation is not repeated while weights, method, settings, seed and these are the same.
        left_out: why comparisons leave this model out, if they do.
        behaviour: faithfulness, completeness, hypothesis tests and stability, as far as they were asked for.
        granularity: whether the method scores edges, or nodes alone.
        baseline: whether it looks at neither answers nor gradients.
        budget: which share of its authors' steps of training it took; None for a method that does not train.
    """

    task: TaskName
    checkpoint: Weights
    method: MethodName
    settings: dict[str, Any]
    seed: int
    structural: bool
    levels: dict[Level, Curve]
    cost: dict[str, NotNegative]
    seconds: Amount
    edges: dict[Place, Finite]
    nodes: dict[Place, Finite] = field(default_factory=dict[str, float])
    program: TaskName | Literal[""] = ""
    conditions: Conditions = field(default_factory=Conditions)
    left_out: list[str] = field(default_factory=list[str])
    behaviour: Behaved = field(default_factory=Behaved)
    granularity: Granularity = "edge"
    baseline: bool = False
    budget: Amount | None = None

    def to_json(self) -> dict[str, Any]:
        """Returns plain data."""
        return {**asdict(self), "levels": {name: to_json(curve) for name, curve in self.levels.items()}}

    @classmethod
    def from_json(cls, data: Any, where: object = "a record") -> "Record":
        """Reads what `to_json` wrote.

        Raises:
            ScoresError: one line that begins with `where`, if anything is missing, unknown or ill-typed.
        """
        if isinstance(data, dict) and (unknown := set(data) - set(cls.__dataclass_fields__)):  # pyright: ignore
            raise ScoresError(f"{where} is of another version: unknown key {shown(min(map(str, unknown)))!r}")
        record = checked(cls, renamed_record(data), where, ScoresError)
        if missing := [level for level in LEVELS if level not in record.levels]:
            raise ScoresError(f"{where} is damaged: levels.{missing[0]}: required, but missing")
        counts = [count for curve in record.levels.values() for count in (curve.positives, curve.negatives)]
        if not all(0 <= count <= MOST_ITEMS for count in counts):
            raise ScoresError(
                f"{where} is damaged: {max(counts):,} nodes or edges are those of no network here"
            )
        return record


def is_record(data: Any) -> bool:
    """Returns whether plain data, damaged or not, is meant to be a record of an evaluation."""
    return isinstance(data, dict) and {"method", "checkpoint", "levels", "edges"} <= set(data)  # pyright: ignore


def compare(truth: Truth, scores: Scores, structural: bool = False) -> dict[Level, Curve]:
    """Scores a method at every level: required against forbidden, allowed left out.

    The embedding, which is the input itself, is left out at node level. MIB's AUROC has no such distinctions.

    Args:
        truth: the states.
        scores: the method's.
        structural: count allowed as positive, as older papers did.
    """
    curves: dict[Level, Curve] = {
        level: score(*labels_and_scores(truth, scores, level, structural)) for level in LEVELS
    }
    circuit = truth.circuit | (structural & (truth.qkv_edges == State.ALLOWED))
    mib = mib_auroc(truth.graph, circuit, scores.edges)
    curves["qkv_edge"] = replace(curves["qkv_edge"], mib_auroc=mib)
    return curves


def labels_and_scores(
    truth: Truth, scores: Scores, level: Level, structural: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Returns, for what counts at a level, whether it is required `[item]` bool, and its score `[item]`."""
    states, values = truth.at(level).copy(), scores.at(level)
    if level == "node":
        states[0] = State.ILLEGAL
    if structural:
        states[states == State.ALLOWED] = State.REQUIRED
    counts = (states == State.REQUIRED) | (states == State.FORBIDDEN)
    return states[counts] == State.REQUIRED, values[counts].astype(np.float64)


def edge_scores(scores: Scores) -> dict[str, float]:
    """Returns every edge's name and score."""
    graph = scores.graph
    return {
        edge_name(graph.nodes[w], graph.readers[r]): float(scores.edges[r, w])
        for r, w in np.argwhere(graph.legal)
    }


def node_scores(scores: Scores) -> dict[str, float]:
    """Returns every node's name and score."""
    return {str(node): float(value) for node, value in zip(scores.graph.nodes, scores.at("node"))}


def degenerate(truth: Truth) -> list[str]:
    """Says at which levels there is nothing to tell apart: no required or no forbidden node or edge."""
    said: list[str] = []
    for level in LEVELS:
        states = truth.at(level)[1:] if level == "node" else truth.at(level)
        for state in (State.REQUIRED, State.FORBIDDEN):
            if not (states == state).any():
                said.append(f"no {state.name.lower()} {level.replace('_', ' ').replace('qkv', 'q/k/v')}")
    return said
