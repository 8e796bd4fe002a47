"""Hypotheses whose scrubbed loss can be computed by hand, about functions that are no transformers."""

import numpy as np
import pytest
import torch

from interpbench.core.errors import TaskError
from interpbench.scrubbing.classes import Classes
from interpbench.scrubbing.computational_graph import ComputationalGraph, scrub_graph
from interpbench.scrubbing.hypothesis import Hypothesis, NodeClaim
from interpbench.scrubbing.path_draws import PathDraws
from interpbench.scrubbing.recovered import ScoredLabels, recovered
from interpbench.scrubbing.refine import join
from interpbench.scrubbing.rewrites import merge_nodes
from tests.scrubbed_graphs import draws, graph, hypothesis, near

DIGITS = torch.arange(10.0)


def left_out() -> tuple[ComputationalGraph, torch.Tensor, Hypothesis]:
    """Returns a function with a term 3 x0 that a hypothesis leaves out, x0 and x1 being digits."""
    data = torch.cartesian_prod(DIGITS, DIGITS)
    made = graph(
        x=(lambda x: x,),
        term=(lambda x: 3 * x[:, 0], "x"),
        rest=(lambda x: x[:, 1] ** 2, "x"),
        out=(lambda term, rest: term + rest, "term", "rest"),
    )
    return made, data, hypothesis("x to rest", "rest to out")


def test_s7_s12_a_term_that_is_left_out_is_resampled():
    made, data, claimed = left_out()
    drawn = draws(len(data))
    found = scrub_graph(made, claimed, data, drawn)
    near((found - made.run(data)["out"][drawn.root]).abs(), 9.9)


def test_s8_it_is_kept_if_nothing_is_resampled():
    made, data, claimed = left_out()
    drawn = draws(len(data), "exact")
    found = scrub_graph(made, claimed, data, drawn)
    torch.testing.assert_close(found, made.run(data)["out"][drawn.root])


@pytest.mark.parametrize(
    ("sampling", "wanted"), [("node", 0.0), ("global", 0.0), ("edge", 3.3), ("exact", 0.0)]
)
def test_s8_parents_that_cancel_do_so_if_they_share_a_draw(sampling, wanted):
    made = graph(
        x=(lambda x: x,),
        plus=(lambda x: x, "x"),
        minus=(lambda x: -x, "x"),
        out=(lambda plus, minus: plus + minus, "plus", "minus"),
    )
    found = scrub_graph(made, hypothesis(), DIGITS, draws(10, sampling))
    near(found.abs(), wanted)


def test_s6_it_does_not_matter_how_an_unimportant_sum_is_cut():
    data = torch.cartesian_prod(DIGITS, DIGITS)
    whole = graph(
        x=(lambda x: x,),
        important=(lambda x: x[:, 1], "x"),
        sum=(lambda x: 3 * x[:, 0] + x[:, 1], "x"),
        out=(lambda *read: sum(read), "important", "sum"),
    )
    cut = graph(
        x=(lambda x: x,),
        important=(lambda x: x[:, 1], "x"),
        first=(lambda x: 3 * x[:, 0], "x"),
        second=(lambda x: x[:, 1], "x"),
        out=(lambda *read: sum(read), "important", "first", "second"),
    )
    claimed, drawn = hypothesis("x to important", "important to out"), draws(100)
    torch.testing.assert_close(
        scrub_graph(whole, claimed, data, drawn), scrub_graph(cut, claimed, data, drawn)
    )


def test_s9_an_unimportant_parent_may_be_a_node_with_a_single_value():
    """The isomorphic form: what is unimportant is a claim whose values are all equal."""
    made, data, claimed = left_out()
    said = hypothesis("x to rest", "rest to out", "x to term", "term to out", term=np.zeros(len(data)))
    apart, together = (scrub_graph(made, each, data, draws(len(data))) for each in (claimed, said))
    own = made.run(data)["out"]
    root = torch.from_numpy(draws(len(data)).root)
    for found in (apart, together):
        near((found - own[root]).abs(), 9.9)


