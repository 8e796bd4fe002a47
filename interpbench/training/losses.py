"""Losses: one tensor of them, position by position; no weights here."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

LEAST = 1e-6
"""Added to attention before its logarithm: nothing is gained by less."""


def position_losses(logits: Tensor, targets: Tensor) -> Tensor:
    """Returns the loss at every position but BOS.

    Args:
        logits: `[V, T, N]`, position 0 being BOS.
        targets: `[P, N]`, P = T - 1: class codes (cross-entropy) or numbers (squared error).
    """
    outputs = logits[:, 1:]
    if targets.dtype.is_floating_point:
        return (outputs[0] - targets).square()
    return functional.cross_entropy(outputs[None], targets[None], reduction="none")[0]


def attention_loss(pattern: Tensor, shares: Tensor) -> Tensor:
    """Returns the cross-entropy of a head's attention.

    Args:
        pattern: `[T, T, N]`: query, key, row; position 0 is BOS.
        shares: `[P, T, N]`, P = T - 1: each query's and key's share of the loss.
    """
    return -(shares * (pattern[1:] + LEAST).log()).sum()


def relative_variance(written: Sequence[Tensor], nodes: Sequence[int]) -> Tensor:
    """Returns how much what nodes write varies with the input, in units of the embedding, summed over nodes.

    Args:
        written: `[some nodes, D, T, B]`, together what all nodes write for B inputs, the embedding first;
            position 0 is BOS.
        nodes: which of them to sum over.
    """
    variances = [some[:, :, 1:].var(-1).mean((1, 2)) for some in written]
    variance = torch.cat(variances)
    return (variance[list(nodes)] / variance[0].detach()).sum()
