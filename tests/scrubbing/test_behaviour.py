"""What is measured of a scrubbed network: any function of outputs and labels, and that of each sample."""

import itertools

import numpy as np
import pytest
import torch

from interpbench.core.errors import TaskError
from interpbench.scrubbing.classes import Classes
from interpbench.scrubbing.computational_graph import scrub_graph
from interpbench.scrubbing.path_draws import PathDraws
from interpbench.scrubbing.recovered import ScoredLabels, recovered, sample_scores
from tests.scrubbed_graphs import graph, hypothesis, near

DIGITS = torch.arange(4.0)
DATA = torch.cartesian_prod(DIGITS, DIGITS)


def squared_error():
    """Returns a network that doubles a digit, and its squared error of twice their sum, as one function."""
    return graph(
        x=(lambda x: x,),
        label=(lambda x: 2 * x.sum(1), "x"),
        first=(lambda x: x[:, 0], "x"),
        second=(lambda x: x[:, 1], "x"),
        network=(lambda first, second: 2 * first + second, "first", "second"),
        out=(lambda network, label: (network - label) ** 2, "network", "label"),
    )


def test_s1_labels_and_loss_may_be_part_of_what_is_scrubbed():
    """A claim keeps the parity of the first digit, the second is unimportant, and labels stay."""
    edges = ("x to label", "label to out", "x to first", "first to network", "network to out")
    parity = DATA[:, 0] % 2
    drawn = PathDraws(0, 40_000, Classes.of(np.zeros(16), 16))
    found = scrub_graph(squared_error(), hypothesis(*edges, first=parity, label=2 * DATA.sum(1)), DATA, drawn)
    wanted = [
        float((2 * one[0] + two[1] - 2 * label.sum()) ** 2)
        for label in DATA
        for one in DATA[parity == label[0] % 2]
        for two in DATA
    ]
    near(found, np.mean(wanted))


@pytest.mark.parametrize("samples", [7, 16, 40])
def test_s4_each_input_is_a_sample_as_often_as_others_up_to_one(samples):
    drawn = PathDraws(3, samples, Classes.of(np.zeros(16), 16))
    counts = np.bincount(drawn.root, minlength=16)
    assert len(drawn.root) == samples and counts.max() - counts.min() <= 1
    found = scrub_graph(squared_error(), hypothesis("first to network", "network to out"), DATA, drawn)
    assert len(found) == samples


def test_s4_the_estimate_is_the_mean_of_the_recursion_from_each_input():
    """With all claims and identities that is the mean over the data, without an error."""
    edges = ("x to first", "x to second", "first to network", "second to network", "network to out")
    whole = hypothesis(*edges, "x to label", "label to out")
    drawn = PathDraws(0, 16, Classes.of(np.zeros(16), 16))
    found = scrub_graph(squared_error(), whole, DATA, drawn)
    assert float(found.mean()) == float(squared_error().run(DATA)["out"].mean())


LENGTHS = np.repeat([1, 2], 20)


def by_length() -> tuple[ScoredLabels, torch.Tensor]:
    """Returns labels that a length determines, and outputs that are sure of them."""
    labels = (LENGTHS - 1)[:, None]
    clean = torch.zeros(2, 2, 40)
    clean[torch.from_numpy(labels[:, 0]), 1, torch.arange(40)] = 6.0
    return ScoredLabels(labels, np.ones((40, 1), bool), False), clean


def test_s7_outputs_are_shuffled_among_inputs_of_one_length():
    behaviour, clean = by_length()
    within = recovered(behaviour, clean, clean, np.arange(40), lengths=LENGTHS)
    assert within.shuffled.value == pytest.approx(within.network.value), "outputs of one length are the same"
    assert within.percent is None
    across = recovered(behaviour, clean, clean, np.arange(40))
    assert across.shuffled.value > 2 and across.percent is not None
    same = recovered(behaviour, clean, clean, np.arange(40), lengths=np.full(40, 5))
    assert same == across, "one length is none"


def test_s12_the_distance_is_the_divergence_from_the_network_and_not_to_it():
    labels, own = np.zeros((1, 1), int), torch.tensor([0.9, 0.1]).log()
    other = torch.tensor([0.5, 0.5]).log()
    behaviour = ScoredLabels(labels, np.ones((1, 1), bool), False)
    scrubbed, clean = (torch.stack([each, each], 1)[..., None] for each in (other, own))
    (found,) = behaviour.distances(scrubbed, clean, np.arange(1))
    forward = 0.9 * np.log(0.9 / 0.5) + 0.1 * np.log(0.1 / 0.5)
    assert found == pytest.approx(forward) and forward != pytest.approx(0.5 * np.log(0.5 * 0.5 / 0.09))


def test_s12_each_sample_has_its_own_loss_and_distance():
    rng = np.random.default_rng(0)
    labels, scored = rng.integers(0, 3, (5, 2)), np.array([[True, True]] * 4 + [[True, False]])
    behaviour = ScoredLabels(labels, scored, False)
    clean = torch.from_numpy(rng.normal(size=(3, 3, 5)))
    inputs = np.array([4, 0, 0, 2])
    scrubbed = clean[..., inputs].clone()
    scrubbed[:, 1:, 1] = -scrubbed[:, 1:, 1]
    scrubbed[:, 2, 0] += torch.tensor([9.0, 0.0, 0.0])  # of input 4, this position is not scored
    found = sample_scores(behaviour, scrubbed, clean, inputs)
    assert found.changed.tolist() == [False, True, False, False]
    for each in (found.distance, found.euclidean, found.scrubbed - found.network):
        assert np.flatnonzero(np.abs(each) > 1e-12).tolist() == [1]
    lengths = [float((2 * clean[:, at, 0]).square().sum() ** 0.5) for at in (1, 2)]
    assert found.euclidean[1] == pytest.approx(np.mean(lengths))
    whole = recovered(behaviour, scrubbed, clean, inputs)
    assert whole.distance.value == pytest.approx(found.distance.mean())
    assert whole.scrubbed.value == pytest.approx(found.scrubbed.mean())


def test_s12_any_metric_may_be_recovered():
    """Accuracy: of 40 samples a quarter is wrong; a constant's is not known."""
    behaviour, clean = by_length()
    scrubbed = clean.clone()
    scrubbed[..., ::4] = scrubbed[[1, 0]][..., ::4]

    def accuracy(logits: torch.Tensor, inputs: np.ndarray) -> np.ndarray:
        return (logits[:, 1].argmax(0).numpy() == behaviour.labels[inputs, 0]).astype(float)

    own = ScoredLabels(behaviour.labels, behaviour.scored, False, metric=accuracy)
    found = recovered(own, scrubbed, clean, np.arange(40))
    assert (found.network.value, found.scrubbed.value) == (1.0, 0.75) and np.isnan(found.constant)
    assert found.percent is not None and found.shuffled.value == pytest.approx(0.5, abs=0.1)
    assert found.percent.value == pytest.approx(
        100 * (0.75 - found.shuffled.value) / (1 - found.shuffled.value)
    )


def test_numbers_of_samples_that_are_too_small():
    behaviour, clean = by_length()
    for samples, said in itertools.product((0, -1, 2.5), ("whole number from 1",)):
        with pytest.raises(TaskError, match=f"{said}, not {samples}"):
            PathDraws(0, samples, Classes.of(LENGTHS, 40))  # pyright: ignore[reportArgumentType]
    with pytest.raises(TaskError, match="two samples or more, not 1"):
        recovered(behaviour, clean[..., :1], clean, np.arange(1))
