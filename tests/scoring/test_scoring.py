"""Scores of rankings against brute force and hand examples."""

import json
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score, roc_curve

from interpbench.checkpoints.checkpoint_files import released
from interpbench.checkpoints.load import load_checkpoint
from interpbench.circuits.graph import Graph
from interpbench.circuits.ground_truth import LEVELS, State, Truth
from interpbench.circuits.ordered_scores import edge_scores
from interpbench.circuits.scores import Scores
from interpbench.core import seeds
from interpbench.core.errors import ScoresError
from interpbench.core.estimate import Estimate
from interpbench.discovery.method import get_method
from interpbench.scoring.circuits_from_scores import SIZES, grown
from interpbench.scoring.curves import compare, score
from interpbench.scoring.evaluation_record import EvaluationRecord, degenerate
from interpbench.scoring.intervals import auroc_interval
from interpbench.scoring.mib import mib_auroc
from interpbench.scoring.nulls import beats_random, random_null
from interpbench.scoring.ranking_metrics import RANKING
from interpbench.scoring.results import LevelScores, RunCost
from interpbench.scoring.row_metrics import ROW
from interpbench.tasks.problem import Pairs
from interpbench.transformer.model import Transformer
from tests.oracles import scoring as oracle

GRAPH = Graph(2, 2)
NUMBERS = ("auroc", "average_precision", "staircase", "precision_at_size")


def ranked(truth: list[int], scores: list[float]) -> LevelScores:
    return score(np.array(truth, bool), np.array(scores, float))


@st.composite
def rankings(draw: st.DrawFn, most: int = 12) -> tuple[list[int], list[float]]:
    """Small whole-number scores, so that many tie; both classes occur."""
    items = draw(st.lists(st.tuples(st.integers(0, 1), st.integers(-2, 2)), max_size=most - 2))
    items += [(1, draw(st.integers(-2, 2))), (0, draw(st.integers(-2, 2)))]
    return [truth for truth, _ in items], [float(value) for _, value in items]


@pytest.mark.parametrize("metric", [name for name, metric in RANKING.items() if metric.compute])
@given(ranking=rankings(most=6))
def test_numbers_of_rankings_are_those_of_literal_loops(
    metric: str, ranking: tuple[list[int], list[float]]
) -> None:
    assert ranked(*ranking).value(metric) == pytest.approx(oracle.RANKING[metric](*ranking))


def test_every_metric_that_scores_a_method_has_an_oracle() -> None:
    assert oracle.RANKING.keys() == RANKING.keys()
    assert oracle.ROW.keys() == {name for name, one in ROW.items() if one.table in ("behaviour", "stability")}


@given(rankings())
def test_staircase_is_never_above_auroc(ranking: tuple[list[int], list[float]]) -> None:
    curve = ranked(*ranking)
    staircase = curve.value("staircase")
    assert staircase is not None and curve.auroc is not None
    assert 0 <= staircase <= curve.auroc + 1e-12
    assert curve.roc[0] == (0, 0) and curve.roc[-1] == (1, 1)


def test_a_hand_example() -> None:
    curve = ranked([1, 0, 1, 0], [4, 3, 2, 1])
    assert (curve.positives, curve.negatives) == (2, 2)
    assert curve.roc == ((0, 0), (0, 0.5), (0.5, 0.5), (0.5, 1), (1, 1))
    assert curve.auroc == 3 / 4
    assert curve.average_precision == pytest.approx((1 + 2 / 3) / 2)
    assert curve.value("staircase") == 1 * 0.5 + 0.5 * 0.5
    assert curve.value("precision_at_size") == 0.5


def test_a_hand_example_with_ties() -> None:
    curve = ranked([1, 0, 1, 0], [3, 2, 2, 1])  # one hit, then a hit and a miss at once, then a miss
    assert curve.roc == ((0, 0), (0, 0.5), (0.5, 1), (1, 1))
    assert curve.auroc == (1 + 1 + 0.5 + 1) / 4
    assert curve.average_precision == pytest.approx(0.5 * 1 + 0.5 * 2 / 3)
    assert curve.value("staircase") == 1 * 0.5 + 0.5 * 0.5  # the tie counts as if the miss came first
    assert curve.value("precision_at_size") == (1 + 0.5) / 2


