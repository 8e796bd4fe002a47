"""The exam: differences between networks in regimes and their clean twins, and what theory says of them."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from interpbench.core.errors import ScoresError
from interpbench.core.estimate import Estimate
from interpbench.reports.exam_table import (
    circuits_table,
    directions_table,
    draw_exam,
    exam_table,
    orders_table,
)
from interpbench.runs import cli
from interpbench.runs.exam import ALONE, DISSOCIATIONS, LOST, asserted, effects_in, orders_in, show_exam
from interpbench.runs.leaderboard_files import read_board
from interpbench.runs.model_commands import EXAM_METRICS
from interpbench.scoring.exam_data import (
    METRICS,
    OF_CIRCUITS,
    RegimeEffect,
    combination,
    direction_of,
    in_usual_direction,
    order_effects,
    regime_effects,
)
from interpbench.scoring.leaderboard_data import Board
from interpbench.scoring.leaderboard_rows import LeaderboardRow
from interpbench.scoring.orders import ALL_ORDERS, RECALL
from interpbench.scoring.results import LevelScores, Sufficiency
from tests import ROOT

ROW = read_board(ROOT / "docs" / "leaderboard.json").rows[0]
NOISY = "redundant + noisy"


def row(task: str, method: str, value: float, any_order: float | None = None) -> LeaderboardRow:
    """Returns a row with an AUROC at all levels, and another one of any order."""
    metrics = {"auroc": Estimate(value, value, value, "score")}
    if any_order is not None:
        metrics[ALL_ORDERS] = Estimate(any_order, any_order, any_order, "score")
    levels = {level: LevelScores(2, 9, metrics, ()) for level in ("node", "head_edge", "qkv_edge")}
    base = task.partition("[")[0]
    return replace(ROW, task=task, program=base, method=method, levels=levels, left_out=(), kinds=("small",))


TWINS = Board(tuple(row(task, method, 1.0) for task in ("a", "b", "c") for method in ("exact", "eap")))
INSIDE = (
    row("a[regime=redundant,regime=noisy]", "exact", 1.0, 0.5),
    row("b[regime=redundant,copies=5,regime=noisy]", "exact", 0.9, 0.7),
    row("a[regime=alive]", "exact", 0.8),
    row("c[regime=alive,draw=1]", "exact", 0.6),
    row("c[regime=alive]", "exact", 1.0),
    row("d[regime=alive]", "exact", 0.1),
    row("a[regime=alive]", "ifr", 0.1),
)


def test_differences_are_paired_with_the_clean_twin_and_are_over_programs() -> None:
    found = {(one.regimes, one.method): one for one in regime_effects(Board(INSIDE), TWINS, METRICS["auroc"])}
    assert list(found) == [("alive", "exact"), (NOISY, "exact")], "what has no twin is left out"
    alive, noisy = found["alive", "exact"], found[NOISY, "exact"]
    assert (alive.models, alive.programs) == (3, 2)
    assert alive.difference.value == pytest.approx((-0.2 + (-0.4 + 0.0) / 2) / 2), "a mean of two programs"
    assert (noisy.inside.value, noisy.twin.value) == (pytest.approx(0.6), 1.0), "of any order"
    assert noisy.p == 0.5 and noisy.adjusted == 1.0, "two programs, both down: 2 / 2²; two tests"
    assert METRICS["auroc"].of(INSIDE[2]) == INSIDE[2].at("qkv_edge").metrics["auroc"]
    assert combination("ioi[tokenizer=gpt2,regime=rare,share=0.1,regime=alive]") == "rare + alive"
    assert regime_effects(Board(()), TWINS, METRICS["auroc"]) == []


def test_directions_have_a_table_of_their_own() -> None:
    """A row for each method that was run in more than one; what was not run is a dash."""
    assert direction_of("acdc+direction=both+examples=8") == ("acdc+examples=8", "both")
    assert direction_of("exact+metric=logit_diff") == ("exact+metric=logit_diff", None)
    methods = (
        "exact",
        "exact+direction=both",
        "exact+direction=denoising",
        "acdc",
        "acdc+direction=both",
        "ifr",
    )
    clean = Board(tuple(row("a", method, 1.0) for method in methods))
    board = Board(tuple(row("a[regime=alive]", method, 0.9 - 0.1 * n) for n, method in enumerate(methods)))
    assert [one.method for one in in_usual_direction(board).rows] == ["exact", "acdc", "ifr"]
    several = Board((*board.rows, *(row("b[regime=alive]", method, 0.5) for method in methods)))
    twins = Board((*clean.rows, *(row("b", method, 1.0) for method in methods)))
    found = {one.method: one for one in regime_effects(several, twins, METRICS["auroc"])}
    alone = regime_effects(in_usual_direction(several), in_usual_direction(twins), METRICS["auroc"])
    assert all(found[one.method] == one for one in alone), "other directions are corrected by themselves"
    lines = directions_table(regime_effects(board, clean, METRICS["auroc"])).splitlines()
    assert lines[0] == "| method | alive |"
    assert lines[2:] == ["| exact | 0.90 / 0.70 / 0.80 |", "| acdc | 0.60 / – / 0.50 |"]


def test_circuits_are_compared_by_what_they_are() -> None:
    """Where they were measured; what is needed for right answers, only if there are some."""
    assert tuple(METRICS) == EXAM_METRICS
    one = row("a[regime=alive]", "exact", 1.0)
    assert [METRICS[name].of(one) for name in OF_CIRCUITS] == [None] * 3
    measured = replace(one, sufficiency=Sufficiency(4, 0.75, Estimate(0.75), 0.5))
    values = [METRICS[name].of(measured) for name in OF_CIRCUITS]
    assert values == [Estimate(0.0), Estimate(0.75), Estimate(0.5)]
    whole = replace(one, sufficiency=Sufficiency(4, 1.0, Estimate(0.0), None))
    assert [METRICS[name].of(whole) for name in OF_CIRCUITS] == [Estimate(1.0), Estimate(0.0), None]
    twin = replace(measured, task="a", sufficiency=Sufficiency(4, 1.0, Estimate(1.0), 1.0))
    shares = [
        regime_effects(Board((measured,)), Board((twin,)), METRICS[name]) for name in ("answers", "needed")
    ]
    assert circuits_table(*shares).splitlines()[2] == "| exact | 0.75 / 0.50 |"
    assert circuits_table([], *shares).splitlines()[2] == "| exact | – / 0.75 / 0.50 |"
    more = replace(shares[0][0], method="eap", models=7)
    lines = circuits_table([*shares[0], more], shares[1]).splitlines()
    assert lines[0] == "| method | alive: 7 |"
    assert lines[2:] == ["| eap | 0.75 / – |", "| exact | 0.75 / 0.50, of 1 |"]


def test_a_method_that_had_more_pairs_on_the_twin_is_not_compared() -> None:
    fewer = [replace(one, examples=one.examples + 1) for one in INSIDE]
    other = [replace(one, settings={"seed": 7}) for one in INSIDE]
    assert regime_effects(Board((*fewer, *other)), TWINS, METRICS["auroc"]) == []


def test_the_gate_names_what_does_not_hold() -> None:
    effects = regime_effects(Board(INSIDE), TWINS, METRICS["auroc"])
    found = asserted(effects, [])
    (line,) = (one.said for one in found if one.held)
    assert line.startswith(f"exact in {NOISY}: -0.400 (") and line.endswith("against the twins, 2 programs")
    assert f"path_patching in {NOISY}: not run" in [one.said for one in found]
    equal = [replace(one, difference=Estimate(0.0, -0.1, 0.1, "bootstrap")) for one in effects]
    line = next(one.said for one in asserted(equal, []) if one.said.startswith(f"exact in {NOISY}"))
    assert "+0.000 (-0.100 to +0.100) against the twins, 2 programs; though a patch of one voter" in line
    alone = [replace(one, programs=1) for one in effects]
    assert not any(one.held for one in asserted(alone, []))
    assert ALONE in next(one.said for one in asserted(alone, []) if one.said.startswith(f"exact in {NOISY}"))
    assert all(each.why and each.methods for each in (*DISSOCIATIONS, *LOST))


def test_what_is_lost_is_told_by_order() -> None:
    """The gate asks that more voters are lost than edges that matter alone, in networks that have any."""

    def found(base: str, method: str, *shares: float) -> LeaderboardRow:
        one = row(f"{base}[regime=redundant]", method, 1.0)
        recall = {f"{RECALL}{order}": Estimate(share) for order, share in enumerate(shares)}
        levels = {level: replace(scores, metrics=recall) for level, scores in one.levels.items()}
        return replace(one, levels=levels)

    rows = [
        *(found("a", "exact", 1.0, 0.5), found("b", "exact", 0.9, 0.1), found("c", "exact", 1.0)),
        *(found("a", "path_patching", 0.5, 0.5), found("b", "path_patching", 0.5, 1.0)),
    ]
    effects = order_effects(Board((*rows, *INSIDE)))
    assert [(one.method, one.models, one.programs) for one in effects] == [
        ("exact", 2, 2),
        ("path_patching", 2, 2),
    ]
    exact = effects[0]
    assert (exact.alone.value, exact.together.value) == pytest.approx((0.95, 0.3))
    assert exact.difference.value == pytest.approx(-0.65)
    said = {one.said.partition(":")[0]: one for one in asserted([], effects)}
    assert said["exact in redundant"].held and "of order 1 against order 0" in said["exact in redundant"].said
    lost = said["path_patching in redundant"]
    assert not lost.held and "+0.250" in lost.said and "though a patch of one voter" in lost.said
    assert orders_table([*effects, replace(exact, method="eap", models=1)]).splitlines() == [
        *("| method | redundant: 2 |", "| --- | --: |", "| path_patching | 0.50 / 0.75 |"),
        *("| exact | 0.95 / 0.30 |", "| eap | 0.95 / 0.30, of 1 |"),
    ]


def test_the_gate_is_about_rankings(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    for wrong, said in (
        (["--metric", "complete"], "--gate is about rankings: --metric precision or auroc, not complete"),
        (["--each"], "--gate prints its assertions alone: leave out --each"),
        (["--write"], "--gate prints its assertions alone: leave out --write"),
    ):
        monkeypatch.setattr(sys, "argv", ["interpbench", "exam", "--gate", *wrong])
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert end.value.code == 2
        assert said in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["interpbench", "exam", "--gate"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    printed = capsys.readouterr().out
    assert not end.value.code and "missed:" not in printed
    assert printed.count("held: ") == sum(len(each.methods) for each in (*DISSOCIATIONS, *LOST))


def test_the_table_has_a_cell_for_each_method_and_combination(tmp_path: Path) -> None:
    fewer = replace(made("gim"), models=2, programs=1)
    effects = [
        *regime_effects(Board(INSIDE), TWINS, METRICS["auroc"]),
        replace(made("eap"), adjusted=0.01),
        fewer,
    ]
    table = exam_table(effects).splitlines()
    assert table[0] == f"| method | alive: 3 (2) | {NOISY}: 2 (2) |"
    cells = {line.split(" | ")[0].strip("| "): line.split(" | ") for line in table[2:]}
    assert "0.600 (−0.400" in cells["exact"][2] and cells["eap"][2].startswith("–")
    assert cells["eap"][1] == "0.900 (−0.100 [−0.200, 0])**"
    assert cells["gim"][1].endswith("[−0.200, 0]), of 2"), "fewer networks than the column has"
    draw_exam(effects, "AUROC", tmp_path / "exam.png")
    assert (tmp_path / "exam.png").stat().st_size > 5_000


def made(method: str) -> RegimeEffect:
    one, twin = Estimate(0.9, 0.8, 1.0, "bootstrap"), Estimate(1.0, 1.0, 1.0, "bootstrap")
    return RegimeEffect("alive", method, 3, 2, one, twin, Estimate(-0.1, -0.2, 0.0, "bootstrap"), 0.5)


def test_a_method_is_shown_by_where_it_loses_most(capsys: pytest.CaptureFixture[str]) -> None:
    """One line for a method in the direction of its authors; the means are over combinations of regimes."""
    effects = [
        made("exact"),
        replace(made("exact"), regimes="rare", difference=Estimate(-0.4), inside=Estimate(0.6)),
        replace(made("exact"), regimes="wide", difference=Estimate(0.2), inside=Estimate(1.2)),
        replace(made("exact"), regimes="noisy", difference=Estimate(-0.004), inside=Estimate(0.996)),
        replace(made("acdc"), difference=Estimate(0.0), inside=Estimate(1.0)),
        replace(made("exact+direction=both"), difference=Estimate(-0.9)),
    ]

    def shown(metric: str, each: bool = False) -> list[list[str]]:
        show_exam(Console(width=140), effects, METRICS[metric], each)
        lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("│")]
        return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]

    worst = "rare (3) -0.40, alive (3) -0.10"
    assert shown("precision") == [
        ["acdc", "1.0", "1.0", "0 of 1", "–"],
        ["exact", "0.924", "1.0", "2 of 4", worst],
    ]
    assert shown("chosen_size") == [
        ["acdc", "1.0", "1.0", "0 of 1", "–"],
        ["exact", "0.924", "1.0", "3 of 4", "rare (3) -0.40, wide (3) +0.20"],
    ], "here neither more nor less than 1 is better"
    assert len(shown("precision", each=True)) == len(effects)


def test_networks_without_twins_are_refused() -> None:
    with pytest.raises(ScoresError, match=r"no network in .* has a clean twin"):
        effects_in(ROOT / "docs", ROOT / "docs", "auroc")


def test_the_gate_holds_for_the_released_models_and_no_method_is_perfect_everywhere() -> None:
    effects = effects_in(ROOT / "docs" / "exam", ROOT / "docs" / "exam" / "twins", "precision")
    orders = orders_in(ROOT / "docs" / "exam")
    assert [one.said for one in asserted(effects, orders) if not one.held] == []
    perfect = {one.method for one in effects} - {one.method for one in effects if one.inside.value < 1}
    assert perfect == set()


def test_the_truth_finds_itself_where_copies_vote() -> None:
    rows = [
        row for row in read_board(ROOT / "docs" / "exam" / "leaderboard.json").rows if row.method == "truth"
    ]
    found = [METRICS["precision"].of(row) for row in rows if "redundant" in row.task]
    assert len(found) > 10 and all(one is not None and one.value == 1 for one in found)
