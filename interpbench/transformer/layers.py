"""The parts of a transformer, weights named and shaped as TransformerLens's; tensors as in `model.py`.

Each part offers its steps (queries, keys and values; pattern; mixed values; hidden units), so that whoever
follows activations through a part in another way uses these and writes none of them again.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from interpbench.transformer.activation import activate
from interpbench.transformer.attention import attention_scores, mix_values, softmax
from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.gated_mlp import GatedMlp
from interpbench.transformer.rms_norm import RMSNorm
from interpbench.transformer.rotary import turned
from interpbench.transformer.row_products import normalise

ALL = slice(None)
Maps = tuple[Tensor, Tensor]
"""What makes queries, keys and values of inputs: weights `[kind, H, E, D]` and biases `[kind, H, E]`."""


class Embed(nn.Module):
    """Token embedding `W_E [d_vocab, D]`."""

    def __init__(self, cfg: TransformerConfig):
        super().__init__()
        self.W_E = nn.Parameter(torch.empty(cfg.d_vocab, cfg.d_model))


class PosEmbed(nn.Module):
    """Learned positions `W_pos [n_ctx, D]`."""

    def __init__(self, cfg: TransformerConfig):
        super().__init__()
        self.W_pos = nn.Parameter(torch.empty(cfg.n_ctx, cfg.d_model))


class Norm(nn.Module):
    """LayerNorm over features; learns `w` and `b` for `LN` only."""

    def __init__(self, cfg: TransformerConfig):
        super().__init__()
        self.eps = cfg.eps
        if cfg.normalization == "LN":
            self.w = nn.Parameter(torch.ones(cfg.d_model))
            self.b = nn.Parameter(torch.zeros(cfg.d_model))

    def forward(self, x: Tensor) -> Tensor:
        """Normalises `[..., D, T, N]` over D."""
        x = self.normal(x)
        return x * self.w[:, None, None] + self.b[:, None, None] if hasattr(self, "w") else x

    def normal(self, x: Tensor) -> Tensor:
        """Returns `x` with mean 0 and variance 1 over D."""
        return normalise(x, self.eps)

    def folded(self, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        """Makes `weight [R, E, D]` and `bias [R, E]` of this norm's result ones of what `normal` returns."""
        return (weight * self.w, bias + weight @ self.b) if hasattr(self, "w") else (weight, bias)

    def scale(self, centred: Tensor) -> Tensor:
        """Returns the standard deviation over D of what has mean 0."""
        return (centred.square().mean(-3, keepdim=True) + self.eps).sqrt()


class Attention(nn.Module):
    """Heads: `W_Q, W_K, W_V [H, D, E]`, `W_O [H, E, D]` and their biases.

    Queries are divided by √E where they are made, so that scores are products of queries and keys.
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
        """Returns what makes queries, keys and values, or some `kinds` of these, of all heads or some."""
        scale = self.W_Q.shape[2] ** -0.5
        weights = torch.stack((self.W_Q * scale, self.W_K, self.W_V)[kinds]).transpose(2, 3)
        biases = torch.stack((self.b_Q * scale, self.b_K, self.b_V)[kinds])
        if heads is not None and len(heads) < len(self.W_Q):
            weights, biases = weights[:, heads], biases[:, heads]
        return weights, biases

    def project(self, x: Tensor, maps: Maps | None = None) -> Tensor:
        """Maps a normalised residual stream `[D, T, N]`, seen by all alike, to `[kind, H, E, T, N]`."""
        weights, biases = maps or self.maps()
        projected = torch.addmm(biases.view(-1, 1), weights.reshape(-1, len(x)), x.flatten(1))
        return projected.view(*biases.shape, *x.shape[1:])

    def project_each(self, x: Tensor, maps: Maps | None = None) -> Tensor:
        """Maps an input for each kind and head, `[kind × H, D, T, N]`, to `[kind, H, E, T, N]`."""
        weights, biases = maps or self.maps()
        each = biases.reshape(-1, biases.shape[2], 1), weights.reshape(-1, *weights.shape[2:])
        return torch.baddbmm(*each, x.flatten(2)).view(*biases.shape, *x.shape[2:])

    def placed(self, x: Tensor, at: Tensor | None = None) -> Tensor:
        """Returns queries or keys `[..., E, T, N]` as scores take them, turned if positions are rotary."""
        return turned(x, at) if self.rotary else x

    def pattern(self, q: Tensor, k: Tensor, at: Tensor | None = None) -> Tensor:
        """Returns the attention pattern `[H, Q, K, N]`; `at [N]`, the position of a row's only query."""
        return softmax(attention_scores(self.placed(q, at), self.placed(k), self.causal, at))

    def mix(self, pattern: Tensor, v: Tensor) -> Tensor:
        """Averages values by the attention pattern, `[H, E, Q, N]`."""
        return mix_values(pattern, v)

    def outputs(self, heads: Sequence[int] | None = None) -> Tensor:
        """Returns what maps the mixed values of some heads to what they write, `[H, D, E]`."""
        output = self.W_O.transpose(1, 2)
        return output if heads is None or len(heads) == len(output) else output[heads]

    def write(self, mixed: Tensor, heads: Sequence[int] | None = None) -> Tensor:
        """Maps mixed values `[H, E, Q, N]` to what each head writes, `[H, D, Q, N]`."""
        written = self.outputs(heads) @ mixed.flatten(2)
        return written.view(*written.shape[:2], *mixed.shape[2:])


