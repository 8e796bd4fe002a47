"""Attention on feature-first tensors.

Shapes: H heads, E head width, T positions, N rows. Rows are the last, contiguous axis: at the sizes of
this project (5 to 16 positions, heads 3 to 16 wide) products of whole row vectors beat thousands of tiny
matrix products, forward and backward; larger shapes and accelerators go through batched products.
"""

import math

import torch
from torch import Tensor

ELEMENTWISE_LIMIT = 128
"""Largest T·E for which elementwise products of row vectors are used; measured in `benchmarks/`."""


def attend(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    """Softmax attention of q, k, v `[H, E, T, N]`, giving `[H, E, T, N]`."""
    _, width, length, _ = q.shape
    scale = 1 / math.sqrt(width)
    if q.device.type == "cpu" and width * length <= ELEMENTWISE_LIMIT:
        scores = (q.unsqueeze(3) * k.unsqueeze(2)).sum(1) * scale  # [H, query, key, N]
        pattern = _mask(scores, causal).softmax(2)
        return (pattern.unsqueeze(1) * v.unsqueeze(2)).sum(3)
    q, k, v = (x.permute(3, 0, 2, 1) for x in (q, k, v))  # [N, H, T, E]
    scores = (q @ k.transpose(2, 3) * scale).permute(1, 2, 3, 0)
    pattern = _mask(scores, causal).softmax(2).permute(3, 0, 1, 2)
    return (pattern @ v).permute(1, 3, 2, 0)


def _mask(scores: Tensor, causal: bool) -> Tensor:
    if not causal:
        return scores
    length = scores.shape[1]
    future = torch.ones(length, length, dtype=torch.bool, device=scores.device).triu(1)
    return scores.masked_fill(future[None, :, :, None], -torch.inf)