def test_the_staircase_of_all_ties_is_nothing() -> None:
    curve = ranked([1, 0, 1, 0], [7, 7, 7, 7])
    assert (
        curve.auroc,
        curve.value("staircase"),
        curve.average_precision,
        curve.value("precision_at_size"),
    ) == (
        0.5,
        0,
        0.5,
        0.5,
    )


@pytest.mark.parametrize("truth", [[], [1, 1], [0, 0]])
def test_without_one_of_the_classes_there_is_no_score(truth: list[int]) -> None:
    curve = ranked(truth, [1.0] * len(truth))
    assert (curve.positives, curve.negatives) == (sum(truth), len(truth) - sum(truth))
    assert [curve.value(name) for name in NUMBERS] == [None] * 4
    assert curve.roc == ()


# The AUROC of MIB.


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("shape", [(2, 2), (1, 3), (3, 1)], ids=str)
def test_mib_auroc_is_that_of_circuits_that_grow(shape: tuple[int, int], seed: int) -> None:
    graph, rng = Graph(*shape), np.random.default_rng(seed)
    values = rng.permutation(graph.legal.size).reshape(graph.legal.shape)
    circuit = graph.legal & (rng.random(graph.legal.shape) < 0.3)
    wanted = oracle.mib_auroc(graph, circuit, values, SIZES)
    assert mib_auroc(graph, circuit, np.where(graph.legal, values, np.nan)) == pytest.approx(
        wanted, abs=1e-12
    )


def test_of_equal_edges_that_into_what_was_read_first_is_next() -> None:
    values = np.where(GRAPH.legal, 0.0, np.nan)
    order = [
        (str(GRAPH.nodes[w]), str(GRAPH.readers[r])) for r, w in grown(GRAPH, values, seeds.generator(0))
    ]
    assert order[:7] == [(str(node), "logits") for node in GRAPH.nodes]
    assert [reader.split("<")[0] for _, reader in order[7:]] == [
        *(["a0.h0"] * 3 + ["a0.h1"] * 3 + ["m0"] * 3),
        *(["a1.h0"] * 12 + ["a1.h1"] * 12 + ["m1"] * 6),
    ]


def test_mib_auroc_of_one_class_is_none() -> None:
    values = np.where(GRAPH.legal, 1.0, np.nan)
    assert (
        mib_auroc(GRAPH, np.zeros_like(GRAPH.legal), values) is mib_auroc(GRAPH, GRAPH.legal, values) is None
    )


def test_only_edges_have_mib_auroc(truth: Truth) -> None:
    """The circuit itself does not get 1 where the first size is too small for it: less of it, by the size."""
    curves = compare(truth, scores_like(truth, 2, 1, 0))
    assert curves["node"].value("mib_auroc") is curves["head_edge"].value("mib_auroc") is None
    mib = curves["qkv_edge"].metrics["mib_auroc"]
    assert mib.kind == "none" and 0.8 < mib.value <= 1


# Truth against a method's scores.


@pytest.fixture
def truth() -> Truth:
    return Truth.from_json(
        GRAPH,
        {
            "node": {"required": ["embed", "a0.h1", "m1"], "allowed": ["m0"]},
            "head_edge": {"required": ["embed->a0.h1", "a0.h1->m1"], "allowed": ["m0->m1"]},
            "qkv_edge": {"required": ["embed->a0.h1<v>", "a0.h1->m1"], "allowed": ["m0->m1"]},
        },
    )


def scores_like(truth: Truth, required: float, allowed: float, forbidden: float) -> Scores:
    value = {
        State.REQUIRED: required,
        State.ALLOWED: allowed,
        State.FORBIDDEN: forbidden,
        State.ILLEGAL: np.nan,
    }
    nodes = np.array([value[State(state)] for state in truth.nodes])
    edges = np.array([[value[State(state)] for state in row] for row in truth.qkv_edges])
    return Scores(truth.graph, edges, nodes)


def test_the_perfect_and_the_worst_ranking(truth: Truth) -> None:
    for level, curve in compare(truth, scores_like(truth, 1, 0, 0)).items():
        assert [curve.value(name) for name in NUMBERS] == [1] * 4, level
    worst = compare(truth, scores_like(truth, -1, 0, 0))
    for level in ("node", "qkv_edge"):  # of a head edge, the best of q, k and v counts
        assert (
            worst[level].auroc,
            worst[level].value("staircase"),
            worst[level].value("precision_at_size"),
        ) == (0, 0, 0)