class OfUnitType(PathDraws):
    """Draws by which the node `merged` gets the input that unimportant parents get without it."""

    def agreeing(self, path, classes, current):
        above, _, name = path.rpartition("/")
        return (
            self.other(above, current, "") if name == "merged" else super().agreeing(path, classes, current)
        )


def test_s9_unimportant_parents_that_are_one_node_of_unit_type_give_the_same_numbers():
    """Two nodes whose values do not only add up: with the same draws, bit for bit."""
    data = torch.cartesian_prod(DIGITS, DIGITS)
    made = graph(
        x=(lambda x: x,),
        one=(lambda x: x[:, 0], "x"),
        two=(lambda x: x[:, 1] + 1, "x"),
        kept=(lambda x: x.sum(1), "x"),
        out=(lambda one, kept, two: (one + 1) ** 2 * two - kept, "one", "kept", "two"),
    )
    merged = merge_nodes(made, ("one", "two"), "merged", data)
    assert merged.parents["out"] == ("kept", "merged")
    claimed = hypothesis("x to kept", "kept to out", kept=data.sum(1))
    edges = ("x to kept", "kept to out", "x to merged", "merged to out")
    unit = hypothesis(*edges, kept=data.sum(1), merged=np.zeros(100))
    drawn = OfUnitType(0, 2000, Classes.of(np.zeros(100), 100))
    found = scrub_graph(made, claimed, data, drawn)
    assert torch.equal(found, scrub_graph(merged, unit, data, drawn))
    assert (found != made.run(data)["out"][drawn.root]).float().mean() > 0.9


def test_s13_an_inhibitor_that_is_ignored_makes_the_scrubbed_network_better():
    """It fires on a share q of inputs, all with label 1, and makes their output wrong."""
    labels = torch.tensor([0] * 10 + [1] * 10)
    fires = torch.tensor([0] * 15 + [1] * 5)
    data = torch.stack([labels, fires], 1)
    made = graph(
        x=(lambda x: x,),
        label=(lambda x: x[:, 0], "x"),
        inhibitor=(lambda x: x[:, 1], "x"),
        out=(lambda label, inhibitor: label * (1 - inhibitor), "label", "inhibitor"),
    )
    q = 0.25
    assert float((made.run(data)["out"] == labels).float().mean()) == 1 - q
    drawn = draws(20)
    found = scrub_graph(made, hypothesis("x to label", "label to out"), data, drawn)
    near((found == labels[drawn.root]).float(), 1 - q / 2)


def test_s12_a_loss_may_be_kept_by_another_function():
    """Of a sine whose labels are all 0, any input will do: the loss is kept, and the outputs are not."""
    angles = torch.linspace(0, 2 * torch.pi, 401)[:-1].double()
    made = graph(x=(lambda x: x,), sine=(torch.sin, "x"), out=(lambda sine: sine, "sine"))
    drawn = draws(400)
    found = scrub_graph(made, hypothesis(), angles, drawn)
    assert float(angles.sin().square().mean()) == pytest.approx(0.5)
    near(found.square(), 0.5)
    near((found - angles.sin()[drawn.root]).square(), 1.0)


K, A, B = 10, 1.0, 0.8


def polysemantic() -> tuple[torch.Tensor, torch.Tensor, dict[str, float]]:
    """Returns all pairs of two variables of kurtosis K, their labels, and the best neuron's loss."""
    one = torch.tensor([-(K**0.5), K**0.5] + [0.0] * (2 * K - 2), dtype=torch.float64)
    c2 = (K**2 * A - 2 * K * B - 3 * A) / (K**2 - 9)
    d2 = (K**2 * B - 2 * K * A - 3 * B) / (K**2 - 9)
    loss = K * (A - c2) ** 2 + K * (B - d2) ** 2 + 2 * (A - c2) * (B - d2) + 4 * c2 * d2
    data = torch.cartesian_prod(one, one)
    return data, A * data[:, 0] ** 2 + B * data[:, 1] ** 2, {"c2": c2, "d2": d2, "loss": loss}


