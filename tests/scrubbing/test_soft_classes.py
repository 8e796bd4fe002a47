"""Soft classes: Sinkhorn's kernel keeps the distribution of inputs, and false claims about numbers lose."""

import numpy as np
import pytest
import torch

from interpbench.core.errors import TaskError
from interpbench.scrubbing.classes import Classes
from interpbench.scrubbing.computational_graph import ComputationalGraph, Operation, scrub_graph
from interpbench.scrubbing.hypothesis import Hypothesis, NodeClaim
from interpbench.scrubbing.path_draws import PathDraws
from interpbench.scrubbing.soft_classes import SoftClasses

COUNT = 400


def test_s19_rows_and_columns_sum_to_one():
    made = SoftClasses.of(np.random.default_rng(0).normal(size=COUNT) ** 3, 0.05)
    np.testing.assert_allclose(made.kernel.sum(0), 1, atol=1e-8)
    np.testing.assert_allclose(made.kernel.sum(1), 1, atol=1e-8)
    np.testing.assert_allclose(made.kernel, made.kernel.T)
    assert 1 < made.effective_size < COUNT / 4 and 0 < made.alone < 1


def test_s19_drawn_inputs_are_distributed_as_the_inputs_are():
    rng = np.random.default_rng(0)
    made = SoftClasses.of(rng.normal(size=10), 0.5)
    drawn = made.pick(rng.random(100_000), np.tile(np.arange(10), 10_000))
    assert ((np.bincount(drawn, minlength=10) - 10_000) ** 2 / 10_000).sum() < 30, "chi-squared, 9 degrees"


def test_a_wide_kernel_is_that_of_equal_values_and_a_narrow_one_keeps_all():
    values = np.linspace(0, 1, 7)
    np.testing.assert_allclose(SoftClasses.of(values, 1e4).kernel, 1 / 7, atol=1e-6)
    np.testing.assert_allclose(SoftClasses.of(values, 1e-3).kernel, np.eye(7), atol=1e-6)
    inputs = np.arange(7)
    assert (SoftClasses.of(values, 1e-3).pick(np.full(7, 0.7), inputs) == inputs).all()


@pytest.mark.parametrize(("true", "soft"), [(True, True), (False, True), (False, False)])
def test_s19_a_false_claim_about_a_number_passes_with_exact_classes_alone(true, soft):
    rng = np.random.default_rng(0)
    data = rng.random((COUNT, 2))
    graph = ComputationalGraph(
        {
            "x": Operation((), lambda x: x),
            "node": Operation(("x",), lambda x: x[:, 0]),
            "out": Operation(("node",), lambda node: node),
        },
        "out",
    )
    claims = {
        "x": NodeClaim("x"),
        "node": NodeClaim("node", data[:, 0 if true else 1]),
        "out": NodeClaim("out"),
    }
    hypothesis = Hypothesis(claims, [("x", "node"), ("node", "out")], "x", "out")
    draws = PathDraws(0, 4000, Classes.of(np.zeros(COUNT), COUNT))
    classes = hypothesis.classes(COUNT)
    if soft:
        classes["node"] = SoftClasses.of(data[:, 0 if true else 1], 0.05)
    found = scrub_graph(graph, hypothesis, torch.from_numpy(data), draws, classes).numpy()
    labels = data[draws.root, 0]
    lost, shuffled = np.mean((found - labels) ** 2), 2 * labels.var()
    recovered = 100 * (1 - lost / shuffled)
    if soft:
        assert recovered > 99 if true else recovered < 20
    else:
        assert recovered == pytest.approx(100), "no two inputs share a number: the claim is vacuous"
        assert classes["node"].alone == 1


def test_what_is_no_number_is_refused():
    with pytest.raises(TaskError, match="finite values"):
        SoftClasses.of(np.array([0.0, np.nan]), 0.1)
    with pytest.raises(TaskError, match="a positive width, not 0"):
        SoftClasses.of(np.zeros(3), 0)


def test_s19_inputs_of_another_length_are_not_exchanged():
    lengths = np.repeat([1, 2], 10)
    made = SoftClasses.of(np.random.default_rng(0).normal(size=20), 1.0, lengths)
    assert (made.kernel[lengths[:, None] != lengths] == 0).all()
    drawn = made.pick(np.random.default_rng(1).random(2000), np.arange(2000) % 20)
    np.testing.assert_array_equal(lengths[drawn], lengths[np.arange(2000) % 20])


def expected_percent(made: SoftClasses, output: np.ndarray) -> float:
    """Returns what is recovered of an output, the mean over the kernel without a sample drawn."""
    lost = (made.kernel * (output[:, None] - output) ** 2).sum() / len(output)
    return 100 * (1 - lost / (2 * output.var()))


def test_s19_a_claim_about_an_independent_number_recovers_how_often_the_kernel_keeps_inputs():
    """The loss of an exchanged input is that of a shuffled one, so that the kernel's diagonal is left.

    With the width 0.05, that is 8 % of 400 uniform numbers. The figure of 44.6 % (a trial whose number of
    inputs is not known) is that of about 55; it cannot be had to the digit.
    """
    for count, alone in ((400, 8), (55, 44.6)):
        found: list[float] = []
        for seed in range(40):
            output, other = np.random.default_rng(seed).random((2, count))
            made = SoftClasses.of(other, 0.05)
            assert expected_percent(SoftClasses.of(output, 0.05), output) > 99.7
            found.append(expected_percent(made, output) - 100 * made.alone)
        assert np.mean(found) == pytest.approx(0, abs=4 * np.std(found) / 40**0.5 + 0.5)
        assert 100 * made.alone == pytest.approx(alone, abs=5)


def test_too_many_inputs_are_refused(monkeypatch):
    monkeypatch.setattr("interpbench.scrubbing.soft_classes.MOST", 10)
    with pytest.raises(TaskError, match="at most 10 inputs, not 11"):
        SoftClasses.of(np.arange(11.0), 0.1)
