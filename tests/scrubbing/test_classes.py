"""Classes: which inputs agree, how much that says, and values that cannot be compared."""

import numpy as np
import pytest

from interpbench.core.errors import TaskError
from interpbench.scrubbing.by_hand import circuit_hypothesis
from interpbench.scrubbing.classes import Classes
from interpbench.scrubbing.hypothesis import Hypothesis, NodeClaim
from interpbench.scrubbing.positions import PositionDraws, position_classes

IDS = np.array([0, 1, 1, 2, 2, 2, 3, 3, 3, 3])


def test_s17_alone_are_inputs_and_not_classes():
    found = Classes.of(IDS, 10)
    assert found.alone == 0.1
    shares = np.array([0.1, 0.2, 0.3, 0.4])
    assert found.effective_size == pytest.approx(np.exp(np.log(10) + (shares * np.log(shares)).sum()))
    assert Classes.of(None, 10).alone == 1.0 and Classes.of(None, 10).effective_size == pytest.approx(1)
    assert Classes.of(np.zeros(10), 10).effective_size == pytest.approx(10)


def test_s17_permuted_classes_have_the_same_sizes_and_other_members():
    found = Classes.of(IDS, 10)
    other = found.permuted(np.random.default_rng(0))
    assert other.sizes.tolist() == found.sizes.tolist() and (other.ids != found.ids).any()


def test_s18_inputs_of_another_class_are_drawn_alike():
    found, rng = Classes.of(IDS, 10), np.random.default_rng(0)
    for place in range(10):
        drawn = found.pick_outside(rng.random(6000), np.full(6000, place))
        others = np.flatnonzero(IDS != IDS[place])
        counts = np.bincount(drawn, minlength=10)
        assert counts[IDS == IDS[place]].sum() == 0
        expected = 6000 / len(others)
        assert ((counts[others] - expected) ** 2 / expected).sum() < 35, "chi-squared, at most 8 degrees"


def test_no_value_is_a_value_and_another_one_than_infinity():
    found = Classes.of(np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, np.nan]), 6)
    assert len(found.sizes) == 4 and found.ids[0] == found.ids[5] and found.ids[3] == found.ids[4]
    pairs = Classes.of(np.array([[1, np.nan], [1, np.inf], [np.nan, 1], [1, np.nan]]), 4)
    assert pairs.ids[0] == pairs.ids[3] and len(pairs.sizes) == 3


def test_values_may_be_words_and_truth_values():
    assert Classes.of(np.array(["a", "b", "a"]), 3).sizes.tolist() == [2, 1]
    assert Classes.of(np.array([True, False, True]), 3, np.array([1, 1, 2])).sizes.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([1, None, 2], "values of type object are no numbers"),
        (np.array([{}, {}, {}]), "values of type object are no numbers"),
        ([[1], [2, 3], [4]], "values have to be one array"),
        (np.zeros((2, 2)), r"values of shape \[2, 2\] are not one for each of 3 inputs"),
    ],
)
def test_values_that_cannot_be_compared_are_refused_by_name(values, said):
    claims = {"x": NodeClaim("x"), "out": NodeClaim("out"), "a": NodeClaim("m0", values)}
    wrong = Hypothesis(claims, [("a", "out")], "x", "out")
    with pytest.raises(TaskError, match=f"claim 'a': {said}"):
        wrong.classes(3)


def test_a_claim_that_does_not_reach_the_output_is_refused_by_name():
    forgotten = circuit_hypothesis(["embed->m0", "m0->m1"], {})
    parents = {"embed": (), "m0": ("embed",), "m1": ("embed", "m0"), "logits": ("embed", "m0", "m1")}
    with pytest.raises(
        TaskError, match="claim 'm0' does not reach the output: no path of edges leads from it"
    ):
        forgotten.check(parents, "embed", "logits")
    circuit_hypothesis([], {}).check(parents, "embed", "logits")


def test_edges_into_heads_all_name_an_input_or_none_does():
    said = r"m0->a1\.h0<v> names an input of a head, so that m0->a1\.h1 has to name one, too"
    with pytest.raises(TaskError, match=said):
        circuit_hypothesis(["m0->a1.h1", "m0->a1.h0<v>", "a1.h0->logits", "a1.h1->logits"], {})


def test_s11_inputs_of_one_length_agree_at_bos_and_others_do_not():
    lengths = np.array([1, 1, 2, 2])
    found = position_classes({"m0": np.zeros((4, 2))}, 3, lengths)["m0"]
    for classes in found:
        np.testing.assert_array_equal(classes.ids[:, None] == classes.ids, lengths[:, None] == lengths)


@pytest.mark.parametrize("sampling", ["edge", "global"])
def test_s8_by_position_other_samplings_are_refused(sampling):
    with pytest.raises(TaskError, match=f"by position, the sampling can be node or exact, not '{sampling}'"):
        PositionDraws(0, 4, 3, Classes.of(np.zeros(4), 4), sampling)