def test_s15_a_polysemantic_neuron_has_the_loss_that_it_should():
    data, labels, known = polysemantic()
    assert (known["c2"] ** 0.5, known["d2"] ** 0.5) == pytest.approx((0.9435, 0.7956), abs=1e-4)
    neuron = (known["c2"] ** 0.5 * data[:, 0] + known["d2"] ** 0.5 * data[:, 1]) ** 2
    assert float((labels - neuron).square().mean()) == pytest.approx(known["loss"])


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_s10_interference_that_is_resampled_in_parts_is_less(parts):
    """Resampled together it costs what it did; in m independent parts, 4 c² d² (1 - 1/m) less."""
    data, labels, known = polysemantic()
    c, d = known["c2"] ** 0.5, known["d2"] ** 0.5
    names = [f"part{number}" for number in range(parts)]
    made = graph(
        x=(lambda x: x,),
        squares=(lambda x: (c * x[:, 0]) ** 2 + (d * x[:, 1]) ** 2, "x"),
        **{name: (lambda x: 2 * c * d * x[:, 0] * x[:, 1] / parts, "x") for name in names},
        out=(lambda *read: sum(read), "squares", *names),
    )
    drawn = draws(len(data), "edge")
    found = scrub_graph(made, hypothesis("x to squares", "squares to out"), data, drawn)
    near(
        (found - labels[drawn.root]).square(), known["loss"] - 4 * known["c2"] * known["d2"] * (1 - 1 / parts)
    )


def test_s13_zeroing_what_should_be_resampled_makes_it_look_better():
    data, labels, known = polysemantic()
    squares = known["c2"] * data[:, 0] ** 2 + known["d2"] * data[:, 1] ** 2
    assert float((labels - squares).square().mean()) == pytest.approx(
        known["loss"] - 4 * known["c2"] * known["d2"]
    )


def test_s15_correlated_features_that_stand_for_each_other_are_a_limit():
    """Two detectors of features that always agree may be exchanged, and nobody notices."""
    data = torch.stack([DIGITS, DIGITS], 1)
    made = graph(
        x=(lambda x: x,),
        first=(lambda x: x[:, 0], "x"),
        second=(lambda x: x[:, 1], "x"),
        out=(lambda first, second: first + second, "first", "second"),
    )
    drawn = draws(10)
    own = made.run(data)["out"][drawn.root]
    swapped = hypothesis(
        "x to first", "x to second", "first to out", "second to out", first=data[:, 1], second=data[:, 0]
    )
    torch.testing.assert_close(scrub_graph(made, swapped, data, drawn), own)
    near((scrub_graph(made, hypothesis(), data, drawn) - own).abs(), 6.6)


def interchange_losses(made: ComputationalGraph, data: torch.Tensor, bits: torch.Tensor) -> dict[str, float]:
    """Returns the loss of interchange training of the aligned node, the mean over all pairs of inputs.

    The causal model is one bit, which h1 carries and the output gives as a sign: with the value of h1 on a
    source, the output has to be the source's.

    Args:
        made: the network.
        data: the inputs, `[N, ...]`.
        bits: the bit on each input, `[N]`.
    """
    count = len(data)
    bases, sources = torch.cartesian_prod(torch.arange(count), torch.arange(count)).T
    clean, out = made.run(data), made.operations["out"]
    read = [clean[name][sources if name == "h1" else bases] for name in out.parents]
    return {"h1": float((out.compute(*read) - (2 * bits[sources] - 1)).square().mean())}


def test_s15_zero_loss_of_interchanges_is_not_enough():
    """Counterexample A: an activation that never occurs makes all outputs wrong, and no swap can say so."""
    data = torch.tensor([0.0, 1.0])
    made = graph(
        x=(lambda x: x,),
        h1=(lambda x: x, "x"),
        h2=(lambda x: 0 * x, "x"),
        out=(lambda h1, h2: (2 * h1 - 1) * (1 - 2 * h2), "h1", "h2"),
    )
    assert interchange_losses(made, data, data) == {"h1": 0.0}
    drawn = draws(2)
    claimed = hypothesis("x to h1", "h1 to out", h1=data)
    right = 2 * data[drawn.root] - 1
    torch.testing.assert_close(scrub_graph(made, claimed, data, drawn), right)
    done = made.operations["out"].compute(data, torch.ones(2))
    assert (done.sign() != (2 * data - 1).sign()).all()


