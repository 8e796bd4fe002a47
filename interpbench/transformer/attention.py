"""Attention on feature-first tensors.

Shapes: H heads, E head width, T positions, N rows. Rows are the last, contiguous axis: at the sizes of
this project (5 to 16 positions, heads 3 to 16 wide) products of whole row vectors beat thousands of tiny
matrix products on a CPU, forward and backward; an accelerator gets batched products.
"""

import torch
from torch import Tensor

from interpbench.transformer import rowwise


def attend(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    """Softmax attention of q (scaled already), k, v `[H, E, T, N]`, giving `[H, E, T, N]`."""
    if q.device.type == "cpu":
        pattern = _mask(rowwise.scores(q, k), causal).softmax(2)
        return rowwise.attend_values(pattern, v)
    q, k, v = (x.permute(3, 0, 2, 1) for x in (q, k, v))  # [N, H, T, E]
    pattern = _mask((q @ k.transpose(2, 3)).permute(1, 2, 3, 0), causal).softmax(2).permute(3, 0, 1, 2)
    return (pattern @ v).permute(1, 3, 2, 0)


def _mask(scores: Tensor, causal: bool) -> Tensor:
    if not causal:
        return scores
    length = scores.shape[1]
    future = torch.full((length, length), -torch.inf, dtype=scores.dtype, device=scores.device).triu(1)
    return scores + future[None, :, :, None]
