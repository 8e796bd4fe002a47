"""The parts of a transformer; their weights are named and shaped as in TransformerLens.

Attention and MLP offer each step as a method (queries, keys and values; pattern; mixed values; hidden units),
so that other runs, such as one with patched edges, are built of the same steps.

Shapes: D d_model, H heads, E d_head, M d_mlp, V outputs, T positions, Q positions of queries, K positions of
keys, N rows; `kind` is 3 for queries, keys and values, or the number of these that are asked for.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from interpbench.transformer.activation import activate
from interpbench.transformer.attention import attention_scores, mix_values, softmax
from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.gated_mlp import GatedMlp
from interpbench.transformer.rms_norm import RMSNorm
from interpbench.transformer.rotary import rotated
from interpbench.transformer.row_products import normalise

ALL = slice(None)
Maps = tuple[Tensor, Tensor]
"""The maps from inputs to queries, keys and values: weights `[kind, H, E, D]` and biases `[kind, H, E]`."""


class Embed(nn.Module):
    """The token embedding `W_E [d_vocab, D]`."""

    def __init__(self, cfg: TransformerConfig):
        super().__init__()
        self.W_E = nn.Parameter(torch.empty(cfg.d_vocab, cfg.d_model))


class PosEmbed(nn.Module):
    """The learned positional embedding `W_pos [n_ctx, D]`."""

    def __init__(self, cfg: TransformerConfig):
        super().__init__()
        self.W_pos = nn.Parameter(torch.empty(cfg.n_ctx, cfg.d_model))


class Norm(nn.Module):
    """LayerNorm over d_model; it learns a scale `w [D]` and a shift `b [D]` for `LN`, none for `LNPre`."""

    def __init__(self, cfg: TransformerConfig):
        super().__init__()
        self.eps = cfg.eps
        if cfg.normalization == "LN":
            self.w = nn.Parameter(torch.ones(cfg.d_model))
            self.b = nn.Parameter(torch.zeros(cfg.d_model))

    def forward(self, x: Tensor) -> Tensor:
        """Returns `x [..., D, T, N]` normalised over D, scaled and shifted."""
        x = self.normal(x)
        return x * self.w[:, None, None] + self.b[:, None, None] if hasattr(self, "w") else x

    def normal(self, x: Tensor) -> Tensor:
        """Returns `x [..., D, T, N]` with mean 0 and variance 1 over D."""
        return normalise(x, self.eps)

    def folded(self, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        """Returns a map `[..., E, D]` and its bias `[..., E]` with this norm's scale and shift folded in.

        The map is then of what `normal` returns instead of what the norm returns.
        """
        return (weight * self.w, bias + weight @ self.b) if hasattr(self, "w") else (weight, bias)

    def scale(self, centred: Tensor) -> Tensor:
        """Returns the standard deviation over D of activations whose mean over D is 0."""
        return (centred.square().mean(-3, keepdim=True) + self.eps).sqrt()


class Attention(nn.Module):
    """A layer's heads: weights `W_Q, W_K, W_V [H, D, E]`, `W_O [H, E, D]` and their biases.

    Queries are divided by √E when they are computed, so that scores are plain products of queries and keys.
    """

    def __init__(self, cfg: TransformerConfig):
        super().__init__()
        heads, width = (cfg.n_heads, cfg.d_model, cfg.d_head), (cfg.n_heads, cfg.d_head)
        self.W_Q, self.W_K, self.W_V = (nn.Parameter(torch.empty(heads)) for _ in range(3))
        self.b_Q, self.b_K, self.b_V = (nn.Parameter(torch.zeros(width), cfg.biases) for _ in range(3))
        self.W_O = nn.Parameter(torch.empty(cfg.n_heads, cfg.d_head, cfg.d_model))
        self.b_O = nn.Parameter(torch.zeros(cfg.d_model), cfg.biases)
        self.causal, self.rotary = cfg.attention == "causal", cfg.positions == "rotary"

    def maps(self, kinds: slice = ALL, heads: Sequence[int] | None = None) -> Maps:
        """Returns the maps to queries, keys and values, or to some `kinds` of these, of all or some heads."""
        scale = self.W_Q.shape[2] ** -0.5
        weights = torch.stack((self.W_Q * scale, self.W_K, self.W_V)[kinds]).transpose(2, 3)
        biases = torch.stack((self.b_Q * scale, self.b_K, self.b_V)[kinds])
        if heads is not None and len(heads) < len(self.W_Q):
            weights, biases = weights[:, heads], biases[:, heads]
        return weights, biases

    def project(self, x: Tensor, maps: Maps | None = None) -> Tensor:
        """Returns queries, keys and values `[kind, H, E, T, N]`, all of one normalised input `[D, T, N]`."""
        weights, biases = maps or self.maps()
        projected = torch.addmm(biases.view(-1, 1), weights.reshape(-1, len(x)), x.flatten(1))
        return projected.view(*biases.shape, *x.shape[1:])

    def project_each(self, x: Tensor, maps: Maps | None = None) -> Tensor:
        """Returns queries, keys and values `[kind, H, E, T, N]`, each of its input `[kind × H, D, T, N]`."""
        weights, biases = maps or self.maps()
        each = biases.reshape(-1, biases.shape[2], 1), weights.reshape(-1, *weights.shape[2:])
        return torch.baddbmm(*each, x.flatten(2)).view(*biases.shape, *x.shape[2:])

    def placed(self, x: Tensor, at: Tensor | None = None) -> Tensor:
        """Returns queries or keys `[..., E, T, N]`, rotated by their positions if positions are rotary."""
        return rotated(x, at) if self.rotary else x

    def pattern(self, q: Tensor, k: Tensor, at: Tensor | None = None) -> Tensor:
        """Returns the attention pattern `[H, Q, K, N]`.

        Args:
            q: queries `[H, E, Q, N]`, divided by √E already.
            k: keys `[H, E, K, N]`.
            at: `[N]`, the position of each row's query if it has only one; None for all positions.
        """
        return softmax(attention_scores(self.placed(q, at), self.placed(k), self.causal, at))

    def mix(self, pattern: Tensor, v: Tensor) -> Tensor:
        """Returns values `[H, E, K, N]` averaged by the attention pattern, `[H, E, Q, N]`."""
        return mix_values(pattern, v)

    def outputs(self, heads: Sequence[int] | None = None) -> Tensor:
        """Returns the output maps `[H, D, E]` (W_O, transposed) of some heads, or of all."""
        output = self.W_O.transpose(1, 2)
        return output if heads is None or len(heads) == len(output) else output[heads]

    def write(self, mixed: Tensor, heads: Sequence[int] | None = None) -> Tensor:
        """Returns what each head writes, `[H, D, Q, N]`, of its mixed values `[H, E, Q, N]`."""
        written = self.outputs(heads) @ mixed.flatten(2)
        return written.view(*written.shape[:2], *mixed.shape[2:])


class Mlp(nn.Module):
    """An MLP with weights `W_in [D, M]`, `W_out [M, D]` and their biases."""

    def __init__(self, cfg: TransformerConfig):
        super().__init__()
        self.W_in = nn.Parameter(torch.empty(cfg.d_model, cfg.d_mlp))
        self.b_in = nn.Parameter(torch.zeros(cfg.d_mlp), cfg.biases)
        self.W_out = nn.Parameter(torch.empty(cfg.d_mlp, cfg.d_model))
        self.b_out = nn.Parameter(torch.zeros(cfg.d_model), cfg.biases)
        self.activation = cfg.activation

    def forward(self, x: Tensor) -> Tensor:
        """Returns the MLP's output `[D, T, N]` for inputs `[D, T, N]`."""
        hidden = self.activate(torch.addmm(self.b_in[:, None], self.W_in.T, x.flatten(1)))
        return torch.addmm(self.b_out[:, None], self.W_out.T, hidden).view_as(x)

    def linear(self, x: Tensor) -> Tensor:
        """Returns hidden units `[..., M, T, N]` before activation, of inputs `[..., D, T, N]`."""
        found = self.W_in.T @ x.flatten(-2) + self.b_in[:, None]
        return found.unflatten(-1, x.shape[-2:])

    def hidden(self, x: Tensor) -> Tensor:
        """Returns hidden units `[..., M, T, N]` after activation, of inputs `[..., D, T, N]`."""
        return self.activate(self.linear(x))

    def activate(self, hidden: Tensor) -> Tensor:
        """Returns hidden units after the activation function, which acts on each of them."""
        return activate(self.activation, hidden)