def test_s15_what_the_strict_term_sees_scrubbing_sees():
    """Counterexample B: h2 equals z, which the output subtracts again; swapping h2 alone shows it."""
    data = torch.cartesian_prod(torch.tensor([0.0, 1.0]), torch.tensor([0.0, 1.0]))
    made = graph(
        x=(lambda x: x,),
        h1=(lambda x: x[:, 0], "x"),
        h2=(lambda x: x[:, 1], "x"),
        z=(lambda x: x[:, 1], "x"),
        out=(lambda h1, h2, z: (2 * h1 - 1) + 2 * (h2 - z), "h1", "h2", "z"),
    )
    assert interchange_losses(made, data, data[:, 0]) == {"h1": 0.0}
    drawn = draws(4)
    claimed = hypothesis("x to h1", "h1 to out", "x to z", "z to out", h1=data[:, 0])
    found = scrub_graph(made, claimed, data, drawn)
    label = 2 * data[drawn.root, 0] - 1
    near(((found > 0).float() * 2 - 1 != label).float(), 0.25)
    near((found - label).square(), 2.0)


def test_s14_the_input_of_every_node_is_distributed_as_the_inputs_are():
    """Lemma 1: among ten inputs in classes of one, two, three and four."""
    classes = Classes.of(np.array([0, 1, 1, 2, 2, 2, 3, 3, 3, 3]), 10)
    drawn = draws(10, samples=100_000)
    current = drawn.root
    for step in range(3):
        current = drawn.agreeing(f"path{step}", classes, current)
        counts = np.bincount(current, minlength=10)
        assert ((counts - 10_000) ** 2 / 10_000).sum() < 30, "chi-squared with nine degrees of freedom"
    assert np.corrcoef(drawn.root, drawn.other("path", drawn.root, ""))[0, 1] == pytest.approx(0, abs=0.02)


def test_s16_what_two_hypotheses_say_together_allows_what_both_allow():
    data = torch.cartesian_prod(DIGITS, DIGITS)
    made = graph(
        x=(lambda x: x,),
        both=(lambda x: 10 * x[:, 0] + x[:, 1], "x"),
        out=(lambda both: both, "both"),
    )
    tens = hypothesis("x to both", "both to out", both=data[:, 0])
    ones = hypothesis("x to both", "both to out", both=data[:, 1])
    drawn = draws(len(data))
    own = made.run(data)["out"][drawn.root]
    alone = scrub_graph(made, tens, data, drawn)
    torch.testing.assert_close(alone // 10, own // 10)
    near((alone - own).abs(), 3.3)
    together = join(tens, ones)
    torch.testing.assert_close(scrub_graph(made, together, data, drawn), own)
    with_nothing = join(tens, hypothesis())
    assert set(with_nothing.edges) == set(tens.edges), "a hypothesis without claims allows everything"
    with pytest.raises(TaskError, match="values of"):
        join(tens, hypothesis("x to both", "both to out", both=np.zeros(3)))


def test_s7_the_percentage_is_undefined_where_shuffled_outputs_are_as_good():
    labels = np.zeros((50, 2), int)
    behaviour = ScoredLabels(labels, np.ones((50, 2), bool), False)
    logits = torch.zeros(3, 3, 50)
    found = recovered(behaviour, logits, logits, np.arange(50))
    assert found.percent is None and found.why == "the network's loss is that of its outputs on other inputs"
    assert found.constant == 0.0 and found.network.value == pytest.approx(np.log(3))


def test_s7_the_percentage_is_100_for_the_network_and_0_for_shuffled_outputs():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, (300, 3))
    scored = rng.random((300, 3)) < 0.7
    scored[:, 0] = True
    behaviour = ScoredLabels(labels, scored, False)
    clean = torch.zeros(4, 4, 300)
    clean[torch.from_numpy(labels.T), torch.arange(1, 4)[:, None], torch.arange(300)] = 3.0
    inputs = np.arange(300)
    own = recovered(behaviour, clean, clean, inputs)
    assert own.percent is not None and own.percent.value == pytest.approx(100) and own.changed.value == 0
    other = recovered(behaviour, clean[..., rng.permutation(300)], clean, inputs)
    assert other.percent is not None and other.percent.low < 0 < other.percent.high
    assert other.constant == pytest.approx(np.log(4), rel=0.02) and other.distance.value > 1


