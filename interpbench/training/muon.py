"""Muon: weight matrices move by orthogonalised momentum, everything else by AdamW.

It is due to Jordan et al. (2024), "Muon: an optimizer for hidden layers in neural networks". All directions
of a matrix move equally far, so that the many weak ones are learned as soon as the few strong ones. A head
that compares a hundred keys needs all of them. `torch.optim.Muon` moves single matrices only, in half
precision; here those of all heads and layers move in a few batched products.

Shapes: H heads, A rows, B columns.
"""

from collections.abc import Callable, Mapping
from typing import Any, overload

import torch
from torch import Tensor, nn

MATRICES = ("W_Q", "W_K", "W_V", "W_O", "W_in", "W_gate", "W_out")
"""The names of the matrices of heads and MLPs. Embeddings and unembeddings, whose rows are apart, are not."""
MOMENTUM, ITERATIONS = 0.95, 5
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""The coefficients of x, x³ and x⁵ of the polynomial that is applied to singular values."""
MOMENTS = ("step", "exp_avg")
"""What is kept of each matrix, with AdamW's names: the number of steps and the mean of gradients."""
LIKE_ADAM = 0.2
"""The root mean square of an update over the learning rate, about Adam's (Liu et al. 2025, section 2.2)."""


def orthogonalised(matrices: Tensor) -> Tensor:
    """Returns matrices `[H, A, B]` (A ≤ B) with the same singular vectors, and singular values of about 1.

    Those of at least 0.002 of a matrix's Frobenius norm become 0.68 to 1.21. Smaller ones grow at most
    500-fold, so that directions without a gradient get no update.
    """
    linear, cubic, quintic = COEFFICIENTS
    x = matrices / matrices.norm(dim=(1, 2), keepdim=True).clamp_min(1e-12)
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=cubic, alpha=quintic), x, beta=linear)
    return x


class Muon(torch.optim.AdamW):
    """AdamW, but for the matrices of heads and MLPs, each head's of its own.

    Args:
        weights: the weights by name.
        settings: the settings of AdamW.
    """

    def __init__(self, weights: Mapping[str, nn.Parameter], **settings: Any):
        names = [name for name in weights if name.split(".")[-1] in MATRICES]
        others = [weight for name, weight in weights.items() if name not in names]
        matrices = {"params": [weights[name] for name in names], "moments": MOMENTS}
        super().__init__([matrices, {"params": others}], **settings)
        self.shapes: dict[tuple[int, int], list[nn.Parameter]] = {}
        for name in names:
            sides = weights[name].shape[-2:]
            self.shapes.setdefault((min(sides), max(sides)), []).append(weights[name])

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Moves all weights; afterwards matrices have no gradient."""
        assert closure is None
        rate, decay = (self.param_groups[0][name] for name in ("lr", "weight_decay"))
        for (rows, columns), weights in self.shapes.items():
            there = [weight for weight in weights if weight.grad is not None]
            wide = [self._momentum(weight).view(-1, *weight.shape[-2:]) for weight in there]
            flat = torch.cat([each if each.shape[1] == rows else each.mT for each in wide])
            moves = orthogonalised(flat).mul_(-LIKE_ADAM * columns**0.5).split([len(each) for each in wide])
            for weight, move in zip(there, moves):
                turned = move if weight.shape[-2] == rows else move.mT
                weight.mul_(1 - rate * decay)
                weight.add_(turned.reshape(weight.shape) * rate)
                weight.grad = None  # so that AdamW leaves it
        super().step()
        return None

    def _momentum(self, weight: nn.Parameter) -> Tensor:
        """Returns a weight's gradient and its running mean, mixed as Nesterov's momentum mixes them."""
        assert weight.grad is not None
        state = self.state[weight]
        if not state:
            state |= {"step": torch.zeros((), device=weight.device), "exp_avg": torch.zeros_like(weight)}
        state["step"] += 1
        mean = state["exp_avg"]
        mean.lerp_(weight.grad, 1 - MOMENTUM)
        return weight.grad.lerp(mean, MOMENTUM)
