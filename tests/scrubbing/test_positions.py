"""Scrubbing with a claim at each position is the literal recursion over nodes and positions."""

import numpy as np
import pytest
import torch

from interpbench.core.errors import TaskError
from interpbench.scrubbing.classes import Classes
from interpbench.scrubbing.positions import PositionDraws, position_classes, scrub_positions
from interpbench.scrubbing.program_claims import position_values, structure_hypothesis
from interpbench.scrubbing.residual import ScrubbedNetwork
from tests.builders import SHAPES, inputs, network, shape_name
from tests.oracles.scrubbing import scrubbed_positions
from tests.scrubbed_networks import task_network

ROWS, LENGTH = 4, 4


def everything() -> Classes:
    return Classes.of(np.zeros(ROWS), ROWS)


def claimed(model, seed: int):
    """Returns a random circuit, and values of its nodes at each position."""
    rng = np.random.default_rng(seed)
    graph = model.cfg.graph
    circuit = graph.legal & (rng.random(graph.legal.shape) < 0.2)
    circuit[-1, -1] = circuit[-1, 1] = True
    hypothesis = structure_hypothesis(graph, circuit, split=True)
    nodes = [name for name in hypothesis.claims if "<" not in name]
    values = {name: rng.integers(0, 2, (ROWS, LENGTH - 1)) for name in nodes}
    return hypothesis, position_classes(values, LENGTH)


@pytest.mark.parametrize("sampling", ["node", "exact"])
@pytest.mark.parametrize("shape", SHAPES[:5], ids=shape_name)
def test_s11_it_is_the_literal_recursion(shape, sampling):
    model, tokens = network(*shape), inputs(0, ROWS)
    hypothesis, classes = claimed(model, 3)
    draws = PositionDraws(0, ROWS, LENGTH, everything(), sampling)
    with torch.no_grad():
        wanted = scrubbed_positions(model, tokens.tolist(), hypothesis, classes, draws)
    scrubbed = ScrubbedNetwork(model, tokens)
    found = scrub_positions(scrubbed, hypothesis, classes, draws)
    expected = torch.stack([torch.stack(logits) for logits in wanted]).permute(2, 1, 0)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    assert (found - scrubbed.logits).abs().max() > 1e-3


@pytest.mark.parametrize("kind", ["Tracr", "trained"])
def test_s11_it_is_the_literal_recursion_of_networks_that_do_a_task(kind):
    made, rows = task_network(kind, 3), 3
    hypothesis = structure_hypothesis(made.network.cfg.graph, made.circuit, split=True)
    length = made.tokens.shape[1]
    classes = dict.fromkeys(hypothesis.claims, [Classes.of(None, rows)] * length)
    classes |= position_classes(position_values(made.alignment, made.trace), length)
    draws = PositionDraws(0, rows, length, Classes.of(np.zeros(rows), rows))
    with torch.no_grad():
        wanted = scrubbed_positions(made.network, made.tokens.tolist(), hypothesis, classes, draws)
    found = scrub_positions(ScrubbedNetwork(made.network, made.tokens), hypothesis, classes, draws)
    expected = torch.stack([torch.stack(logits) for logits in wanted]).permute(2, 1, 0)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12 * max(1.0, float(expected.abs().max())))


def test_s11_what_is_read_from_positions_that_are_not_attended_to_is_any_input_s():
    model, tokens = network(*SHAPES[1]), inputs(0, ROWS)
    hypothesis, classes = claimed(model, 3)
    readers = [name for name in hypothesis.claims if name.endswith("<v>") and hypothesis.parents(name)]
    needed = np.random.default_rng(0).random((LENGTH, LENGTH, ROWS)) < 0.5
    sources = dict.fromkeys(readers, needed)
    draws = PositionDraws(0, ROWS, LENGTH, everything(), sources=sources)
    with torch.no_grad():
        wanted = scrubbed_positions(model, tokens.tolist(), hypothesis, classes, draws)
    found = scrub_positions(ScrubbedNetwork(model, tokens), hypothesis, classes, draws)
    expected = torch.stack([torch.stack(logits) for logits in wanted]).permute(2, 1, 0)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    alone = [Classes(np.arange(ROWS))] * LENGTH
    drawn = draws.agreeing(readers[0], "parent", alone, queries=True)
    assert (drawn == np.arange(ROWS))[needed].all(), "those that are needed agree"
    assert (drawn != np.arange(ROWS))[~needed].mean() > 0.5, "others are drawn from all inputs"
    np.testing.assert_array_equal(
        draws.agreeing(readers[0], "parent", alone, queries=False), np.tile(np.arange(ROWS), (LENGTH, 1))
    )


def test_if_no_input_agrees_with_another_and_all_is_important_it_is_the_network():
    model, tokens = network(*SHAPES[1]), inputs(0, ROWS)
    hypothesis = structure_hypothesis(model.cfg.graph, model.cfg.graph.legal, split=True)
    alone = [Classes(np.arange(ROWS))] * LENGTH
    classes = dict.fromkeys(hypothesis.claims, alone)
    scrubbed = ScrubbedNetwork(model, tokens)
    found = scrub_positions(scrubbed, hypothesis, classes, PositionDraws(0, ROWS, LENGTH, everything()))
    torch.testing.assert_close(found, scrubbed.logits, rtol=1e-12, atol=1e-12)


def test_values_are_at_all_positions():
    with pytest.raises(TaskError, match="claim 'm0' has values at 2 positions, not 3"):
        position_classes({"m0": np.zeros((ROWS, 2))}, LENGTH)
