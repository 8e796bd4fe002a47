"""A gated MLP (Shazeer 2020), as in Llama: SwiGLU with the activation `silu`, GeGLU with `gelu`.

Shapes: D d_model, M d_mlp, T positions, N rows.
"""

import torch
from torch import Tensor, nn

from interpbench.transformer.activation import activate
from interpbench.transformer.config import TransformerConfig


class GatedMlp(nn.Module):
    """A gated MLP with weights `W_gate, W_in [D, M]` and `W_out [M, D]`, without biases."""

    def __init__(self, cfg: TransformerConfig):
        super().__init__()
        self.W_gate = nn.Parameter(torch.empty(cfg.d_model, cfg.d_mlp))
        self.W_in = nn.Parameter(torch.empty(cfg.d_model, cfg.d_mlp))
        self.W_out = nn.Parameter(torch.empty(cfg.d_mlp, cfg.d_model))
        self.activation = cfg.activation

    def hidden(self, x: Tensor) -> Tensor:
        """Returns hidden units `[..., M, T, N]` after activation and gate, of inputs `[..., D, T, N]`."""
        flat, shape = x.flatten(-2), (self.W_in.shape[1], *x.shape[-2:])
        gate = activate(self.activation, self.W_gate.T @ flat)
        return (gate * (self.W_in.T @ flat)).view(*x.shape[:-3], *shape)

    def forward(self, x: Tensor) -> Tensor:
        """Returns the MLP's output `[D, T, N]` for inputs `[D, T, N]`."""
        return (self.W_out.T @ self.hidden(x).flatten(1)).view_as(x)