def norm(cfg: TransformerConfig) -> nn.Module:
    """Returns the norm that is before each reader: LayerNorm, RMSNorm or none (the identity)."""
    if cfg.normalization is None:
        return nn.Identity()
    return Norm(cfg) if cfg.centred else RMSNorm(cfg)


class Block(nn.Module):
    """One layer: attention, then an MLP, each behind its norm."""

    def __init__(self, cfg: TransformerConfig):
        super().__init__()
        self.ln1 = norm(cfg)
        self.attn = Attention(cfg)
        self.ln2 = norm(cfg)
        self.mlp = GatedMlp(cfg) if cfg.mlp == "gated" else Mlp(cfg)


class Unembed(nn.Module):
    """The unembedding, with `W_U [D, V]` and `b_U [V]`."""

    def __init__(self, cfg: TransformerConfig):
        super().__init__()
        self.W_U = nn.Parameter(torch.empty(cfg.d_model, cfg.d_out))
        self.b_U = nn.Parameter(torch.zeros(cfg.d_out), cfg.biases)

    def forward(self, x: Tensor) -> Tensor:
        """Returns the logits `[V, T, N]` of a normalised residual stream `[D, T, N]`."""
        logits = self.W_U.T @ x.flatten(1)
        return logits.view(-1, *x.shape[1:]) + self.b_U[:, None, None]
