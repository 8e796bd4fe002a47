"""Scores by order: what matters only together with others, counted item by item."""

import numpy as np
import pytest

from interpbench.alignment.alignment import align
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.circuits.ground_truth import LEVELS, State, level_names
from interpbench.circuits.order_arrays import orders_of
from interpbench.circuits.scores import Scores
from interpbench.scoring.curves import compare
from interpbench.scoring.orders import ALL_ORDERS, PRECISION, RECALL, by_order, true_ranking
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.shapes import shape

VOTE = "max_with_previous[regime=redundant]"


def truth_of(name):
    task = get_task(name)
    return find_truth(align(task, shape(task).graph))


def random_scores(truth, seed, values=None):
    """Returns scores of edges with many ties, and those of nodes as the method would sum them."""
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, 6, truth.graph.legal.shape).astype(float) if values is None else values
    return Scores(truth.graph, np.where(truth.graph.legal, drawn, np.nan))


def literal(truth, scores, level):
    """Returns the AUROC over all orders and the recall of each, from loops over pairs and items."""
    names = level_names(truth.graph, level, truth.at(level) != State.ILLEGAL)
    values = scores.at(level)[truth.at(level) != State.ILLEGAL].tolist()
    required, allowed = set(truth.names(level, State.REQUIRED)), set(truth.names(level, State.ALLOWED))
    witnesses = truth.witnesses.get(level, {})
    orders = {name: 0 for name in required if name != "embed"}
    orders |= {name: witnesses[name].order for name in names if name in witnesses}
    kept = [
        (value, orders.get(name))
        for name, value in zip(names, values)
        if name != "embed" and (name in orders or name not in allowed | required)
    ]
    found, wins = {}, 0.0
    positives = [value for value, order in kept if order is not None]
    negatives = [value for value, order in kept if order is None]
    for one in positives:
        wins += sum(1.0 if one > other else 0.5 if one == other else 0.0 for other in negatives)
    found[ALL_ORDERS] = wins / (len(positives) * len(negatives))
    for order in {order for _, order in kept if order is not None}:
        share, members = 0.0, [value for value, its in kept if its == order]
        for value in members:
            above = sum(other > value for other, _ in kept)
            tied = sum(other == value for other, _ in kept)
            share += min(max(len(positives) - above, 0), tied) / tied
        found[f"{RECALL}{order}"] = share / len(members)
        found[PRECISION] = found.get(PRECISION, 0.0) + share / len(positives)
    return found


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("seed", range(4))
def test_scores_by_order_against_counting(level, seed):
    truth = truth_of(VOTE)
    scores = random_scores(truth, seed)
    found = by_order(truth, scores, level)
    wanted = literal(truth, scores, level)
    assert found.keys() == wanted.keys() == {ALL_ORDERS, PRECISION, f"{RECALL}0", f"{RECALL}1"}
    for name, value in wanted.items():
        assert found[name].value == pytest.approx(value), name
        assert found[name].low <= value + 1e-9 and value - 1e-9 <= found[name].high


def test_a_method_that_sees_single_effects_alone_misses_the_voters():
    truth = truth_of(VOTE)
    single = random_scores(truth, 0, (truth.qkv_edges == State.REQUIRED) * 1.0)
    levels = compare(truth, single)
    assert levels["qkv_edge"].auroc == 1, "the headline asks for no more"
    metrics = levels["qkv_edge"].metrics
    assert metrics[f"{RECALL}0"].value == 1 and metrics[f"{RECALL}1"].value < 0.2
    assert metrics[ALL_ORDERS].value == pytest.approx(0.625), "two of eight, the others tied"
    complete = random_scores(truth, 0, (orders_of(truth, "qkv_edge") >= 0) * 1.0)
    metrics = compare(truth, complete)["qkv_edge"].metrics
    assert metrics[ALL_ORDERS].value == metrics[f"{RECALL}1"].value == 1


@pytest.mark.parametrize("name", ["detect_abc", "max_with_previous", "max_with_previous[regime=alive]"])
def test_where_all_is_of_order_0_there_are_no_such_scores(name):
    truth = truth_of(name)
    scores = random_scores(truth, 1)
    assert not truth.witnesses and not any(by_order(truth, scores, level) for level in LEVELS)


@pytest.mark.parametrize("name", [VOTE, "max_with_previous[regime=redundant,copies=5]", "add_next"])
def test_the_truth_finds_itself(name):
    truth = truth_of(name)
    for level, found in compare(truth, true_ranking(truth)).items():
        assert found.auroc == 1
        some = [value for metric, value in found.metrics.items() if "order" in metric]
        assert all(each.value == 1 for each in some) and bool(some) == bool(truth.witnesses), level