def test_allowed_is_left_out_unless_structural(truth: Truth) -> None:
    scores = scores_like(truth, 1, -1, 0)  # the allowed rank last
    legal = {
        "node": len(GRAPH.nodes) - 1,
        "head_edge": GRAPH.legal_head_edges.sum(),
        "qkv_edge": GRAPH.legal.sum(),
    }
    for level, curve in compare(truth, scores).items():
        assert curve.positives == 2 and curve.auroc == 1
        assert curve.positives + curve.negatives == legal[level] - 1
    for level, curve in compare(truth, scores, structural=True).items():
        assert curve.positives == 3 and curve.auroc == pytest.approx(2 / 3)
        assert curve.positives + curve.negatives == legal[level]
    assert truth.count("node", State.ALLOWED) == 1  # compare leaves its arguments alone


def test_the_embedding_is_no_finding(truth: Truth) -> None:
    scores = scores_like(truth, 1, 0, 0)
    scores.own_nodes[0] = -100  # type: ignore[index]
    assert compare(truth, scores)["node"].auroc == 1


def test_random_scores_average_one_half(truth: Truth, random_transformer: Callable[..., Transformer]) -> None:
    network, method, draws = random_transformer(), get_method("random"), 50
    assert network.cfg.graph == GRAPH
    tokens = torch.zeros(1, 5, dtype=torch.int64)
    pairs = Pairs(tokens, tokens, tokens.bool())
    curves = [compare(truth, method(pairs.problem(network, seed=seed))) for seed in range(draws)]
    for level in LEVELS:
        values = [curve[level].auroc for curve in curves]
        first = curves[0][level]
        expected_error = np.sqrt(
            (first.positives + first.negatives + 1) / (12 * first.positives * first.negatives)
        )
        assert np.mean(values) == pytest.approx(0.5, abs=4 * expected_error / np.sqrt(draws)), level
        assert np.std(values) > expected_error / 2


def test_records_are_plain_finite_json(truth: Truth) -> None:
    scores = scores_like(truth, 1, 0, 0)
    levels = compare(truth, scores)
    record = EvaluationRecord(
        "task", "hash", "exact", {}, 0, False, levels, RunCost(**vars(scores.cost)), 0.1, edge_scores(scores)
    )
    data = json.loads(json.dumps(record.to_json(), allow_nan=False))
    (low, high) = levels["node"].metrics["auroc"].ends
    assert data["levels"]["node"]["metrics"]["auroc"] == [1, low, high, "score"]
    assert len(data["edges"]["values"]) == len(GRAPH.edges)
    place = list(map(str, GRAPH.edges)).index("embed->a0.h1<v>")
    assert data["edges"]["values"][place] == 1
    np.testing.assert_array_equal(record.edges.array(GRAPH.edges), scores.edges[GRAPH.legal])
    with pytest.raises(ScoresError, match="scores are not of the"):
        record.edges.array(GRAPH.edges[::-1])


# Other numbers, intervals, nulls.


@given(rankings())
def test_sklearn_says_the_same(ranking: tuple[list[int], list[float]]) -> None:
    curve = ranked(*ranking)
    assert curve.auroc == pytest.approx(roc_auc_score(*ranking))
    assert curve.average_precision == pytest.approx(average_precision_score(*ranking))
    points = {(round(x, 9), round(y, 9)) for x, y in curve.roc}
    every = {(round(x, 9), round(y, 9)) for x, y, _ in zip(*roc_curve(*ranking, drop_intermediate=False))}
    assert points <= every
    x, y = zip(*curve.roc)
    assert np.trapezoid(y, x) == pytest.approx(curve.auroc)  # what is left out lies on straight lines


@given(rankings())
def test_best_f1_is_that_of_some_threshold(ranking: tuple[list[int], list[float]]) -> None:
    truth, scores = ranking
    best = max(f1_score(truth, [value >= cut for value in scores]) for cut in scores)
    assert ranked(*ranking).value("best_f1") == pytest.approx(best)


@given(rankings())
def test_every_number_is_in_its_interval(ranking: tuple[list[int], list[float]]) -> None:
    found = ranked(*ranking).metrics
    assert list(found) == [name for name, metric in RANKING.items() if metric.compute]
    for name, one in found.items():
        low, high = one.ends
        assert RANKING[name].range[0] <= low <= high <= RANKING[name].range[1]
        if one.kind != "bootstrap":  # which may miss what it resamples
            assert low <= one.value <= high


