"""Learned gates: their distribution, their gradients, grids trained as one batch, learned ablation values."""

import numpy as np
import pytest
import torch

from interpbench.circuits.scores import Cost
from interpbench.discovery import hard_concrete
from interpbench.discovery.ablation import Ablation
from interpbench.discovery.method import clean_and_patch, get_method
from interpbench.transformer.fast.circuits import Circuits
from interpbench.transformer.fast.frozen_run import frozen_run
from interpbench.transformer.recording import record
from tests.builders import TRAINED, problem


def test_gates_have_the_distribution_that_they_say():
    theta = torch.linspace(-3, 3, 7, dtype=torch.float64)[:, None].expand(-1, 100_000)
    uniform = torch.rand(theta.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    drawn = hard_concrete.sampled(theta, uniform)
    assert drawn.min() == 0 and drawn.max() == 1
    torch.testing.assert_close(
        (drawn > 0).double().mean(1), hard_concrete.open_probability(theta[:, 0]), atol=0.01, rtol=0
    )
    torch.testing.assert_close(hard_concrete.without_noise(torch.zeros(1)), torch.full((1,), 0.5))


def test_learned_masks_and_ablation_values_get_the_metrics_gradient(monkeypatch):
    made = problem(1)
    ablation = Ablation(made, "kl", "learned", Cost(), 2, 2)
    legal = torch.from_numpy(made.graph.legal)
    removed = 0.9 * torch.rand(2, *legal.shape, dtype=torch.float64) * legal
    removed[:, :, ::2] = legal[:, ::2].double()  # ablation values learn from what is replaced whole
    removed.requires_grad_()
    assert ablation.shifts is not None
    shifts = torch.randn(ablation.shifts.shape, dtype=torch.float64).requires_grad_()
    whole = ablation.loss(removed, shifts)
    first = torch.autograd.grad(whole.sum(), (removed, shifts))
    monkeypatch.setattr("interpbench.transformer.fast.run_circuits.LEAST_ROWS", 4)
    monkeypatch.setattr("interpbench.transformer.fast.run_circuits.NUMBERS_PER_CALL", 1)
    cut = Ablation(made, "kl", "learned", Cost(), 2, 2).loss(removed, shifts)
    torch.testing.assert_close(cut, whole)
    for a, b in zip(torch.autograd.grad(cut.sum(), (removed, shifts)), first):
        torch.testing.assert_close(a, b)
    for tensor, grad in zip((removed, shifts), first):
        place = tuple(torch.nonzero(grad.abs() > grad.abs().max() / 2)[0].tolist())
        if tensor is shifts:
            assert not grad[:, 1].any() and not place[1] % 2
        moved = [tensor.detach().clone() for _ in range(2)]
        moved[0][place] += 1e-6
        moved[1][place] -= 1e-6
        pair = [(x, shifts.detach()) if tensor is removed else (removed.detach(), x) for x in moved]
        up, down = (float(ablation.loss(m, p).sum()) for m, p in pair)
        assert float(grad[place]) == pytest.approx((up - down) / 2e-6, rel=1e-4)


@pytest.mark.parametrize(
    ("name", "grid"),
    [("edge_sp", "penalties"), ("node_sp", "penalties"), ("edge_pruning", "targets")],
)
@pytest.mark.parametrize("ablation", ["resample", "learned"])
def test_a_grid_trained_as_one_batch_equals_its_members(name, grid, ablation):
    made = problem(2)
    settings = {"steps": 12, "rate": 0.3, "ablation": ablation}
    values = (0.3, 0.9)
    together = get_method(name, {**settings, grid: values})(made)
    alone = [get_method(name, {**settings, grid: (one,)})(made) for one in values]
    np.testing.assert_allclose(together.edges, np.mean([one.edges for one in alone], 0), atol=1e-9)
    for one, single in zip(values, alone):
        np.testing.assert_array_equal(together.circuits[one], single.circuits[one])


@pytest.mark.slow
def test_more_penalty_keeps_fewer_edges_and_targets_are_met():
    made = problem(2)
    probed = get_method("edge_sp", {"penalties": (0.01, 1e4), "steps": 60, "rate": 0.3})(made).circuits
    assert probed[0.01].sum() > 0.7 * made.graph.legal.sum() and probed[1e4].sum() == 0
    pruned = get_method("edge_pruning", {"targets": (0.3, 0.8), "steps": 120, "rate": 0.2})(made).circuits
    shares = [1 - pruned[target].sum() / made.graph.legal.sum() for target in (0.3, 0.8)]
    assert shares == pytest.approx([0.3, 0.8], abs=0.15)


@pytest.mark.parametrize("attention", ["causal", "bidirectional"])
def test_learned_ablation_values_start_at_the_mean_and_leave_bos_alone(attention):
    made = problem(2, attention=attention)
    learned, mean = (Ablation(made, "kl", kind, Cost(), 1, 2) for kind in ("learned", "mean"))
    removed = 0.5 * torch.from_numpy(made.graph.legal).double().expand(2, -1, -1)
    assert learned.shifts is not None and not learned.shifts.any()
    _, clean = record(made.network, made.clean)
    patch = clean_and_patch(made, "kl", "mean", Cost()).patch
    patch[:, :, 0] = clean.stack[:, :, 0]
    everything = frozen_run(made.network, clean.stack[0], Circuits(removed[:1], patch, bos=True))
    expected = clean_and_patch(made, "kl", "mean", Cost()).metric(everything).mean()
    torch.testing.assert_close(learned.loss(removed)[0], expected)
    assert not torch.allclose(learned.loss(removed), mean.loss(removed))


@pytest.mark.parametrize("name", TRAINED)
def test_learned_ablation_values_learn(name):
    made, settings = problem(2), {"ablation": "learned", "steps": 20, "penalty": 10.0}
    if name == "edge_pruning":
        del settings["penalty"]
    if name.endswith("sp"):
        settings["penalties"] = (settings.pop("penalty"),)
    settings["rate"] = 0.5
    still, moved = (get_method(name, {"constants_rate": rate, **settings})(made).edges for rate in (0, 0.1))
    assert np.nanmax(np.abs(moved - still)) > 1e-4
