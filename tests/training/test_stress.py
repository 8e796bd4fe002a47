"""Activations that never occur, which no exchange of inputs can show."""

import numpy as np
import pytest
import torch

from interpbench.training.interventional_accuracy import Evaluation
from interpbench.training.stress import ROWS, off_data, stress
from tests.builders import setting

STACK = torch.tensor([[[[0.0, 2.0], [1.0, 1.0]]], [[[5.0, 5.0], [3.0, 7.0]]], [[[1.0, 0.0], [4.0, 2.0]]]])
"""What three nodes write: [node, one dimension, two positions, two rows]."""


def test_steps_are_as_many_standard_deviations_in_one_direction_at_all_positions():
    mean, scale = STACK.mean(-1, keepdim=True), STACK.std(-1, keepdim=True)
    found = off_data(STACK, np.array([0, 2]), np.random.default_rng(0), (3.0,))["±3σ"]
    torch.testing.assert_close((found - mean).abs(), (3 * scale).expand_as(STACK))
    up = (found - mean) > 0
    assert (up[2, :, 0] == up[2, :, 1]).all(), "it moves in one direction at both positions"
    assert off_data(STACK, np.array([0, 2]), np.random.default_rng(0), (1.0, 2.0)).keys() >= {"±1σ", "±2σ"}


def test_nodes_exchange_what_they_write():
    found = off_data(STACK, np.array([0, 2]), np.random.default_rng(0), ())["exchanged"]
    torch.testing.assert_close(found[[0, 2]], STACK[[2, 0]])
    torch.testing.assert_close(found[1], STACK[1])
    assert "exchanged" not in off_data(STACK, np.array([1]), np.random.default_rng(0), ())


def test_a_network_that_is_wrong_off_the_data_alone_is_caught():
    """Counterexample A in a network: a dead head whose output, if there was any, would drown the answer.

    Every exchange of what it writes changes nothing, as it writes the same on all inputs.
    """
    network, alignment, truth = setting("hist")
    evaluation = Evaluation(network, alignment)
    tests = np.array([node in alignment.unaligned_nodes for node in truth.graph.nodes])
    with torch.no_grad():
        for block in network.blocks:
            block.attn.W_O.zero_()
            block.mlp.W_out.zero_()
            block.mlp.b_out.zero_()
    silent = stress(evaluation, tests, seed=0)
    assert len({*silent.values()}) == 1, "nothing is written, so nothing changes, whatever is done to it"
    base = evaluation.activations(alignment.task.domain.draw(np.random.default_rng(0), ROWS))
    far = torch.full_like(base.stack, 100.0)
    before = evaluation.predictions(base.logits)
    ((_, after),) = evaluation.patched(base, far, nodes=tests[None])
    assert (before != after).mean() > 0.1, "and what never occurs may do anything"


@pytest.mark.parametrize("name", ["zero", "mean", "noise", "noise×3", "±3σ", "±10σ", "exchanged"])
def test_every_kind_is_a_share(name: str):
    network, alignment, truth = setting("hist")
    forbidden = np.array([node in alignment.unaligned_nodes for node in truth.graph.nodes])
    assert 0 <= stress(Evaluation(network, alignment), forbidden, seed=0)[name] <= 1