def test_nothing_to_tell_apart_has_neither_numbers_nor_intervals() -> None:
    assert ranked([1, 1], [1.0, 2.0]).metrics == {}


@pytest.mark.parametrize(("hits", "tries"), [(0, 5), (5, 5), (3, 7), (12, 13)])
def test_the_exact_interval_of_a_share(hits: int, tries: int) -> None:
    reference = binomtest(hits, tries).proportion_ci(0.95, "exact")
    assert Estimate.share(hits, tries).ends == pytest.approx((reference.low, reference.high))


def test_the_interval_of_auroc_solves_its_equation() -> None:
    m, n, z = 6, 100, 1.959963985
    for auroc in (0.0, 0.3, 0.5, 0.87, 0.999, 1.0):
        low, high = auroc_interval(auroc, m, n).ends
        assert 0 <= low <= auroc <= high <= 1
        for x in (low, high):
            q1, q2 = x / (2 - x), 2 * x * x / (1 + x)  # Hanley & McNeil (1982), both samples of mean size
            size = (m + n) / 2
            variance = (x * (1 - x) + (size - 1) * (q1 - x * x) + (size - 1) * (q2 - x * x)) / (m * n)
            if 0 < x < 1 and abs(x - auroc) > 1e-6:
                assert abs(auroc - x) == pytest.approx(z * variance**0.5, rel=1e-4)
    low, high = auroc_interval(0.8, m, n).ends
    assert auroc_interval(0.2, m, n).ends == pytest.approx((1 - high, 1 - low))
    assert auroc_interval(1.0, 2, 107).ends[0] < 0.7  # two required edges prove little


def test_the_bootstrap_covers() -> None:
    """The interval of a mean of drawn rankings contains the truth about as often as it says."""
    rng = np.random.default_rng(0)
    truth = np.arange(60) < 20
    inside = 0
    for _ in range(100):
        low, high = score(truth, rng.normal(size=60) + truth).metrics["staircase"].ends
        inside += low <= 0.7602 <= high  # P(N(1, 2) > 0)
    assert 88 <= inside <= 100


def test_random_scores_are_the_null() -> None:
    null = random_null(3, 60)
    expected_error = np.sqrt((3 + 60 + 1) / (12 * 3 * 60) / len(null["auroc"]))
    assert null["auroc"].mean() == pytest.approx(0.5, abs=4 * expected_error)
    assert null["precision_at_size"].mean() == pytest.approx(3 / 63, abs=0.02)
    assert beats_random("auroc", 1.0, 3, 60) < 0.005 and beats_random("auroc", 0.5, 3, 60) > 0.4
    assert beats_random("auroc", 0.0, 3, 60) == 1


def test_degenerate_models_are_named(truth: Truth) -> None:
    assert degenerate(truth) == []
    names = truth.to_json()
    names["qkv_edge"]["required"] = []
    assert degenerate(Truth.from_json(GRAPH, names)) == ["no required q/k/v edge"]


def test_records_survive_being_written(truth: Truth) -> None:
    scores = scores_like(truth, 1, 0, 0)
    levels = compare(truth, scores)
    record = EvaluationRecord("task", "hash", "exact", {}, 0, False, levels, None, 0.1, edge_scores(scores))
    assert EvaluationRecord.from_json(json.loads(json.dumps(record.to_json()))) == record


def test_a_record_with_a_number_that_there_is_no_more_is_refused_by_its_name(truth: Truth) -> None:
    scores = scores_like(truth, 1, 0, 0)
    record = EvaluationRecord(
        "task", "hash", "exact", {}, 0, False, compare(truth, scores), None, 0.1, edge_scores(scores)
    )
    data = record.to_json()
    data["levels"]["node"]["ten_sizes"] = 0.5
    with pytest.raises(ScoresError, match=r"old\.json is damaged: levels\.node\.ten_sizes: unknown key"):
        EvaluationRecord.from_json(data, "old.json")


def test_scores_beyond_single_precision_are_scored_without_a_warning():
    """MIB's metric has single precision, in which they are infinite and alike."""
    truth = load_checkpoint(released()["hist"]).truth
    legal = truth.graph.legal
    scores = np.where(legal, np.where(truth.circuit, 1e308, -1e308), np.nan)
    metrics = compare(truth, Scores(truth.graph, scores, None))["qkv_edge"].metrics
    assert metrics["auroc"].value == 1.0 and metrics["mib_auroc"].value > 0.99
