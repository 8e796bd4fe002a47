"""Muon, literally: one matrix at a time, by its singular values."""

import torch
from torch import Tensor


def orthogonalised(matrix: Tensor) -> Tensor:
    """Returns a matrix `[A, B]` whose singular values went through the polynomial five times."""
    left, values, right = torch.linalg.svd(matrix / matrix.norm(), full_matrices=False)
    for _ in range(5):
        values = 3.4445 * values - 4.7750 * values**3 + 2.0315 * values**5
    return left @ values.diag() @ right


def moved(weight: Tensor, gradients: list[Tensor], rate: float, decay: float) -> Tensor:
    """Returns a matrix, or one matrix for each head, after a step with each of the gradients."""
    if weight.ndim == 3:
        heads = [moved(head, [g[i] for g in gradients], rate, decay) for i, head in enumerate(weight)]
        return torch.stack(heads)
    mean = torch.zeros_like(weight)
    for gradient in gradients:
        mean = 0.95 * mean + 0.05 * gradient
        update = orthogonalised(0.05 * gradient + 0.95 * mean)
        weight = weight * (1 - rate * decay) - rate * 0.2 * max(weight.shape) ** 0.5 * update
    return weight
