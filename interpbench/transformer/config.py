"""The shape of a transformer."""

from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from interpbench.circuits.graph import Graph
from interpbench.core.config import STRICT, Amount, Steps

Size = Annotated[int, Field(ge=1, le=1 << 18)]
ROTARY_BASE = 10_000.0
"""With rotary positions the wavelength of the slowest features is about 2π times this, in positions."""
Feature = Literal["RMSNorm", "rotary positions", "gated MLP"]
"""Parts of an architecture that some methods cannot take, and say so."""


@dataclass(frozen=True, config=STRICT)
class TransformerConfig:
    """A decoder or encoder as in TransformerLens.

    Attributes:
        d_vocab: number of input tokens, BOS and PAD included.
        d_out: number of output classes; 1 for a numerical output.
        n_ctx: longest sequence, BOS included.
        normalization: `LN` (learned scale and shift), `LNPre` (none learned), `RMS` (learned scale), `RMSPre`
            (none learned), or None.
        attention: `causal` or `bidirectional`.
        biases: whether to have biases; without, the state dict holds zeros that are never trained.
        init_std: standard deviation of the initial weights; None for 0.8 / sqrt(d_model).
        init_matching: whether every head's keys start with the weights of its queries, and what nodes write
            small beside the embedding, so that positions start out attending to tokens like their own.
        init_positions: the last so many dimensions of the residual stream start with what positions embed as,
            the others with what tokens do; 0 for all in all. Neither then has to be unmixed from the other.
        init_orthogonal: whether heads start with orthogonal maps from and to the residual stream, and tokens
            and classes with long directions. Products of small random matrices learn a few directions first
            (Saxe et al. 2014, section 1.3): a hundred names then end up in a dozen dimensions.
        positions: `learned`, added to the embedding, or `rotary`: queries and keys are turned (d_head even).
        mlp: `plain`, or `gated`: what the activation makes of one projection multiplies another; no biases.
    """

    n_layers: Size
    n_heads: Size
    d_model: Size
    d_head: Size
    d_mlp: Size
    d_vocab: Size
    d_out: Size
    n_ctx: Size
    normalization: Literal["LN", "LNPre", "RMS", "RMSPre"] | None = None
    activation: Literal["gelu", "gelu_new", "relu", "silu"] = "gelu"
    attention: Literal["causal", "bidirectional"] = "causal"
    biases: bool = True
    init_std: Amount | None = None
    init_matching: bool = False
    init_positions: Steps = 0
    init_orthogonal: bool = False
    eps: Amount = 1e-5
    positions: Literal["learned", "rotary"] = "learned"
    mlp: Literal["plain", "gated"] = "plain"

    def __post_init__(self) -> None:
        """Refuses an odd width of heads that are to be turned in pairs of features."""
        if self.positions == "rotary" and self.d_head % 2:
            raise ValueError(f"positions=rotary turns pairs of features, and d_head is {self.d_head}")

    @property
    def centred(self) -> bool:
        """Whether every reader ignores the mean over features, as LayerNorm does."""
        return self.normalization in ("LN", "LNPre")

    @property
    def features(self) -> tuple[Feature, ...]:
        """What it has that not every method can take."""
        has: dict[Feature, bool] = {
            "RMSNorm": self.normalization in ("RMS", "RMSPre"),
            "rotary positions": self.positions == "rotary",
            "gated MLP": self.mlp == "gated",
        }
        return tuple(name for name, there in has.items() if there)

    @property
    def parameters(self) -> int:
        """How many numbers the weight matrices hold."""
        matrices = 3 if self.mlp == "gated" else 2
        layer = 4 * self.n_heads * self.d_model * self.d_head + matrices * self.d_model * self.d_mlp
        ends = self.d_vocab + self.n_ctx + self.d_out
        return self.n_layers * layer + ends * self.d_model

    @property
    def graph(self) -> Graph:
        """Its writers, readers and edges."""
        return Graph(self.n_layers, self.n_heads)