class Mlp(nn.Module):
    """`W_in [D, M]`, `W_out [M, D]` and their biases."""

    def __init__(self, cfg: TransformerConfig):
        super().__init__()
        self.W_in = nn.Parameter(torch.empty(cfg.d_model, cfg.d_mlp))
        self.b_in = nn.Parameter(torch.zeros(cfg.d_mlp), cfg.biases)
        self.W_out = nn.Parameter(torch.empty(cfg.d_mlp, cfg.d_model))
        self.b_out = nn.Parameter(torch.zeros(cfg.d_model), cfg.biases)
        self.activation = cfg.activation

    def forward(self, x: Tensor) -> Tensor:
        """Maps `[D, T, N]` to `[D, T, N]`."""
        hidden = self.activate(torch.addmm(self.b_in[:, None], self.W_in.T, x.flatten(1)))
        return torch.addmm(self.b_out[:, None], self.W_out.T, hidden).view_as(x)

    def linear(self, x: Tensor) -> Tensor:
        """Maps `[..., D, T, N]` to what the activation function is applied to, `[..., M, T, N]`."""
        found = self.W_in.T @ x.flatten(-2) + self.b_in[:, None]
        return found.unflatten(-1, x.shape[-2:])

    def hidden(self, x: Tensor) -> Tensor:
        """Maps `[..., D, T, N]` to what `W_out` reads, `[..., M, T, N]`."""
        return self.activate(self.linear(x))

    def activate(self, hidden: Tensor) -> Tensor:
        """Applies the activation function, elementwise."""
        return activate(self.activation, hidden)


def norm(cfg: TransformerConfig) -> nn.Module:
    """Returns what inputs go through first."""
    if cfg.normalization is None:
        return nn.Identity()
    return Norm(cfg) if cfg.centred else RMSNorm(cfg)


class Block(nn.Module):
    """One layer: attention, then MLP."""

    def __init__(self, cfg: TransformerConfig):
        super().__init__()
        self.ln1 = norm(cfg)
        self.attn = Attention(cfg)
        self.ln2 = norm(cfg)
        self.mlp = GatedMlp(cfg) if cfg.mlp == "gated" else Mlp(cfg)


class Unembed(nn.Module):
    """`W_U [D, V]` and `b_U [V]`."""

    def __init__(self, cfg: TransformerConfig):
        super().__init__()
        self.W_U = nn.Parameter(torch.empty(cfg.d_model, cfg.d_out))
        self.b_U = nn.Parameter(torch.zeros(cfg.d_out), cfg.biases)

    def forward(self, x: Tensor) -> Tensor:
        """Maps the normalised residual stream `[D, T, N]` to logits `[V, T, N]`."""
        logits = self.W_U.T @ x.flatten(1)
        return logits.view(-1, *x.shape[1:]) + self.b_U[:, None, None]
