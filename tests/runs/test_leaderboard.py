"""Several methods on several models: lists, resuming, failures; and the committed leaderboard."""

import json
import logging
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from interpbench.checkpoints.checkpoint_files import released
from interpbench.checkpoints.record import read_record
from interpbench.core import files
from interpbench.core.errors import ConfigError, InterpBenchError
from interpbench.discovery.method import get_method, methods
from interpbench.reports.leaderboard import FIGURES
from interpbench.runs import cli
from interpbench.runs.evaluate import EvaluateConfig, evaluate
from interpbench.runs.evaluate import run as run_evaluation
from interpbench.runs.evaluations_page import PAGE
from interpbench.runs.leaderboard_files import page, read_board, write_leaderboard
from interpbench.runs.method_lists import expand
from interpbench.scoring.leaderboard_data import Board
from interpbench.scoring.leaderboard_rows import TRUTH, board_text
from interpbench.scoring.ranking_metrics import HEADLINE
from tests import ROOT
from tests.builders import TRAINED, composed
from tests.evaluation_records import board

DOCS = ROOT / "docs"
QUICK = {"examples": 16, "test_examples": 16, "pictures": False, "device": "cpu", "baselines": False}


@pytest.mark.parametrize(
    ("given", "expanded"),
    [
        ("method=acdc", "method=acdc"),
        ("method=all", "methods=all"),
        ("method=acdc,eap", "methods=[acdc,eap]"),
        ("method=[acdc, eap]", "methods=[acdc,eap]"),
        ("method=eap,all", "methods=all"),
        ("checkpoint=hist", "checkpoint=hist"),
        ("checkpoint=hist,3", "checkpoint=[hist,3]"),
        ("method.thresholds=[0.1,1]", "method.thresholds=[0.1,1]"),
    ],
)
def test_lists_on_the_command_line(given: str, expanded: str) -> None:
    assert expand([given]) == [expanded]
    assert expand(["-m", given]) == ["-m", given]


def test_an_unknown_method_in_a_list_is_named() -> None:
    with pytest.raises(InterpBenchError, match="'acdk'; did you mean acdc"):
        expand(["method=eap,acdk"])


def test_settings_are_those_of_one_method() -> None:
    with pytest.raises(ConfigError, match=r"method\.steps is a setting of one method"):
        _ = EvaluateConfig(method={"name": "eap_ig", "steps": 3}, methods="all").chosen
    chosen = EvaluateConfig(method={"name": "acdc"}, methods="all").chosen
    assert [name for name, _ in chosen] == list(methods())


def config(out: Path, **settings: object) -> EvaluateConfig:
    return EvaluateConfig(method={"name": "acdc"}, out=str(out), **{**QUICK, **settings})  # type: ignore[arg-type]


def test_finished_pairs_are_not_run_again(
    compiled_checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"methods": ["eap", "random"], "checkpoint": str(compiled_checkpoint), "thorough": True}
    first, failures = evaluate(config(tmp_path, **settings))
    assert [record.method for record in first] == ["eap", "random", TRUTH] and not failures
    found = first[0].behaviour
    assert found.faithfulness and found.completeness and found.tests
    assert found.stability and not first[2].behaviour.stability

    eap, runs = type(get_method("eap")), []
    original = eap.__call__
    monkeypatch.setattr(eap, "__call__", lambda self, made: runs.append(1) or original(self, made))
    second, _ = evaluate(config(tmp_path, **settings))
    kept, made = ([json.loads(json.dumps(r.to_json())) for r in found] for found in (second, first))
    assert kept == made
    less, _ = evaluate(config(tmp_path, **{**settings, "methods": ["eap"], "thorough": False}))
    assert less[0].behaviour == first[0].behaviour and not runs
    for changed in ({"test_examples": 8}, {"fresh": True}):
        runs.clear()
        evaluate(config(tmp_path, **{**settings, **changed, "thorough": False}))
        assert len(runs) == 1
    next(tmp_path.glob("**/eap*.json")).write_text("{")  # cut short
    runs.clear()
    evaluate(config(tmp_path, **{**settings, "thorough": False}))
    assert len(runs) == 1


def test_a_baseline_that_was_fitted_anew_is_run_again(
    compiled_checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"methods": ["fitted_features"], "checkpoint": str(compiled_checkpoint), "thorough": False}
    baseline, runs = type(get_method("fitted_features")), []
    original = baseline.__call__
    monkeypatch.setattr(baseline, "__call__", lambda self, made: runs.append(1) or original(self, made))
    for _ in range(2):
        evaluate(config(tmp_path, **settings))
        assert len(runs) == 1
    other = tmp_path / "other.json"
    other.write_text(baseline.file.read_text() + " ")
    monkeypatch.setattr(baseline, "file", other)
    evaluate(config(tmp_path, **settings))
    assert len(runs) == 2


