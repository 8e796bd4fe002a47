"""Faithfulness, completeness, hypothesis tests and stability, against literal loops and planted circuits."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from interpbench.checkpoints.checkpoint_files import in_regimes, released
from interpbench.checkpoints.load import load_checkpoint, load_pairs
from interpbench.circuits.graph import Graph
from interpbench.circuits.ground_truth import State, Truth
from interpbench.circuits.naming import parse_node
from interpbench.circuits.order_arrays import orders_of
from interpbench.circuits.scores import Scores
from interpbench.core.estimate import Estimate
from interpbench.discovery.method import get_method
from interpbench.scoring.behaviour import Behaviour
from interpbench.scoring.circuits_from_scores import (
    SIZES,
    best_edges,
    connected,
    random_circuit,
    ties_at,
    true_size,
)
from interpbench.scoring.faithfulness import completeness, faithfulness
from interpbench.scoring.hypotheses import (
    TESTS,
    HypothesisSettings,
    equivalence,
    hypothesis_tests,
    independence,
)
from interpbench.scoring.results import Stability
from interpbench.scoring.stability import agreement, stability
from interpbench.scoring.sufficiency import held, sufficiency
from interpbench.transformer.fast import run_circuits
from interpbench.transformer.fast.frozen_run import frozen_run
from tests.builders import problem
from tests.oracles import scoring as oracle
from tests.oracles.scoring import measure, paths

QUICK = HypothesisSettings(random=40, permutations=200)
RANDOM = np.random.default_rng(0)


@pytest.fixture(scope="module")
def behaviour() -> Behaviour:
    return Behaviour(problem(1))


@pytest.fixture(scope="module")
def real() -> tuple[Behaviour, Truth]:
    """A released model, whose circuit is known, on few pairs."""
    checkpoint = load_checkpoint(released()["paren_balance"])
    return Behaviour(load_pairs(checkpoint.folder).problem(checkpoint.network, 32)), checkpoint.truth


def some_circuits(graph: Graph, count: int = 5) -> list[np.ndarray]:
    return [
        graph.legal & (RANDOM.random(graph.legal.shape) < share) for share in np.linspace(0.1, 0.9, count)
    ]


def true_scores(truth: Truth) -> Scores:
    required = (truth.qkv_edges == State.REQUIRED).astype(float)
    return Scores(truth.graph, np.where(truth.graph.legal, required, np.nan))


def test_circuits_are_run_as_if_one_by_one(behaviour: Behaviour) -> None:
    circuits = some_circuits(behaviour.graph)
    measured = behaviour.measure([*circuits, circuits[0]])
    for circuit, values in zip([*circuits, circuits[0]], measured):
        np.testing.assert_allclose(values, measure(behaviour.problem, circuit), atol=1e-9)


def test_the_whole_and_the_empty_circuit(behaviour: Behaviour) -> None:
    legal = behaviour.graph.legal
    whole, empty = behaviour.measure([legal, np.zeros_like(legal)])
    np.testing.assert_allclose(whole, behaviour.full, atol=1e-9)
    np.testing.assert_allclose(empty, behaviour.empty, atol=1e-9)


def test_many_circuits_need_few_calls(behaviour: Behaviour, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def run(*arguments: Any) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return frozen_run(*arguments)

    fresh = Behaviour(behaviour.problem)
    monkeypatch.setattr(run_circuits, "frozen_run", run)
    circuits = some_circuits(behaviour.graph, 60)
    fresh.measure(circuits)
    assert calls == 1
    fresh.measure(circuits[::-1])
    assert calls == 1


@pytest.mark.parametrize("seed", range(4))
def test_pruning_keeps_the_edges_on_paths_and_changes_nothing(behaviour: Behaviour, seed: int) -> None:
    graph = behaviour.graph
    circuit = graph.legal & (np.random.default_rng(seed).random(graph.legal.shape) < 0.3)
    pruned = connected(graph, circuit)
    assert (pruned == paths(graph, circuit)).all()
    np.testing.assert_allclose(*behaviour.measure([circuit, pruned]), atol=1e-9)


def test_random_circuits_are_connected_and_large_enough() -> None:
    graph = Graph(3, 4)
    for size in (1, 7, 50, int(graph.legal.sum()) + 5):
        circuit = random_circuit(graph, size, np.random.default_rng(size))
        assert not (circuit & ~graph.legal).any()
        assert (connected(graph, circuit) == circuit).all()
        assert circuit.sum() >= min(size, graph.legal.sum())


def test_ties_are_broken_by_the_generator_alone() -> None:
    graph = Graph(2, 2)
    values = np.where(graph.legal, 0.0, np.nan)
    values[-1, -1] = 1
    circuits = [best_edges(graph, values, 3, np.random.default_rng(seed)) for seed in range(20)]
    assert all(c.sum() == 3 and c[-1, -1] and not (c & ~graph.legal).any() for c in circuits)
    assert len({c.tobytes() for c in circuits}) > 10
    assert ties_at(graph, values, 3) and not ties_at(graph, values, 1)
    assert best_edges(graph, values, 0, np.random.default_rng(0)).sum() == 0


def with_free_edges() -> Truth:
    """Returns the truth of a circuit of two head edges, of which one leaves open which of three it is."""
    graph = Graph(2, 2)
    names = {"node": {"required": [], "allowed": []}}
    names["head_edge"] = {"required": ["embed->a0.h0", "m0->m1"], "allowed": []}
    names["qkv_edge"] = {"required": ["m0->m1"], "allowed": []}
    names["qkv_edge"]["free"] = [f"embed->a0.h0<{slot}>" for slot in "qkv"]
    return Truth.from_json(graph, names)


def test_free_edges_of_one_head_edge_count_once() -> None:
    assert true_size(with_free_edges()) == 2


# Faithfulness and completeness.


def test_faithfulness_from_its_definition(behaviour: Behaviour) -> None:
    graph = behaviour.graph
    scores = Scores(graph, np.where(graph.legal, RANDOM.random(graph.legal.shape), np.nan))
    found = faithfulness(behaviour, scores)
    curve = []
    for share in SIZES:
        size = int(share * graph.legal.sum() + 1e-9)
        order = np.argsort(-scores.edges[graph.legal])[:size]
        circuit = np.zeros_like(graph.legal)
        circuit[tuple(np.argwhere(graph.legal)[order].T)] = True
        m = measure(behaviour.problem, circuit).mean()
        curve.append((m - behaviour.empty.mean()) / (behaviour.full.mean() - behaviour.empty.mean()))
    np.testing.assert_allclose(found.curve, curve, atol=1e-9)
    assert found.cpr.value == pytest.approx(oracle.cpr(curve, SIZES))
    assert found.cmd.value == pytest.approx(oracle.cmd(curve, SIZES))
    assert found.curve[-1] == pytest.approx(1) and found.connected[-1] == 1
    assert found.cpr.kind == found.cmd.kind == "bootstrap"


def test_the_whole_network_is_complete(behaviour: Behaviour) -> None:
    found = completeness(behaviour, behaviour.graph.legal)
    assert found.nodes == 6 and found.sets == 64
    assert found.gap.value == pytest.approx(0, abs=1e-9)


def test_completeness_from_its_definition(behaviour: Behaviour) -> None:
    graph, unit = behaviour.graph, behaviour.gap
    circuit = graph.legal.copy()
    circuit[:, 3:] = False  # embedding and two heads
    circuit[-1, 1] = True
    found = completeness(behaviour, circuit)

    def m(changed: np.ndarray) -> float:
        return float(measure(behaviour.problem, changed).mean()) / unit

    sets = [(), (1,), (2,), (1, 2)]
    gaps = [oracle.gap(m, circuit, graph.legal, [out]) for out in sets]
    assert found.gap.value == pytest.approx(oracle.gap(m, circuit, graph.legal, sets))
    assert found.mean_gap.value == pytest.approx(np.mean(gaps))
    assert found.least_effect.value == pytest.approx(oracle.least_effect(m, circuit, sets, (1, 2)))


def test_the_truth_is_faithful_and_complete(real: tuple[Behaviour, Truth]) -> None:
    behaviour, truth = real
    assert behaviour.changed == 1
    circuit = truth.qkv_edges == State.REQUIRED
    full = abs(behaviour.measure([circuit])[0] - behaviour.full).mean() / behaviour.gap
    assert full < 0.05
    found = completeness(behaviour, circuit)
    assert found.gap.value < 0.05 and found.least_effect.value > 0.3


@pytest.mark.parametrize("name", ["paren_balance", "frac_prevs"])
def test_answers_are_those_of_a_literal_run(name: str) -> None:
    """Of classes, and of numbers, which may differ by a tolerance."""
    checkpoint = load_checkpoint(released()[name])
    made = load_pairs(checkpoint.folder).problem(checkpoint.network, 12)
    behaviour, truth = Behaviour(made), checkpoint.truth
    circuits = [truth.circuit, *some_circuits(made.graph), made.graph.legal]
    found = behaviour.answers(circuits, 0.05)
    for circuit, row in zip(circuits, found):
        assert (row == oracle.answers(made, circuit, 0.05)).all()
    assert found[0].all() and found[-1].all() and not found[1].all()
    whole = sufficiency(behaviour, truth, truth.circuit, 0.05)
    assert (whole.edges, whole.answers.value, whole.needed) == (truth.circuit.sum(), 1.0, 1.0), "and minimal"
    none = sufficiency(behaviour, truth, np.zeros_like(truth.circuit), 0.05)
    assert (whole.held, none.held, none.answers.value, none.needed) == (1, 0, 0, None)


def test_a_circuit_can_be_sufficient_without_being_complete() -> None:
    """Of three copies that vote, two are enough; the complete circuit is not minimal."""
    checkpoint = load_checkpoint(in_regimes()["detect_abc[regime=redundant]"])
    truth = checkpoint.truth
    behaviour = Behaviour(load_pairs(checkpoint.folder).problem(checkpoint.network, 64))
    complete = sufficiency(behaviour, truth, truth.circuit, 0)
    assert complete.held == 1
    assert complete.edges == true_size(truth, any_order=True) > true_size(truth)
    assert complete.answers.value == 1 and complete.needed < 1
    copy = truth.graph.node_index[parse_node("a1.h3")]
    assert (orders_of(truth, "qkv_edge")[:, copy].max(), truth.circuit[:, copy].sum()) == (1, 1)
    fewer = truth.circuit.copy()
    fewer[:, copy] = False
    found = sufficiency(behaviour, truth, fewer, 0)
    assert found.answers.value == 1 and found.held == fewer.sum() / truth.circuit.sum() < 1
    wrong = fewer | (truth.qkv_edges == State.FORBIDDEN)
    assert sufficiency(behaviour, truth, wrong, 0).held == found.held, "what is forbidden does not count"


def test_of_free_edges_any_one_will_do() -> None:
    truth = with_free_edges()
    circuit = np.zeros_like(truth.graph.legal)
    assert held(truth, circuit) == 0
    circuit[np.argwhere(truth.qkv_edges == State.FREE)[1][0], 0] = True
    assert held(truth, circuit) == 0.5
    assert held(truth, truth.qkv_edges == State.FREE) == 0.5
    assert held(truth, truth.circuit) == 1


def test_a_dead_corruption_is_detected() -> None:
    made = problem(1)
    assert Behaviour(replace(made, corrupted=made.clean)).changed == 0


# Hypothesis tests.


def test_the_truth_passes_the_idealised_tests_and_an_empty_circuit_does_not(
    real: tuple[Behaviour, Truth],
) -> None:
    behaviour, truth = real
    circuit = truth.qkv_edges == State.REQUIRED
    found = hypothesis_tests(behaviour, circuit, QUICK)
    assert tuple(found) == TESTS
    for name in ("equivalence", "minimality", "sufficiency"):
        assert found[name].passed, name
    assert found["independence"].p > 0.001  # a test of level 0.05 on what is true
    nothing = hypothesis_tests(behaviour, np.zeros_like(circuit), QUICK)
    assert not any(nothing[name].passed for name in TESTS)
    for one in (*found.values(), *nothing.values()):
        assert one.statistic.kind == "exact"


def test_a_superfluous_edge_is_not_minimal(real: tuple[Behaviour, Truth]) -> None:
    behaviour, truth = real
    circuit = truth.qkv_edges == State.REQUIRED
    circuit[tuple(np.argwhere(truth.qkv_edges == State.FORBIDDEN)[0])] = True
    found = hypothesis_tests(behaviour, circuit, QUICK)["minimality"]
    assert not found.passed and found.statistic.value == pytest.approx((circuit.sum() - 1) / circuit.sum())


def test_what_is_left_of_the_network_must_be_independent(real: tuple[Behaviour, Truth]) -> None:
    behaviour, truth = real
    circuit = truth.qkv_edges == State.REQUIRED
    missing = np.zeros_like(circuit)
    assert independence(behaviour, missing, QUICK).p == pytest.approx(1 / 201)


def test_identical_behaviour_has_a_p_value(behaviour: Behaviour) -> None:
    """All differences are 0: every pair a tie, as good as a fair coin's best outcome."""
    found = equivalence(behaviour, behaviour.graph.legal, HypothesisSettings())
    assert (found.statistic.value, found.p, found.passed) == (0.5, 1, True)


