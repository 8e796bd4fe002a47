"""RMSNorm (Zhang and Sennrich 2019), as in Llama: LayerNorm without the mean and without a shift.

Shapes: D d_model, T positions, N rows.
"""

import torch
from torch import Tensor, nn

from interpbench.transformer.config import TransformerConfig


class RMSNorm(nn.Module):
    """RMSNorm over d_model; it learns a scale `w [D]` for `RMS`, none for `RMSPre`."""

    def __init__(self, cfg: TransformerConfig):
        super().__init__()
        self.eps = cfg.eps
        if cfg.normalization == "RMS":
            self.w = nn.Parameter(torch.ones(cfg.d_model))

    def forward(self, x: Tensor) -> Tensor:
        """Returns `x [..., D, T, N]` divided by its root mean square over D, and scaled."""
        x = x * (x.square().mean(-3, keepdim=True) + self.eps).rsqrt()
        return x * self.w[:, None, None] if hasattr(self, "w") else x