def test_only_methods_that_draw_are_run_with_other_seeds(compiled_checkpoint: Path, tmp_path: Path) -> None:
    stability = {"samples": 2, "seeds": 1, "most_passes": 1}
    settings = {"methods": ["eap", "random"], "checkpoint": str(compiled_checkpoint), "stability": stability}
    made, failures = evaluate(config(tmp_path, **settings))
    found = {record.method: record.behaviour.stability for record in made}
    assert not failures and found["eap"] == found[TRUTH] == {}
    assert {name: one.runs for name, one in found["random"].items()} == {"pairs": 2, "seeds": 2}
    assert "Jaccard over seeds" in write_leaderboard(made, tmp_path).read_text()


def test_a_failure_is_listed_and_the_others_go_on(
    compiled_checkpoint: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(self: object, problem: object) -> None:
        raise RuntimeError("out of luck")

    monkeypatch.setattr(type(get_method("eap")), "__call__", broken)
    overrides = [
        *("method=eap,random", f"checkpoint={compiled_checkpoint}", f"out={tmp_path / 'out'}"),
        "baselines=false",
        *("device=cpu", "examples=16", "thorough=false", f"board={tmp_path / 'board'}"),
    ]
    monkeypatch.setattr(sys, "argv", ["evaluate.py", *overrides])
    with caplog.at_level(logging.ERROR), pytest.raises(SystemExit, match="1"):
        cli.evaluate()
    said = [entry.getMessage() for entry in caplog.records]
    assert f"failed: eap on {compiled_checkpoint}: method eap fails: RuntimeError: out of luck" in said
    made = read_board(tmp_path / "board" / "leaderboard.json")
    assert made.methods == ["random"] and len(made.models) == 1


def test_a_model_that_cannot_be_read_is_listed(compiled_checkpoint: Path, tmp_path: Path) -> None:
    broken = tmp_path / "models" / "broken"
    broken.mkdir(parents=True)
    (broken / "model.json").write_text("{}")
    settings = {"methods": ["random"], "checkpoint": [str(broken), str(compiled_checkpoint)]}
    records, failures = evaluate(config(tmp_path / "out", **settings, thorough=False))
    assert len(records) == 1 and len(failures) == 1 and str(broken) in failures[0].line


def test_the_baselines_are_on_every_leaderboard(compiled_checkpoint: Path, tmp_path: Path) -> None:
    settings = {"checkpoint": str(compiled_checkpoint), "thorough": False, "baselines": True}
    records, failures = evaluate(config(tmp_path, methods=["weight_norm", "eap"], **settings))
    names = ["weight_norm", "eap", "activation_std", "fitted_features"]
    assert [record.method for record in records] == names and not failures
    assert [record.baseline for record in records] == [True, False, True, True]
    assert Board.of(records).best_baseline() in names
    alone, _ = evaluate(config(tmp_path, **settings))
    assert [record.method for record in alone] == ["acdc"]


def test_a_named_board_grows(
    compiled_checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    folder = tmp_path / "board"

    def add(methods: str, examples: int, status: str = "0") -> Board:
        overrides = [
            *f"method={methods}".split(),
            f"checkpoint={compiled_checkpoint}",
            f"examples={examples}",
        ]
        overrides += [
            "thorough=false",
            "pictures=false",
            "baselines=false",
            f"out={tmp_path / 'out'}",
            f"board={folder}",
        ]
        monkeypatch.setattr(sys, "argv", ["evaluate.py", *overrides])
        with pytest.raises(SystemExit, match=status):
            cli.evaluate()
        return read_board(folder / "leaderboard.json")

    first = add("eap,random", 16)
    grown = add("atp,eap", 8)
    assert [row.method for row in grown.rows] == ["atp", "eap", "random"]
    assert grown.rows[2] == first.rows[1] and grown.rows[1].examples == 8
    more = add("eap,eap+direction=both", 8)
    assert [row.method for row in more.rows] == ["atp", "eap", "eap+direction=both", "random"]
    assert more.rows[2].settings == {"direction": "both"} and more.rows[1].settings == {}
    one = add("ifr", 8)
    assert [row.method for row in one.rows] == ["atp", "eap", "eap+direction=both", "ifr", "random"], (
        "one alone"
    )
    named = [row.method for row in add("ifr method.routes=false", 8).rows]
    assert named[3:5] == ["ifr", "ifr+routes=false"], "its name has what is not the default"
    (folder / "leaderboard.json").write_text("[]")
    with pytest.raises(InterpBenchError, match="not a leaderboard"):
        add("gim,hisp", 8, "2")
    assert "not a leaderboard of format 3" in capsys.readouterr().err
    assert not list((tmp_path / "out").glob("**/gim*")), "said before anything is evaluated"


def test_a_board_becomes_a_page_with_figures(tmp_path: Path) -> None:
    made = board()
    assert "dead: its corrupted inputs change no answer" in page(made)
    (tmp_path / "leaderboard.json").write_text(board_text(made.rows, ()))
    from interpbench.runs.leaderboard_files import write_page

    assert write_page(tmp_path).read_text() == page(made)
    for name in FIGURES:
        assert (tmp_path / f"leaderboard-{name}.png").read_bytes().startswith(b"\x89PNG")
    older = {"format": 1, "missing": [], "rows": []}
    (tmp_path / "leaderboard.json").write_text(json.dumps(older))
    with pytest.raises(
        InterpBenchError, match="an older version, with other columns; make the leaderboard again"
    ):
        read_board(tmp_path / "leaderboard.json")
    (tmp_path / "leaderboard.json").write_text("[]")
    with pytest.raises(InterpBenchError, match="not a leaderboard"):
        read_board(tmp_path / "leaderboard.json")


def test_a_board_without_models_is_a_page(tmp_path: Path) -> None:
    assert write_leaderboard([], tmp_path).read_text().startswith("# Leaderboard")


# The committed leaderboard.


@pytest.fixture(scope="module")
def committed() -> Board:
    return read_board(DOCS / "leaderboard.json")


def test_the_page_is_made_of_the_committed_records(committed: Board) -> None:
    assert (DOCS / "leaderboard.md").read_text() == page(committed)
    for name in FIGURES:
        assert (DOCS / f"leaderboard-{name}.png").is_file()


def test_the_leaderboard_is_of_released_models_and_all_methods(committed: Board) -> None:
    """Methods that train masks are on models whose circuit has several nodes, and may be on some of these."""
    hashes = {name: read_record(path).sha256[:12] for name, path in released().items()}
    for row in committed.rows:
        assert row.checkpoint == hashes[row.task], f"{row.task} has changed: make leaderboard"
    assert not set(committed.missing) & set(committed.models)
    for name in methods():
        on = {row.task for row in committed.rows if row.method == name}
        if name in TRAINED:
            assert not on & set(committed.trivial), name
        else:
            assert on == set(hashes), name


def test_trivial_models_are_a_group_apart() -> None:
    """They are in no mean but their own, unless there are no others."""
    rows = [
        replace(row, kinds=(("trivial", "small") if row.task == "x" else ("nontrivial", "deep", "numerical")))
        for row in board().rows
    ]
    mixed = Board(tuple(rows))
    assert mixed.trivial == ["x"] and mixed.models == ["y"] and list(mixed.left_out) == ["dead"]
    assert list(mixed.values("good", HEADLINE)) == ["y"]
    assert mixed.of_kind("trivial").models == ["x"] and mixed.of_kind("small").models == []
    assert mixed.of_kind("deep").models == mixed.of_kind("numerical").models == ["y"]
    text = page(mixed)
    assert (
        "| method | deep (1) | numerical (1) | trivial (1) |" in text and "1 more models are trivial" in text
    )
    older = Board(tuple(replace(row, kinds=()) if row.method == "good" else row for row in mixed.rows))
    assert older.models == ["y"] and older.of_kind("trivial").models == ["x"], "groups are those of models"
    alone = Board(tuple(row for row in rows if row.task == "x"))
    assert alone.models == ["x"] and not alone.trivial and "numerical (" not in page(alone)


def test_the_truth_is_what_can_be_reached(committed: Board) -> None:
    assert set(committed.values(TRUTH, HEADLINE).values()) == {1}
    for method in committed.methods:
        for value in committed.values(method, HEADLINE).values():
            assert 0 <= value <= 1
    random = committed.mean("random", HEADLINE)
    null = committed.null(HEADLINE)
    assert random is not None and null is not None
    assert null.ends[0] - 0.05 < random.value < null.ends[1] + 0.05


def test_what_was_written_is_not_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the run that wrote it, for pictures, page or leaderboard; what an earlier run wrote is."""
    out, read, read_bytes = tmp_path / "out", list[Path](), files.read_bytes

    def noted(path: Path, *rest: Any) -> bytes:
        read.append(path)
        return read_bytes(path, *rest)

    def run(*overrides: str) -> set[str]:
        read.clear()
        quick = ["checkpoint=hist", "device=cpu", f"out={out}", "baselines=false", "thorough=false"]
        assert run_evaluation(composed("evaluate", *quick, *overrides)).status == 0
        return {path.name for path in read if path.is_relative_to(out)}

    monkeypatch.setattr(files, "read_bytes", noted)
    assert run("methods=[random,weight_norm]", f"board={out}") == set()
    assert {path.name for path in out.rglob("*.*")} > {"random.json", "roc.png", PAGE, "leaderboard.json"}
    assert run("method=activation_std") == {"random.json", "weight_norm.json", "leaderboard.json"}


def test_rows_of_earlier_versions_get_the_groups_of_their_models(committed: Board, tmp_path: Path) -> None:
    bare = replace(committed.rows[0], kinds=())
    known = replace(bare, checkpoint=read_record(released()["frac_prevs"]).sha256[:12], task="frac_prevs")
    (tmp_path / "leaderboard.json").write_text(board_text((replace(bare, checkpoint="0" * 12), known), ()))
    unknown, found = read_board(tmp_path / "leaderboard.json").rows
    assert unknown.kinds == () and {"numerical", "nontrivial"} <= set(found.kinds)
