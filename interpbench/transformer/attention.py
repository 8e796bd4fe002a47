"""Attention scores, patterns and mixed values on tensors whose last, contiguous axis is the row.

Shapes: H heads, E d_head, Q positions of queries, K positions of keys, N rows. At the sizes of this project
(5 to 16 positions, heads 3 to 16 wide) a CPU multiplies vectors of all rows faster than thousands of tiny
matrices, forward and backward (`row_products.py`). An accelerator, and a CPU that has few rows of many
positions, uses PyTorch's batched products.
"""

import torch
from torch import Tensor

from interpbench.transformer import row_products


def softmax(scores: Tensor) -> Tensor:
    """Returns the softmax of attention scores `[H, Q, K, N]` over the keys."""
    return scores.softmax(2)


def attention_scores(q: Tensor, k: Tensor, causal: bool, at: Tensor | None = None) -> Tensor:
    """Returns attention scores `[H, Q, K, N]`, minus infinity at keys that the causal mask hides.

    Args:
        q: queries `[H, E, Q, N]`, divided by √E already.
        k: keys `[H, E, K, N]`.
        causal: whether a query sees only keys up to its own position.
        at: `[N]`, the position of each row's query if it has only one; None if queries are at all positions.
    """
    if _by_rows(k):
        return _mask(row_products.scores(q, k), causal, at)
    products = q.permute(3, 0, 2, 1) @ k.permute(3, 0, 1, 2)  # [N, H, Q, K]
    return _mask(products.permute(1, 2, 3, 0), causal, at)


def mix_values(pattern: Tensor, v: Tensor) -> Tensor:
    """Returns values `[H, E, K, N]` averaged by an attention pattern `[H, Q, K, N]`, as `[H, E, Q, N]`."""
    if _by_rows(v):
        return row_products.attend_values(pattern, v)
    return (pattern.permute(3, 0, 1, 2) @ v.permute(3, 0, 2, 1)).permute(1, 3, 2, 0)


def _by_rows(k: Tensor) -> bool:
    return by_rows(k.shape[2], k.device) or (k.device.type == "cpu" and k.shape[3] >= 256)


def by_rows(length: int, device: torch.device) -> bool:
    """Returns whether `row_products` is faster than batched products even with few rows, as was measured."""
    return device.type == "cpu" and length <= 16


def _mask(scores: Tensor, causal: bool, at: Tensor | None) -> Tensor:
    if not causal:
        return scores
    length = scores.shape[2]
    if at is not None:
        return scores.masked_fill(torch.arange(length, device=at.device)[:, None] > at, -torch.inf)
    future = torch.full((length, length), -torch.inf, dtype=scores.dtype, device=scores.device).triu(1)
    return scores + future[None, :, :, None]
