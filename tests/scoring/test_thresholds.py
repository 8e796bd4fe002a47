"""Thresholds that do not know the truth: the fewest edges that give right answers, and a method's own."""

from dataclasses import replace

import numpy as np
import pytest

from interpbench.checkpoints.checkpoint_files import in_regimes, released
from interpbench.checkpoints.load import load_checkpoint, load_pairs
from interpbench.circuits.ground_truth import State, Truth
from interpbench.circuits.naming import parse_node
from interpbench.circuits.scores import Scores
from interpbench.core.estimate import Estimate
from interpbench.discovery.acdc import Acdc
from interpbench.reports.exam_table import thresholds_table
from interpbench.runs.leaderboard_files import read_board
from interpbench.scoring.behaviour import Behaviour
from interpbench.scoring.circuits_from_scores import edges_by_score, first_edges, true_size
from interpbench.scoring.exam_data import METRICS, OF_CHOSEN, threshold_effects
from interpbench.scoring.leaderboard_data import Board
from interpbench.scoring.results import Chosen, Sufficiency
from interpbench.scoring.thresholds import chosen, own_circuits, smallest_right
from tests import ROOT
from tests.oracles import scoring as oracle

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def voting() -> tuple[Behaviour, Truth]:
    """A network in which three copies of a variable vote, on few pairs."""
    checkpoint = load_checkpoint(in_regimes()["detect_abc[regime=redundant]"])
    return Behaviour(load_pairs(checkpoint.folder).problem(checkpoint.network, 8)), checkpoint.truth


def test_the_smallest_right_circuit_is_that_of_a_literal_search(voting: tuple[Behaviour, Truth]) -> None:
    behaviour, truth = voting
    graph = truth.graph
    scores = np.where(graph.legal, truth.circuit + 0.01 * RNG.random(graph.legal.shape), np.nan)
    scores[:, graph.node_index[parse_node("a1.h3")]] -= 0.1  # one of the copies
    order = edges_by_score(graph, scores, RNG)
    assert truth.circuit[tuple(order[: truth.circuit.sum()].T)].all()
    found = smallest_right(behaviour, order, 0)
    sizes = range(truth.circuit.sum() + 1)
    right = [bool(behaviour.answers([first_edges(graph, order, size)], 0).all()) for size in sizes]
    assert right[found] and not right[found - 1] and found == right.index(True)
    assert oracle.answers(behaviour.problem, first_edges(graph, order, found), 0).all()
    assert not oracle.answers(behaviour.problem, first_edges(graph, order, found - 1), 0).all()
    assert found < truth.circuit.sum(), "two of three copies will do"


def test_a_ranking_upside_down_takes_nearly_all_edges(voting: tuple[Behaviour, Truth]) -> None:
    behaviour, truth = voting
    order = edges_by_score(truth.graph, np.where(truth.graph.legal, -1.0 * truth.circuit, np.nan), RNG)
    found = smallest_right(behaviour, order, 0)
    outside = int(truth.graph.legal.sum() - truth.circuit.sum())
    assert outside < found <= len(order)
    assert behaviour.answers([first_edges(truth.graph, order, found)], 0).all()
    half = smallest_right(replace_answers(behaviour), order, 0)
    assert half == 0, "where corrupted inputs give the clean answers, nothing is needed"


def replace_answers(behaviour: Behaviour) -> Behaviour:
    made = behaviour.problem
    return Behaviour(replace(made, corrupted=made.clean))


def test_what_is_right_of_a_circuit(voting: tuple[Behaviour, Truth]) -> None:
    _, truth = voting
    size = int(truth.circuit.sum())
    assert chosen(truth, truth.circuit) == Chosen(size, 1.0, 1.0)
    assert chosen(truth, np.zeros_like(truth.circuit)) == Chosen(0, None, 0.0)
    forbidden = np.argwhere(truth.qkv_edges == State.FORBIDDEN)[:size]
    both = truth.circuit.copy()
    both[tuple(forbidden.T)] = True
    assert chosen(truth, both) == Chosen(2 * size, 0.5, 1.0)
    assert chosen(truth, truth.graph.legal).held == 1
    aside = (truth.qkv_edges == State.ALLOWED) & ~truth.circuit
    assert aside.any() and chosen(truth, truth.circuit | aside) == Chosen(size + int(aside.sum()), 1.0, 1.0)


def test_free_edges_of_a_head_edge_count_as_one() -> None:
    truth = load_checkpoint(released()["ioi"]).truth
    free = truth.qkv_edges == State.FREE
    assert free.any()
    assert chosen(truth, truth.circuit) == Chosen(true_size(truth), 1.0, 1.0)


def test_a_method_has_a_circuit_at_each_threshold_of_its_own(voting: tuple[Behaviour, Truth]) -> None:
    behaviour, truth = voting
    scores = Acdc(thresholds=(0.1, 1e-6))(behaviour.problem)
    own = own_circuits(truth, scores)
    assert list(own) == ["1e-06", "0.1"]
    assert own["1e-06"].edges == scores.circuits[1e-6].sum() >= own["0.1"].edges
    assert own_circuits(truth, Scores(truth.graph, scores.edges)) == {}


def test_thresholds_are_compared_over_networks() -> None:
    row = read_board(ROOT / "docs" / "leaderboard.json").rows[0]
    row = replace(row, left_out=(), sufficiency=Sufficiency(4, 1.0, Estimate(1.0), 1.0), method="acdc")
    inside = [
        replace(row, task=f"{task}[regime=alive]", program=task, own={"0.1": Chosen(edges, precision, 0.5)})
        for task, edges, precision in (("a", 8, 0.25), ("b", 0, None))
    ]
    twin = replace(row, task="a", program="a", own={"0.1": Chosen(4, 1.0, 1.0), "0.01": Chosen(6, 0.5, 1.0)})
    others = [replace(twin, task=task, program=task) for task in ("b", "c")]
    more = replace(inside[0], task="d[regime=alive]", program="d")
    given = replace(twin, task="d", program="d", examples=twin.examples + 1)
    found = threshold_effects(Board((*inside, more)), Board((twin, *others, given)))
    assert [(one.group, one.threshold, one.size, one.precision, one.recall) for one in found] == [
        ("", "0.01", 1.5, 0.5, 1.0),
        ("", "0.1", 1.0, 1.0, 1.0),
        ("alive", "0.1", 1.0, 0.125, 0.5),
    ]
    lines = thresholds_table(found).splitlines()
    assert lines[0] == "| method | threshold | clean twins | alive |"
    assert lines[2] == "| acdc | 0.01 | 1.50 / 0.50 / 1.00 | – |"
    assert lines[3] == "| acdc | 0.1 | 1.00 / 1.00 / 1.00 | 1.00 / 0.12 / 0.50 |"


def test_chosen_sizes_are_compared_where_they_were_measured() -> None:
    row = read_board(ROOT / "docs" / "leaderboard.json").rows[0]
    without = replace(row, smallest=None, sufficiency=None)
    assert [METRICS[name].of(without) for name in OF_CHOSEN] == [None] * 3
    measured = replace(
        row, smallest=Chosen(6, 0.5, 0.75), sufficiency=Sufficiency(4, 1.0, Estimate(1.0), 1.0)
    )
    values = [METRICS[name].of(measured) for name in OF_CHOSEN]
    assert values == [Estimate(1.5), Estimate(0.5), Estimate(0.75)]
    empty = replace(measured, smallest=Chosen(0, None, 0.0))
    assert [METRICS[name].of(empty) for name in OF_CHOSEN] == [Estimate(0.0)] * 3
