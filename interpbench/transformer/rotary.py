"""Rotary positions (Su et al. 2021, section 3.2): queries and keys are rotated by their positions.

Features 2i and 2i + 1 of a head are a point in the plane, rotated at position t by t × ROTARY_BASE^(-2i / E),
as in TransformerLens 4. Scores then depend on how far a query and a key are from each other.

Shapes: E d_head, T positions, N rows.
"""

import torch
from torch import Tensor

from interpbench.transformer.config import ROTARY_BASE


def rotated(x: Tensor, positions: Tensor | None = None) -> Tensor:
    """Returns queries or keys rotated by their positions, in the shape and memory order of `x`.

    Args:
        x: queries or keys `[..., E, T, N]`, E even.
        positions: `[N]`, the position of each row if T = 1; None for positions 0 to T - 1.
    """
    width, length, _ = x.shape[-3:]
    speeds = ROTARY_BASE ** (-torch.arange(0, width, 2, device=x.device, dtype=torch.float64) / width)
    at = torch.arange(length, device=x.device)[:, None] if positions is None else positions[None]  # [T, N]
    angles = (speeds[:, None, None] * at).repeat_interleave(2, 0)  # [E, T, N or 1]
    beside = torch.stack([-x[..., 1::2, :, :], x[..., 0::2, :, :]], -3).flatten(-4, -3)
    return x * angles.cos().to(x.dtype) + beside * angles.sin().to(x.dtype)
