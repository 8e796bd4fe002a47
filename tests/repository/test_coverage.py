"""Coverage of stated uncertainties: of a mean that is easy to estimate, and of one that is not."""

import json

import numpy as np
import pytest

from benchmarks.coverage import METHODS, PAIRS, RESULTS, TASKS, Coverage, coverage, of_single_pairs, pools
from benchmarks.power import VALUES, dialled
from interpbench.checkpoints.checkpoint_files import in_regimes
from interpbench.checkpoints.load import load_checkpoint
from interpbench.discovery.isolated_run import apply
from interpbench.discovery.method import get_method
from interpbench.tasks.problem import Pairs


def test_intervals_of_what_is_normal_hold_it_and_those_of_what_is_rare_do_not() -> None:
    rng = np.random.default_rng(0)
    normal = rng.normal(5, 1, (200, 2))
    held, blind = coverage(normal, normal, 0.5, rng)
    assert (held > 0.9).all() and (held < 0.98).all() and blind == 0
    zero, one = np.zeros((200, 1)), np.ones((200, 1))
    held, blind = coverage(zero, one, 0.01, rng)
    assert blind == pytest.approx(0.99**PAIRS, abs=0.08)
    assert held[0] == pytest.approx(1 - blind, abs=0.03), "whatever is seen once, a resample may lack"
    assert coverage(zero, one, 0.0001, rng)[0] < 0.05
    high = coverage(np.zeros((200, 1)), np.ones((200, 1)), 0.95, rng)[0]
    low = coverage(np.ones((200, 1)), np.zeros((200, 1)), 0.95, rng)[0]
    assert high == pytest.approx(low, abs=0.05) and high > 0.8, "both ends of the interval count"


def test_scores_of_single_pairs_have_the_mean_of_the_score_of_all() -> None:
    checkpoint = load_checkpoint(in_regimes()["trend_to_next[regime=rare]"])
    edges, (without, having) = dialled(checkpoint, "share"), pools("trend_to_next")
    token = int(np.setdiff1d(having.clean.numpy(), without.clean.numpy()).item())
    assert (having.clean == token).any(1).all() and not (without.clean == token).any()
    some = Pairs(*(each[:6] for each in (having.clean, having.corrupted, having.scored)))
    for method in METHODS:
        single = of_single_pairs(checkpoint, method, some, edges)
        whole = apply(get_method(method, METHODS[method]), some.problem(checkpoint.network), method).edges[
            edges
        ]
        assert np.allclose(single.mean(0), whole, rtol=1e-3, atol=1e-5), method


def test_the_stored_numbers_are_whole() -> None:
    every = [Coverage(**{**one, "covered": tuple(one["covered"])}) for one in json.loads(RESULTS.read_text())]
    assert {(one.task, one.method, one.share) for one in every} == {
        (task, method, share) for task in TASKS for method in METHODS for share in VALUES["share"]
    }
    exact = [np.mean(one.covered) for one in every if one.method == "exact" and one.share == 0.01]
    assert max(exact) < 0.3
