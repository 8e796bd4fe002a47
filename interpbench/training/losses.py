"""The losses, which `objective.py` weights.

Shapes: V outputs, T positions with BOS, P = T - 1 positions without BOS, N rows, D d_model, B inputs.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

LEAST = 1e-6
"""The number that is added to attention before its logarithm, so that the loss stays finite."""


def position_losses(logits: Tensor, targets: Tensor) -> Tensor:
    """Returns the loss `[P, N]` at every position but BOS.

    Args:
        logits: the logits `[V, T, N]`; position 0 is BOS.
        targets: `[P, N]`, class codes (for cross-entropy) or numbers (for squared error).
    """
    outputs = logits[:, 1:]
    if targets.dtype.is_floating_point:
        return (outputs[0] - targets).square()
    return functional.cross_entropy(outputs[None], targets[None], reduction="none")[0]


def attention_loss(pattern: Tensor, shares: Tensor) -> Tensor:
    """Returns the cross-entropy of a head's attention pattern.

    Args:
        pattern: the attention of each query to each key, `[T, T, N]`; position 0 is BOS.
        shares: the attention that is wanted of each query but BOS to each key, `[P, T, N]`, times the weight
            of the query.
    """
    return -(shares * (pattern[1:] + LEAST).log()).sum()


def relative_variance(written: Sequence[Tensor], nodes: Sequence[int]) -> Tensor:
    """Returns the variance over inputs of what nodes write, relative to the embedding's, summed over nodes.

    Args:
        written: what nodes write, `[some nodes, D, T, B]` each, together all nodes, the embedding first.
        nodes: the indices of the nodes to sum over.
    """
    variances = [some[:, :, 1:].var(-1).mean((1, 2)) for some in written]
    variance = torch.cat(variances)
    return (variance[list(nodes)] / variance[0].detach()).sum()
