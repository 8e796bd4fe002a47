"""The kernel: a small transformer, run on many rows at once, each with its own interventions."""

from typing import TYPE_CHECKING

from interpbench.core.exports import exports

if TYPE_CHECKING:
    from interpbench.transformer.config import TransformerConfig
    from interpbench.transformer.model import Transformer

__all__ = ["Transformer", "TransformerConfig"]
__getattr__, __dir__ = exports(
    __name__,
    {
        "Transformer": "interpbench.transformer.model",
        "TransformerConfig": "interpbench.transformer.config",
    },
)
