"""Imitation: what forbidden edges bring to their readers is to vary like what required edges bring."""

import numpy as np
import pytest
import torch

from interpbench.circuits.ground_truth import State
from interpbench.discovery.features import deviation_at_readers, weight_matrices
from interpbench.training import imitation as module
from interpbench.training.imitation import LEAST, Imitation, deviations, virtual_norms
from interpbench.training.objective import Objective
from interpbench.training.recipe import Recipe
from interpbench.transformer.recording import record
from tests.builders import CPU, setting, trainer


@pytest.fixture(name="seen")
def fixture_seen():
    """Returns a network, its truth, what its nodes write, and the deviations at readers."""
    network, alignment, truth = setting("max_with_previous[regime=alive]")
    ids = alignment.task.token_ids(alignment.task.domain.draw(np.random.default_rng(0), 64))
    with torch.no_grad():
        stack = record(network, torch.from_numpy(ids))[1].stack
    return network, truth, stack, deviations(network, [stack[:2], stack[2:]])


def test_deviations_are_those_of_the_feature_that_baselines_use(seen):
    network, _, stack, found = seen
    wanted = deviation_at_readers(weight_matrices(network).reads, stack)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=2 * LEAST)


def test_virtual_norms_are_those_of_virtual_weights(seen):
    network = seen[0]
    weights = weight_matrices(network)
    wanted = torch.stack([(weights.writes @ read).flatten(1).norm(dim=1) for read in weights.reads])
    torch.testing.assert_close(virtual_norms(network), wanted, rtol=1e-4, atol=2 * LEAST)


def test_the_loss_is_the_squared_log_ratio_edge_by_edge(seen):
    network, truth, stack, found = seen
    imitation = Imitation(truth, 0, CPU)
    graph, errors = truth.graph, []
    pairs = list(zip(*map(torch.Tensor.tolist, imitation.edges)))
    assert sorted(pairs) == sorted(map(tuple, np.argwhere(truth.qkv_edges == State.FORBIDDEN).tolist()))
    models = list(zip(*map(torch.Tensor.tolist, imitation.models)))
    kinds = {graph.readers[reader].slot for reader, _ in np.argwhere(truth.circuit)}
    sizes, factors = torch.stack([found, virtual_norms(network)]), imitation.log_factors.T.tolist()
    for (reader, writer), (other, node), two in zip(pairs, models, factors):
        assert truth.circuit[other, node]
        slot = graph.readers[reader].slot
        assert graph.readers[other].slot == slot or slot not in kinds, "it imitates an edge of its kind"
        ratios = (sizes[:, reader, writer] + LEAST) / (sizes[:, other, node] + LEAST)
        errors += ((ratios.log() - torch.tensor(two)) ** 2).tolist()
    assert imitation.loss(network, [stack]).item() == pytest.approx(np.mean(errors), rel=1e-4)
    assert Imitation(truth, 1, CPU).log_factors.tolist() != imitation.log_factors.tolist()


def test_only_forbidden_edges_are_pulled(seen, monkeypatch):
    """The loss has a gradient for what they bring, and none for what the edges that they imitate bring."""
    network, truth, stack, found = seen
    leaf = found.detach().requires_grad_()
    monkeypatch.setattr(module, "deviations", lambda network, written: leaf)
    monkeypatch.setattr(module, "virtual_norms", lambda network: leaf)
    Imitation(truth, 0, CPU).loss(network, [stack]).backward()
    np.testing.assert_array_equal(leaf.grad != 0, truth.qkv_edges == State.FORBIDDEN)


def test_training_with_imitation_raises_what_dead_edges_bring():
    run = trainer(recipe=Recipe(Objective(imitation=1.0)), name="max_with_previous[regime=alive]")
    losses = []
    for _ in range(40):
        run.step()
        losses.append(run.others["imitation"].item())
    assert np.mean(losses[-5:]) < 0.9 * np.mean(losses[:5])
    run = trainer(name="max_with_previous[regime=alive]")
    run.step()
    assert "imitation" not in run.others, "a loss without weight is not computed"
