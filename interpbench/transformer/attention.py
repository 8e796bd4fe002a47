"""Attention on feature-first tensors.

Shapes: H heads, E head width, T positions, N rows; Q positions of queries, K of keys. Rows are the last,
contiguous axis: at the sizes of this project (5 to 16 positions, heads 3 to 16 wide) products of whole row
vectors beat thousands of tiny matrix products on a CPU, forward and backward. An accelerator, and a CPU that
has few rows of many positions, gets batched products.
"""

import torch
from torch import Tensor

from interpbench.transformer import row_products


def softmax(scores: Tensor) -> Tensor:
    """Softmax over the keys of `[H, Q, K, N]`."""
    return scores.softmax(2)


def attention_scores(q: Tensor, k: Tensor, causal: bool, at: Tensor | None = None) -> Tensor:
    """Returns products of queries and keys, minus infinity where no key may be seen.

    Args:
        q: `[H, E, Q, N]`, divided by √E already.
        k: `[H, E, K, N]`.
        causal: whether keys come no later than queries.
        at: `[N]`, the position of each row's query if it has only one.

    Returns:
        `[H, Q, K, N]`.
    """
    if _by_rows(k):
        return _mask(row_products.scores(q, k), causal, at)
    products = q.permute(3, 0, 2, 1) @ k.permute(3, 0, 1, 2)  # [N, H, Q, K]
    return _mask(products.permute(1, 2, 3, 0), causal, at)


def mix_values(pattern: Tensor, v: Tensor) -> Tensor:
    """Averages values `[H, E, K, N]` by a pattern `[H, Q, K, N]`, to `[H, E, Q, N]`."""
    if _by_rows(v):
        return row_products.attend_values(pattern, v)
    return (pattern.permute(3, 0, 1, 2) @ v.permute(3, 0, 2, 1)).permute(1, 3, 2, 0)


def _by_rows(k: Tensor) -> bool:
    return by_rows(k.shape[2], k.device) or (k.device.type == "cpu" and k.shape[3] >= 256)


def by_rows(length: int, device: torch.device) -> bool:
    """Returns whether products of rows are faster however few they are, which was measured."""
    return device.type == "cpu" and length <= 16


def _mask(scores: Tensor, causal: bool, at: Tensor | None) -> Tensor:
    if not causal:
        return scores
    length = scores.shape[2]
    if at is not None:
        return scores.masked_fill(torch.arange(length, device=at.device)[:, None] > at, -torch.inf)
    future = torch.full((length, length), -torch.inf, dtype=scores.dtype, device=scores.device).triu(1)
    return scores + future[None, :, :, None]
