"""Evaluations of made-up methods on a graph with a known circuit, and a leaderboard of them."""

from dataclasses import replace

import numpy as np

from interpbench.circuits.graph import Graph
from interpbench.circuits.ground_truth import State, Truth
from interpbench.circuits.ordered_scores import edge_scores
from interpbench.circuits.scores import Scores
from interpbench.scoring.curves import compare
from interpbench.scoring.evaluation_record import EvaluationRecord
from interpbench.scoring.leaderboard_data import Board
from interpbench.scoring.results import RunCost

GRAPH = Graph(2, 2)
TRUTH = Truth.from_json(
    GRAPH,
    {
        "node": {"required": ["embed", "m0", "a1.h1"], "allowed": ["a0.h0"]},
        "head_edge": {"required": ["embed->m0", "m0->a1.h1", "a1.h1->logits"], "allowed": ["embed->a0.h0"]},
        "qkv_edge": {
            "required": ["embed->m0", "m0->a1.h1<v>", "a1.h1->logits"],
            "allowed": ["embed->a0.h0<q>"],
        },
    },
)
REQUIRED = TRUTH.qkv_edges == State.REQUIRED


def scores(values: np.ndarray) -> Scores:
    """Returns scores of the graph's edges, `[reader, writer]`, NaN where it has none."""
    return Scores(GRAPH, np.where(GRAPH.legal, values, np.nan).astype(float))


def record(task: str, method: str, values: np.ndarray, seed: int = 0, **settings: object) -> EvaluationRecord:
    """Returns the record of a method that gives edges these scores."""
    made = scores(values)
    levels, edges = compare(TRUTH, made), edge_scores(made)
    return EvaluationRecord(
        task, "abc123", method, settings, seed, False, levels, RunCost(1, 1234, 0, 0), 1.5, edges
    )


PERFECT = record("hist", "exact", REQUIRED)
TIED = record("hist", "zeros", np.zeros_like(REQUIRED))


def board() -> Board:
    """Returns the leaderboard of three methods on three models; corruption of the third changes no answer."""
    good = [record(task, "good", REQUIRED) for task in ("x", "y", "dead")]
    bad = [record(task, "bad", -REQUIRED.astype(float)) for task in ("x", "y", "dead")]
    fair = [replace(TIED, task=task, method="fair") for task in ("x", "y")]
    dead = ["its corrupted inputs change no answer"]
    return Board.of(replace(one, left_out=dead if one.task == "dead" else []) for one in [*good, *bad, *fair])
