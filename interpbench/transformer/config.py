"""The shape of a transformer."""

from typing import Literal

from pydantic.dataclasses import dataclass

from interpbench.circuits.graph import Graph
from interpbench.core.config import STRICT


@dataclass(frozen=True, config=STRICT)
class TransformerConfig:
    """A decoder or encoder as in TransformerLens, with learned positions.

    Attributes:
        d_vocab: number of input tokens, BOS and PAD included.
        d_out: number of output classes; 1 for a numerical output.
        n_ctx: longest sequence, BOS included.
        normalization: `LN` (learned scale and shift), `LNPre` (none learned), or None.
        attention: `causal` or `bidirectional`.
        biases: whether to have biases; without, the state dict holds zeros that are never trained.
        init_std: standard deviation of the initial weights; None for 0.8 / sqrt(d_model).
    """

    n_layers: int
    n_heads: int
    d_model: int
    d_head: int
    d_mlp: int
    d_vocab: int
    d_out: int
    n_ctx: int
    normalization: Literal["LN", "LNPre"] | None = None
    activation: Literal["gelu", "gelu_new", "relu"] = "gelu"
    attention: Literal["causal", "bidirectional"] = "causal"
    biases: bool = True
    init_std: float | None = None
    eps: float = 1e-5

    @property
    def graph(self) -> Graph:
        """Its writers, readers and edges."""
        return Graph(self.n_layers, self.n_heads)
