"""Activation functions, by TransformerLens's names."""

from torch import Tensor, nn


def activate(name: str, hidden: Tensor) -> Tensor:
    """Applies `relu`, `silu`, `gelu` or `gelu_new`, elementwise."""
    if name == "relu":
        return hidden.relu()
    if name == "silu":
        return nn.functional.silu(hidden)
    return nn.functional.gelu(hidden, approximate="tanh" if name == "gelu_new" else "none")
