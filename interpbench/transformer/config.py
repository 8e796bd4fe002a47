"""The configuration of a transformer: its sizes, parts and initial weights."""

from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from interpbench.circuits.graph import Graph
from interpbench.core.config import STRICT, Amount, Steps

Size = Annotated[int, Field(ge=1, le=1 << 18)]
ROTARY_BASE = 10_000.0
"""The base of rotary positions: the slowest features have a wavelength of about 2π times it, in positions."""
Feature = Literal["RMSNorm", "rotary positions", "gated MLP"]
"""The parts of an architecture that some discovery methods do not support."""


@dataclass(frozen=True, config=STRICT)
class TransformerConfig:
    """The configuration of a decoder or encoder, with names as in TransformerLens.

    Attributes:
        n_layers: the number of layers, each of attention and an MLP.
        n_heads: the number of heads in each layer.
        d_model: the width of the residual stream.
        d_head: the width of a head's queries, keys and values.
        d_mlp: the number of hidden units of an MLP.
        d_vocab: the number of input tokens, BOS and PAD included.
        d_out: the number of output classes; 1 for a numerical output.
        n_ctx: the length of the longest input, BOS included.
        normalization: the norm before each reader: `LN` (learned scale and shift), `LNPre` (none learned),
            `RMS` (learned scale), `RMSPre` (none learned), or None.
        activation: the activation function of the MLPs.
        attention: `causal` or `bidirectional`.
        biases: whether maps have biases; without them the state dict holds zeros that are never trained.
        init_std: the standard deviation of the initial weights; None for 0.8 / sqrt(d_model).
        init_matching: whether every head's keys start with the weights of its queries, and what nodes write
            starts small beside the embedding, so that positions first attend to tokens like their own.
        init_positions: the number of dimensions, the last ones of the residual stream, in which positional
            embeddings start, while token embeddings start in the others; 0 for both in all. Training then
            need not separate the two.
        init_orthogonal: whether heads start with orthogonal maps from and to the residual stream, and tokens
            and classes with long directions. Products of small random matrices learn a few directions first
            (Saxe et al. 2014, section 1.3): a hundred names then end up in a dozen dimensions.
        init_nonlinear: whether embeddings and the inputs of MLPs start large. MLPs then start as nonlinear
            maps of token and position together. With small weights they start nearly linear, and a hundred
            pairs of token and position end up in as many dimensions as there are tokens and positions.
        eps: the constant that the norms add to the variance.
        positions: `learned` vectors, added to the embedding, or `rotary` queries and keys (d_head even).
        mlp: `plain`, or `gated`: the activated gate projection multiplies the input projection; no biases.
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
    init_nonlinear: bool = False
    eps: Amount = 1e-5
    positions: Literal["learned", "rotary"] = "learned"
    mlp: Literal["plain", "gated"] = "plain"

    def __post_init__(self) -> None:
        """Refuses rotary positions with an odd d_head, as these rotate pairs of features."""
        if self.positions == "rotary" and self.d_head % 2:
            raise ValueError(
                f"positions=rotary rotates pairs of features, but d_head={self.d_head} is odd; "
                f"try d_head={self.d_head + 1}"
            )

    @property
    def centred(self) -> bool:
        """Whether every reader ignores the mean over d_model, which LayerNorm subtracts."""
        return self.normalization in ("LN", "LNPre")

    @property
    def features(self) -> tuple[Feature, ...]:
        """The parts of this architecture that some discovery methods do not support."""
        has: dict[Feature, bool] = {
            "RMSNorm": self.normalization in ("RMS", "RMSPre"),
            "rotary positions": self.positions == "rotary",
            "gated MLP": self.mlp == "gated",
        }
        return tuple(name for name, there in has.items() if there)

    @property
    def parameters(self) -> int:
        """The number of entries of all weight matrices, biases not counted."""
        matrices = 3 if self.mlp == "gated" else 2
        layer = 4 * self.n_heads * self.d_model * self.d_head + matrices * self.d_model * self.d_mlp
        ends = self.d_vocab + self.n_ctx + self.d_out
        return self.n_layers * layer + ends * self.d_model

    @property
    def graph(self) -> Graph:
        """The network's graph: its nodes, readers and edges."""
        return Graph(self.n_layers, self.n_heads)


def unlike(larger: TransformerConfig, smaller: TransformerConfig) -> str | None:
    """Returns why nodes of one network cannot be copied into another one; None if they can.

    Args:
        larger: the configuration of the network that would get them.
        smaller: that of the network that has them.
    """
    for cfg in (larger, smaller):
        if cfg.features or cfg.normalization is not None or not cfg.biases:
            return "nodes are copied between networks with biases, learned positions, plain MLPs and no norm"
    for name in ("d_vocab", "d_out", "n_ctx", "attention", "activation"):
        if getattr(larger, name) != getattr(smaller, name):
            return f"its {name} is {getattr(smaller, name)}, that of this network {getattr(larger, name)}"
    for name in ("d_head", "d_mlp"):
        if getattr(larger, name) < (needed := getattr(smaller, name)):
            here = getattr(larger, name)
            return f"its {name} is {needed}, more than the {here} of this network; try model.{name}={needed}"
    return None
