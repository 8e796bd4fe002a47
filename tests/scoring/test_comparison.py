"""Comparison of methods: exact tests, effect sizes, corrections, and a board of synthetic records."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from interpbench.discovery.method import get_method
from interpbench.runs.evaluate import budget
from interpbench.runs.leaderboard_files import page
from interpbench.scoring.comparison import above, compare_methods, holm, mean_interval, mean_ranks, wilcoxon
from interpbench.scoring.leaderboard_data import Board
from interpbench.scoring.leaderboard_rows import TRUTH, row
from interpbench.scoring.ranking_metrics import HEADLINE
from interpbench.scoring.row_metrics import jaccard
from tests.evaluation_records import PERFECT, REQUIRED, TIED, board, record
from tests.oracles.scoring import signed_rank


@given(st.lists(st.integers(-4, 4), max_size=9))
def test_the_signed_rank_test_is_exact_with_ties_and_zeros(differences: list[int]) -> None:
    assert wilcoxon(np.array(differences, float)) == pytest.approx(signed_rank(differences))


def test_scipy_agrees_where_there_are_no_ties() -> None:
    differences = np.random.default_rng(0).normal(0.3, 1, 13)
    assert wilcoxon(differences) == pytest.approx(stats.wilcoxon(differences, method="exact").pvalue)


def test_no_difference_is_no_evidence() -> None:
    assert wilcoxon(np.zeros(5)) == wilcoxon(np.zeros(0)) == 1
    assert wilcoxon(np.ones(13)) == 2 / 2**13


def test_a12_counts_pairs() -> None:
    assert above(np.array([1.0, 2.0]), np.array([1.0, 0.0])).tolist() == [[0.5, 1], [1, 1]]


def test_holm() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1, 1] and holm([]) == []


def test_models_of_one_program_are_one_observation() -> None:
    values = {"a": {f"m{i}": 1.0 for i in range(6)}, "b": {f"m{i}": 0.0 for i in range(6)}}
    apart = compare_methods(values, {f"m{i}": f"p{i}" for i in range(6)})[0]
    together = compare_methods(values, {f"m{i}": "p" for i in range(6)})[0]
    assert (apart.p, together.p) == (2 / 2**6, 1)
    assert (apart.models, apart.programs, together.programs) == (6, 6, 1)
    assert apart.difference.value == together.difference.value == apart.a12.value == 1


def test_the_bootstrap_draws_programs() -> None:
    values = [0.0] * 10 + [1.0] * 10
    spread = [
        high - low
        for low, high in (
            mean_interval(values, names).ends
            for names in ([f"p{i}" for i in range(20)], ["p"] * 10 + ["q"] * 10)
        )
    ]
    assert spread[0] < 0.5 < spread[1] == 1


def test_only_models_that_both_have_are_compared() -> None:
    values = {"a": {"x": 1.0, "y": 0.0}, "b": {"y": 1.0, "z": 0.0}, "c": {"z": 0.0}}
    found = compare_methods(values, {name: name for name in "xyz"})
    assert [(one.first, one.second, one.models, one.difference.value) for one in found] == [
        ("a", "b", 1, -1),
        ("b", "c", 1, 0),
    ]


def test_mean_ranks_share_ties() -> None:
    values = {"a": {"x": 1.0, "y": 1.0}, "b": {"x": 1.0, "y": 0.0}, "c": {"x": 0.0, "y": 0.5}}
    assert mean_ranks(values, {"x": "p", "y": "q"}) == {"a": 1.25, "b": 2.25, "c": 2.5}


def test_means_are_over_programs_however_many_models_they_have() -> None:
    values = {"a": {"x": 1.0, "y": 1.0, "z": 0.0}, "b": {"x": 0.0, "y": 0.0, "z": 1.0}}
    programs = {"x": "p", "y": "p", "z": "q"}
    assert mean_interval([*values["a"].values()], [*programs.values()]).value == pytest.approx(0.5)
    found = compare_methods(values, programs)[0]
    assert (found.difference.value, found.a12.value) == pytest.approx((0, 0.5))
    assert mean_ranks(values, programs) == pytest.approx({"a": 1.5, "b": 1.5})


# The board.


def test_dead_models_are_left_out_aloud() -> None:
    made = board()
    assert made.models == ["x", "y"]
    assert made.left_out == {"dead": ("its corrupted inputs change no answer",)}
    assert made.values("good", HEADLINE) == {"x": 1, "y": 1}


def test_the_best_method_comes_first() -> None:
    made = board()
    assert made.methods == ["good", "fair", "bad"]
    assert list(made.ranks().values()) == [1, 2, 3]
    mean = made.mean("fair", HEADLINE)
    assert mean is not None and mean.value == 0.5
    assert made.mean("fair", jaccard) is None
    assert made.better_than_random("good") == (2, 2) and made.better_than_random("bad") == (0, 2)
    null = made.null(HEADLINE)
    assert null is not None and null.ends[0] < 0.5 < null.ends[1]
    (good, fair, _) = made.against_random()
    assert good.difference.value == pytest.approx(0.5, abs=0.02) and abs(fair.difference.value) < 0.02


def test_methods_are_compared_with_the_best_baseline_and_node_methods_at_nodes_alone() -> None:
    tasks = ("x", "y")
    good = [record(task, "good", REQUIRED) for task in tasks]
    weak = [replace(record(task, "weak", -REQUIRED.astype(float)), baseline=True) for task in tasks]
    tied = [replace(TIED, task=task, method="tied", baseline=True) for task in tasks]
    nodes = [replace(record(task, "nodes", REQUIRED), granularity="node") for task in tasks]
    made = Board.of([*good, *weak, *tied, *nodes])
    assert set(made.methods) == {"good", "weak", "tied", "nodes"}
    assert made.edge_methods == ["good", "tied", "weak"]
    assert made.best_baseline() == made.best_baseline("node") == "tied"
    at_edges = {one.first: one.difference.value for one in made.against_baseline()}
    assert at_edges == {"good": 0.5, "weak": -0.5}
    at_nodes = {one.first: (one.second, one.difference.value) for one in made.against_baseline("node")}
    assert at_nodes == {"good": ("tied", 0.5), "nodes": ("tied", 0.5), "weak": ("tied", 0)}
    assert set(made.ranks()) == {"good", "tied", "weak"}
    assert {one.first for one in made.compare()} | {one.second for one in made.compare()} == set(made.ranks())
    text = page(made)
    accuracy, levels = text.split("Nodes and head edges:")[0], text.split("Nodes and head edges:")[1]
    assert "| nodes |" not in accuracy and "| nodes |" in levels and "| *tied* |" in accuracy
    assert "AUROC above tied" in text
    assert Board.of(good).best_baseline() is None and Board.of(good).against_baseline() == []


def test_budgets_are_shares_of_the_authors_steps() -> None:
    assert budget(get_method("ugs")) == budget(get_method("ugs", {"ablation": "mean", "steps": 3000})) == 1
    assert budget(get_method("edge_sp", {"steps": 300})) == 0.1
    assert budget(get_method("eap")) is None and budget(None) is None
    trained = replace(record("x", "trained", REQUIRED), budget=0.1)
    assert "| trained (10% of its authors' steps) |" in page(Board.of([trained]))
    assert "steps)" not in page(Board.of([replace(trained, budget=1.0)]))


def test_two_models_of_a_task_are_two_models() -> None:
    twice = Board.of([PERFECT, replace(PERFECT, checkpoint="another")])
    assert len(twice.models) == 2 and len(twice.values("exact", HEADLINE)) == 2
    assert set(twice.programs.values()) == {"hist"}


def test_rows_are_small_and_plain() -> None:
    made = row(replace(PERFECT, method=TRUTH, seconds=1 / 3))
    assert made.cost.seconds == 0.3333
    assert made.levels["qkv_edge"].auroc == 1 and made.levels["qkv_edge"].roc and not made.levels["node"].roc
    assert Board((made,)).methods == []