def test_numbers_have_squared_errors():
    labels = np.array([[1.0, np.nan], [3.0, 5.0]])
    behaviour = ScoredLabels(labels, ~np.isnan(labels), True, 0.1)
    logits = torch.tensor([[[0.0, 0.0], [2.0, 3.0], [9.0, 4.0]]])  # [V, T, S]
    np.testing.assert_allclose(behaviour.losses(logits, np.arange(2)), [1.0, 0.5])
    assert behaviour.best_constant(np.arange(2)) == pytest.approx(0.5 * 1 + 0.25 * (9 + 25) - (0.5 + 2) ** 2)
    assert behaviour.changed(logits, logits + 0.05, np.arange(2)).tolist() == [False, False]


@pytest.mark.parametrize(
    ("claims", "edges", "said"),
    [
        ({"x": "x", "out": "out", "a": "nothing"}, (), "claim 'a' is about 'nothing', which is no node"),
        ({"x": "x", "out": "out", "a": "term", "b": "term"}, (), "'a' and 'b' are both about term"),
        ({"x": "term", "out": "out"}, (), "claim 'x' has to be about x, not term"),
        ({"x": "x", "out": "out", "a": "term"}, (("out", "a"),), "term does not read out"),
        ({"x": "x", "out": "out"}, (("a", "out"),), "there is no claim 'a'"),
        ({"x": "x", "out": "out", "a": "term"}, (("a", "out"),) * 2, "is there twice"),
    ],
)
def test_s2_what_is_no_hypothesis_is_refused_by_name(claims, edges, said):
    made, data, _ = left_out()
    wrong = Hypothesis({name: NodeClaim(image) for name, image in claims.items()}, edges, "x", "out")
    with pytest.raises(TaskError, match=said):
        scrub_graph(made, wrong, data, draws(len(data)))


def test_s2_values_are_one_for_each_input():
    made, data, _ = left_out()
    wrong = hypothesis("x to rest", "rest to out", rest=np.zeros(7))
    with pytest.raises(TaskError, match=r"claim 'rest': values of shape \[7\] are not one for each of 100"):
        scrub_graph(made, wrong, data, draws(len(data)))


def test_inputs_of_another_length_are_not_exchanged():
    """Whatever a claim says: a length is part of every value, and of what is unimportant."""
    data = torch.arange(6.0)
    lengths = np.array([1, 1, 1, 2, 2, 2])
    made = graph(x=(lambda x: x,), node=(lambda x: x, "x"), out=(lambda node: node, "node"))
    drawn = PathDraws(0, 600, Classes.of(lengths, 6))
    for claimed in (hypothesis("x to node", "node to out", node=np.zeros(6)), hypothesis()):
        found = scrub_graph(made, claimed, data, drawn).long()
        assert (lengths[found] == lengths[drawn.root]).all()
        assert len(set(found[drawn.root < 3].tolist())) == 3, "those of one length are"


def test_s3_only_which_inputs_agree_matters():
    made, data, _ = left_out()
    first = hypothesis("x to rest", "rest to out", rest=data[:, 1])
    renamed = hypothesis("x to rest", "rest to out", rest=5 - 2 * data[:, 1])
    drawn = draws(len(data))
    assert Classes.of(first.claims["rest"].values, 100).effective_size == pytest.approx(10)
    ids = [Classes.of(each.claims["rest"].values, 100).ids for each in (first, renamed)]
    np.testing.assert_array_equal(ids[0][:, None] == ids[0], ids[1][:, None] == ids[1])
    own = made.run(data)["out"][drawn.root]
    for each in (first, renamed):
        near((scrub_graph(made, each, data, drawn) - own).abs(), 9.9)