@pytest.mark.parametrize(("wins", "rejected"), [(64, True), (42, False), (55, True)])
def test_equivalence_counts_wins_whatever_their_size(
    behaviour: Behaviour, monkeypatch: pytest.MonkeyPatch, wins: int, rejected: bool
) -> None:
    full = np.zeros(64)
    better = np.where(np.arange(64) < wins, 1.0, -1000.0)  # a mean of differences would be fooled
    monkeypatch.setattr(behaviour, "full", full)
    monkeypatch.setattr(behaviour, "empty", full - 1)
    monkeypatch.setattr(behaviour, "measure", lambda circuits: better[None])
    found = equivalence(behaviour, behaviour.graph.legal, HypothesisSettings(epsilon=0.1, indifference=0))
    assert found.statistic.value == wins / 64
    assert found.passed != rejected


# Stability.


def test_agreement_of_runs() -> None:
    truth = Truth.from_json(
        Graph(2, 2), {k: {"required": [], "allowed": []} for k in ("node", "head_edge", "qkv_edge")}
    )
    graph = truth.graph
    first = np.where(graph.legal, np.arange(graph.legal.size, dtype=float).reshape(graph.legal.shape), np.nan)
    first, tripled, opposed = (Scores(graph, values) for values in (first, 3 * first + 1, -first))
    same = agreement([first, tripled, first], truth, 5)
    assert same.jaccard == Estimate(1, 1, 1, "bootstrap")
    assert same.rank_correlation is not None and same.rank_correlation.value == pytest.approx(1)
    opposite = agreement([first, opposed], truth, 5)
    assert opposite.jaccard.value == 0 and opposite.rank_correlation.value == pytest.approx(-1)
    constant = Scores(graph, np.where(graph.legal, 0.0, np.nan))
    assert agreement([constant, constant], truth, 5).rank_correlation is None
    assert agreement([first], truth, 5) == Stability(1, None, None, {})


