"""Records and leaderboards of earlier versions."""

import json
from pathlib import Path
from typing import Any

import pytest

from interpbench.circuits.graph import Graph
from interpbench.core.errors import ScoresError
from interpbench.core.estimate import Estimate
from interpbench.scoring.evaluation_record import EvaluationRecord
from interpbench.scoring.leaderboard_rows import board_text, read_rows, row

GRAPH = Graph(1, 1)
NUMBERS = ("auroc", "average_precision", "staircase", "precision_at_size", "best_f1")


def three(value: float) -> dict[str, float]:
    return {"value": value, "low": value / 2, "high": (1 + value) / 2}


def version_1() -> dict[str, Any]:
    """A record as version 1 wrote it, with everything in it."""
    level = {
        **{"positives": 2, "negatives": 3, **dict.fromkeys(NUMBERS, 0.75), "roc": [[0, 0], [0, 1], [1, 1]]},
        **{"intervals": {name: [0.5, 1.0] for name in NUMBERS}, "mib_auroc": None},
    }
    stable = {"runs": 3, "jaccard": three(0.5), "rank_correlation": None}
    curve = [0.0, 0.5, 1.0]
    behaviour = {
        "changed": 1.0,
        "faithfulness": {
            **dict.fromkeys(("sizes", "connected", "curve", "curve_low", "curve_high"), curve),
            **{"cpr": three(0.4), "cmd": three(0.6)},
        },
        "ties": 0,
        "completeness": {
            "nodes": 1,
            "sets": 2,
            **dict.fromkeys(("gap", "mean_gap", "least_effect"), three(0.1)),
        },
        "tests": {"equivalence": {**three(0.5), "p": 0.3, "p_tost": 0.2, "passed": True}},
        "stability": {"pairs": {**stable, "auroc": {"qkv_edge": {"mean": 0.5, "deviation": 0.1}}}},
    }
    return {
        **{"task": "hist", "checkpoint": "abc", "method": "eap", "settings": {"metric": "shift"}, "seed": 0},
        **{"structural": False, "seconds": 0.5, "program": "hist", "left_out": [], "granularity": "edge"},
        "levels": {"node": level, "head_edge": level, "qkv_edge": {**level, "mib_auroc": 0.25}},
        "cost": {
            **{"forward_calls": 1, "forward_examples": 64, "backward_calls": 1, "backward_examples": 64},
            **{"cpu_seconds": 0.4, "peak_bytes": 1 << 20},
        },
        "edges": {str(edge): place / 7 for place, edge in enumerate(GRAPH.edges)},
        "nodes": {str(node): 1.0 for node in GRAPH.nodes},
        "conditions": {"examples": 64, "thorough": True, "data": "stored", "corruption": None},
        **{"behaviour": behaviour, "baseline": False, "budget": None},
    }


def test_a_record_of_version_1_is_read_whole() -> None:
    record = EvaluationRecord.from_json(json.loads(json.dumps(version_1())))
    assert record.settings == {"metric": "logit_diff"}
    assert record.edges.array(GRAPH.edges).tolist() == [place / 7 for place in range(len(GRAPH.edges))]
    assert record.levels["node"].metrics["auroc"] == Estimate(0.75, 0.5, 1.0, "score")
    assert record.levels["node"].metrics["precision_at_size"].kind == "exact"
    assert record.levels["qkv_edge"].metrics["mib_auroc"] == Estimate(0.25)
    assert record.behaviour.tests["equivalence"].statistic == Estimate(0.5, 0.25, 0.75, "exact")
    assert record.behaviour.stability["pairs"].jaccard == Estimate(0.5, 0.25, 0.75, "bootstrap")
    assert record.behaviour.faithfulness is not None and record.behaviour.faithfulness.cmd.value == 0.6
    assert record.cost is not None and record.cost.peak_bytes == 1 << 20
    assert record.conditions.thorough and record.conditions.source is None
    assert EvaluationRecord.from_json(json.loads(json.dumps(record.to_json()))) == record


def test_what_scores_a_file_had_no_cost() -> None:
    bare = {**version_1(), "cost": {}, "nodes": {}, "behaviour": {}, "conditions": {}}
    record = EvaluationRecord.from_json(bare)
    assert record.cost is record.nodes is record.behaviour.faithfulness is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("levels", []),
        ("levels", {"node": 3}),
        ("edges", [1.0]),
        ("behaviour", {"tests": {"equivalence": 1}}),
        ("behaviour", {"faithfulness": {}}),
        ("behaviour", 3),
        ("cost", 3),
    ],
)
def test_a_damaged_record_of_version_1_is_refused_in_one_line(key: str, value: Any) -> None:
    with pytest.raises(ScoresError, match=r"old\.json is damaged") as caught:
        EvaluationRecord.from_json({**version_1(), key: value}, "old.json")
    assert "\n" not in str(caught.value)


def format_2() -> dict[str, Any]:
    """A leaderboard as format 2 had it."""
    level = {"positives": 2, "negatives": 3, **{key: [0.75, 0.5, 1.0] for key in NUMBERS}}
    stable = {"jaccard": [0.5, 0.25, 0.75], "rank_correlation": None, "auroc_deviation": 0.1}
    one = {
        **{
            "task": "hist",
            "program": "hist",
            "checkpoint": "abc",
            "method": "eap",
            "settings": {},
            "seed": 0,
        },
        **{"structural": False, "examples": 64, "granularity": "edge", "baseline": False, "budget": None},
        "left_out": [],
        "levels": {
            **{"node": level, "head_edge": level},
            "qkv_edge": {**level, "mib_auroc": [0.25], "roc": [[0.0, 0.0], [0.0, 1.0], [1.0, 1.0]]},
        },
        **{"cost": {"passes": 128, "seconds": 0.4, "megabytes": 1.0}, "changed": 1.0},
        "faithfulness": {"curve": [0.0, 0.5, 1.0], "cpr": [0.4, 0.2, 0.7], "cmd": [0.6, 0.3, 0.8]},
        "completeness": {key: [0.1, 0.05, 0.55] for key in ("gap", "mean_gap", "least_effect")},
        "tests": {"equivalence": {"passed": True, "p": 0.3, "value": [0.5, 0.25, 0.75]}},
        "stability": {"pairs": stable},
    }
    dead = {**one, "method": "random", "faithfulness": {}, "completeness": {}, "tests": {}, "stability": {}}
    return {"format": 2, "missing": ["ioi"], "rows": [one, dead]}


def test_a_leaderboard_of_format_2_is_what_its_records_make(tmp_path: Path) -> None:
    path = tmp_path / "leaderboard.json"
    path.write_text(json.dumps(format_2()))
    rows, missing = read_rows(path)
    record = EvaluationRecord.from_json(version_1())
    made = row(record)
    for name in ("levels", "cost", "faithfulness", "stability", "changed"):
        assert getattr(rows[0], name) == getattr(made, name), name
    assert rows[0].tests["equivalence"].statistic == made.tests["equivalence"].statistic
    assert rows[1].faithfulness is rows[1].completeness is None and rows[1].tests == {}
    path.write_text(board_text(rows, missing))
    assert read_rows(path) == (rows, missing) and missing == ("ioi",)


def test_a_damaged_leaderboard_of_format_2_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "leaderboard.json"
    for rows in (3, [3], [{}], [{**format_2()["rows"][0], "levels": {"node": []}}]):
        path.write_text(json.dumps({**format_2(), "rows": rows}))
        with pytest.raises(ScoresError, match="is damaged"):
            read_rows(path)
