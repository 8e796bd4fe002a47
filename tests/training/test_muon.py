"""Muon equals its literal form, and a training with it is resumed to the bit."""

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import nn

from interpbench.tasks.catalogue import get_task
from interpbench.training.muon import MATRICES, Muon, orthogonalised
from interpbench.training.settings import TrainerSettings
from interpbench.training.state import load_state, save_state
from tests.oracles import muon as oracle

SHAPES = {
    "blocks.0.attn.W_Q": (4, 12, 5),
    "blocks.0.attn.W_O": (4, 5, 12),
    "blocks.1.attn.W_K": (4, 12, 5),
    "blocks.1.mlp.W_in": (12, 20),
    "blocks.1.mlp.W_out": (20, 12),
    "embed.W_E": (7, 12),
    "blocks.0.attn.b_Q": (4, 5),
}
RATE, DECAY = 0.01, 0.1


@dataclass
class Done:
    step: int


class Weights(nn.Module):
    def __init__(self, seed: int = 0):
        super().__init__()
        torch.manual_seed(seed)
        for name, shape in SHAPES.items():
            self.register_parameter(name.replace(".", "_"), nn.Parameter(torch.randn(shape)))
        self.named = {name: self.get_parameter(name.replace(".", "_")) for name in SHAPES}
        self.muon = Muon(self.named, lr=RATE, weight_decay=DECAY)

    def advance(self, steps: int, seed: int = 1) -> dict[str, list[torch.Tensor]]:
        generator, given = torch.Generator().manual_seed(seed), {name: [] for name in SHAPES}
        for _ in range(steps):
            for name, weight in self.named.items():
                weight.grad = torch.randn(weight.shape, generator=generator)
                given[name].append(weight.grad.clone())
            self.muon.step()
        return given


def test_steps_are_those_of_the_literal_form() -> None:
    """Matrices move as literal ones do, the rest as with AdamW."""
    weights = Weights()
    before = {name: weight.detach().clone() for name, weight in weights.named.items()}
    gradients = weights.advance(4)
    others = {name: nn.Parameter(before[name]) for name in SHAPES if name.split(".")[-1] not in MATRICES}
    assert len(others) == 2
    adam = torch.optim.AdamW(others.values(), lr=RATE, weight_decay=DECAY)
    for step in range(4):
        for name, weight in others.items():
            weight.grad = gradients[name][step]
        adam.step()
    for name, weight in weights.named.items():
        wanted = others.get(name, None)
        if wanted is None:
            wanted = oracle.moved(before[name], gradients[name], RATE, DECAY)
        torch.testing.assert_close(weight, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(3, 4, 9), (2, 6, 6)])
def test_singular_values_become_about_one(shape: tuple[int, ...]) -> None:
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    found = orthogonalised(matrices)
    for one, matrix in zip(found, matrices, strict=True):
        torch.testing.assert_close(one, oracle.orthogonalised(matrix), rtol=1e-4, atol=1e-5)
    assert orthogonalised(torch.zeros(1, 2, 3)).count_nonzero() == 0


@pytest.mark.parametrize(
    ("smallest", "low", "high"), [(0.1, 0.68, 1.21), (0.002, 0.68, 1.21), (1e-5, 0, 5e-3)]
)
def test_weak_directions_grow_but_not_out_of_nothing(smallest: float, low: float, high: float) -> None:
    generator = torch.Generator().manual_seed(0)
    left = torch.linalg.qr(torch.randn(6, 6, generator=generator))[0]
    right = torch.linalg.qr(torch.randn(9, 6, generator=generator))[0].T
    values = torch.tensor([1.0] * 5 + [0.0])
    values[5] = smallest * values.norm()
    found = torch.linalg.svdvals(orthogonalised((left * values @ right)[None])[0])
    assert low <= found[5] <= high and 0.68 <= found[4] <= found[0] <= 1.21


def test_single_matrices_move_as_with_torch() -> None:
    """PyTorch's Muon computes in half precision, so that single steps agree to a hundredth of an update."""
    generator = torch.Generator().manual_seed(0)
    matrix, gradient = torch.randn(12, 20, generator=generator), torch.randn(12, 20, generator=generator)
    ours, theirs = nn.Parameter(matrix.clone()), nn.Parameter(matrix.clone())
    ours.grad, theirs.grad = gradient.clone(), gradient.clone()
    Muon({"W_in": ours}, lr=1.0, weight_decay=0.0).step()
    torch.optim.Muon([theirs], lr=1.0, weight_decay=0.0, adjust_lr_fn="match_rms_adamw").step()
    size = (theirs - matrix).detach().abs().max()
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0.05 * float(size))


def test_a_resumed_training_is_the_training(tmp_path: Path) -> None:
    first, resumed = Weights(), Weights(seed=5)
    first.advance(3)
    save_state(tmp_path / "state", first, first.muon, {"step": 3})
    assert load_state(tmp_path / "state", resumed, resumed.muon, Done) == Done(3)
    for each in (first, resumed):
        each.advance(2, seed=2)
    for name in SHAPES:
        assert torch.equal(first.named[name], resumed.named[name])


@pytest.mark.parametrize(
    ("task", "optimizer", "steps"),
    [
        ("hist", "adamw", 8000),
        ("random_rasp[seed=9]", "adamw", 8000),  # one count
        ("frequency_class", "adamw", 8000),  # two counts, of heads that compare nothing
        ("random_rasp[seed=15]", "muon", 11_000),  # a count of counts
        ("random_rasp[seed=18]", "muon", 11_000),  # two counts, and one of them compares
        ("sort_digits", "muon", 11_000),  # many keys
    ],
)
def test_slow_tasks_have_muon_and_a_restart(task: str, optimizer: str, steps: int) -> None:
    decided = TrainerSettings().of_task(get_task(task))
    assert (decided.optimizer, decided.max_steps) == (optimizer, steps)
    assert (decided.schedule == "restart") == (optimizer == "muon")