@pytest.mark.parametrize("count", [2, 4])
def test_agreement_is_that_of_literal_loops(count: int) -> None:
    edges = {"required": ["embed->m0", "m0->logits"], "allowed": []}
    names = {"node": {"required": [], "allowed": []}, "head_edge": edges, "qkv_edge": edges}
    truth = Truth.from_json(Graph(2, 2), names)
    legal = truth.graph.legal
    runs = [np.random.default_rng(seed).permutation(int(legal.sum())).tolist() for seed in range(count)]
    given = [np.where(legal, np.nan, np.nan) for _ in runs]
    for values, run in zip(given, runs):
        values[legal] = run
    found = agreement([Scores(truth.graph, values) for values in given], truth, 12)
    assert found.jaccard is not None and found.rank_correlation is not None
    assert found.jaccard.value == pytest.approx(oracle.jaccard(runs, 12))
    assert found.rank_correlation.value == pytest.approx(oracle.rank_correlation(runs))
    required = (truth.qkv_edges == State.REQUIRED)[legal].astype(int).tolist()
    assert found.auroc["qkv_edge"].deviation == pytest.approx(oracle.auroc_deviation(required, runs))


def test_stability_tells_methods_from_noise(real: tuple[Behaviour, Truth]) -> None:
    behaviour, truth = real
    eap, random = (
        stability(get_method(name), behaviour.problem, truth, 6, samples=4, others=2)
        for name in ("eap", "random")
    )
    assert eap["pairs"].jaccard.value > 0.8 and eap["seeds"].jaccard.value == 1
    assert eap["seeds"].auroc["qkv_edge"].deviation == 0
    assert random["seeds"].jaccard.value < 0.5 and random["seeds"].runs == 3
    assert eap == stability(get_method("eap"), behaviour.problem, truth, 6, samples=4, others=2)


def test_scores_of_behaviour_do_not_depend_on_what_was_run_before(real: tuple[Behaviour, Truth]) -> None:
    behaviour, truth = real
    again = Behaviour(behaviour.problem)
    circuit = truth.qkv_edges == State.REQUIRED
    again.measure(some_circuits(again.graph, 3))
    assert hypothesis_tests(again, circuit, QUICK) == hypothesis_tests(behaviour, circuit, QUICK)
    assert faithfulness(again, true_scores(truth)) == faithfulness(behaviour, true_scores(truth))


def test_a_circuit_without_nodes_has_none_to_knock_out(behaviour: Behaviour) -> None:
    circuit = np.zeros_like(behaviour.graph.legal)
    circuit[-1, 0] = True  # the embedding straight to the logits
    found = completeness(behaviour, circuit)
    assert (found.nodes, found.sets, found.least_effect.value) == (0, 1, 0)
