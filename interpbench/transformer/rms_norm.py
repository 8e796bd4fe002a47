"""RMSNorm (Zhang and Sennrich 2019), as in Llama: LayerNorm without the mean and without a shift."""

import torch
from torch import Tensor, nn

from interpbench.transformer.config import TransformerConfig


class RMSNorm(nn.Module):
    """RMSNorm over features; learns `w [D]` for `RMS` only, not for `RMSPre`."""

    def __init__(self, cfg: TransformerConfig):
        super().__init__()
        self.eps = cfg.eps
        if cfg.normalization == "RMS":
            self.w = nn.Parameter(torch.ones(cfg.d_model))

    def forward(self, x: Tensor) -> Tensor:
        """Divides `[..., D, T, N]` by its root mean square over D."""
        x = x * (x.square().mean(-3, keepdim=True) + self.eps).rsqrt()
        return x * self.w[:, None, None] if hasattr(self, "w") else x
