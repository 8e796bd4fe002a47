"""The parts of a transformer, weights named and shaped as TransformerLens's; tensors as in `model.py`."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from interpbench.transformer.activation import activate
from interpbench.transformer.attention import attend
from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.fast.frozen_parts import Packed, attend_and_write, features_last
from interpbench.transformer.fast.patch_differences import Mixture
from interpbench.transformer.gated_mlp import GatedMlp
from interpbench.transformer.rms_norm import RMSNorm
from interpbench.transformer.rotary import turned
from interpbench.transformer.row_products import normalise


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
    """Heads: `W_Q, W_K, W_V [H, D, E]`, `W_O [H, E, D]` and their biases."""

    def __init__(self, cfg: TransformerConfig):
        super().__init__()
        heads, width = (cfg.n_heads, cfg.d_model, cfg.d_head), (cfg.n_heads, cfg.d_head)
        self.W_Q, self.W_K, self.W_V = (nn.Parameter(torch.empty(heads)) for _ in range(3))
        self.b_Q, self.b_K, self.b_V = (nn.Parameter(torch.zeros(width), cfg.biases) for _ in range(3))
        self.W_O = nn.Parameter(torch.empty(cfg.n_heads, cfg.d_head, cfg.d_model))
        self.b_O = nn.Parameter(torch.zeros(cfg.d_model), cfg.biases)
        self.causal, self.rotary = cfg.attention == "causal", cfg.positions == "rotary"

    def placed(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """Returns queries or keys `[..., E, T, N]` as scores take them, turned if positions are rotary."""
        return turned(x, positions) if self.rotary else x

    def project(
        self,
        kinds: slice,
        shared: Tensor,
        split: Tensor | Mixture | None,
        ln: nn.Module,
        heads: Sequence[int],
        rows_last: bool,
    ) -> list[Tensor]:
        """Normalises inputs as `Interventions.read` gives them, and makes queries, keys or values of them.

        Args:
            kinds: some of queries, keys and values, in this order.
            shared: what readers see alike.
            split: an input for each kind and head.
            ln: comes first.
            heads: which heads.
            rows_last: the order in memory for inputs that are mixtures; else E comes last.

        Returns:
            `[kind, H, E, T, N]` of shared rows and of split ones, or of those that there are.
        """
        scale = self.W_Q.shape[2] ** -0.5
        weights = torch.stack((self.W_Q * scale, self.W_K, self.W_V)[kinds]).transpose(
            2, 3
        )  # [kind, H, E, D]
        biases = torch.stack((self.b_Q * scale, self.b_K, self.b_V)[kinds])
        if len(heads) < len(self.W_Q):
            weights, biases = weights[:, heads], biases[:, heads]
        width, features = weights.shape[2:]
        parts: list[Tensor] = []
        if shared.shape[2] or split is None:
            flat = ln(shared).flatten(1)
            projected = torch.addmm(biases.view(-1, 1), weights.reshape(-1, features), flat)
            parts.append(projected.view(*biases.shape, shared.shape[1], -1))
        if split is not None:
            own = weights.reshape(-1, width, features), biases.reshape(-1, width)
            projected = _projected(split, ln, *own, rows_last)
            parts.append(projected.unflatten(0, biases.shape[:2]))
        return parts

    def forward(
        self,
        parts: Sequence[Sequence[Tensor]],
        heads: Sequence[int],
        summed: bool = False,
        only: Tensor | None = None,
        packed: Packed | None = None,
        others: Tensor | None = None,
    ) -> tuple[Tensor, list[Tensor]]:
        """Runs some heads.

        Args:
            parts: for shared rows and for split ones, as `project` makes them, queries, keys and values
                `[3, H, E, T, N]`, or queries `[1, H, E, 1, N]` and keys and values.
            heads: which heads.
            summed: whether their sum is wanted.
            only: `[N]`, the positions of the queries if there is one a row.
            packed: which positions there are of which examples.
            others: keys and values of what it leaves out.

        Returns:
            What they write, `[H, D, T, N]`, or their sum `[D, T, N]`; and their patterns `[H, Q, K, N]`, for
            shared rows and for split ones.
        """
        if self.rotary:
            parts = [self._placed(part, only) for part in parts]
        output = self.W_O.transpose(1, 2)
        if len(heads) < len(self.W_Q):
            output = output[heads]
        if packed or (len(parts) == 1 and type(self) is Attention and features_last(parts[0][0])):
            written, pattern = attend_and_write(parts[0], output, self.causal, only, packed, others)
            return written.sum(0) if summed else written, [pattern]
        results = []
        for part in parts:
            q, k, v = (one for some in part for one in some.unbind())
            results.append(self.mix(q, k, v, only))
        patterns = [pattern for _, pattern in results]
        mixed = torch.cat([values for values, _ in results], -1) if len(results) > 1 else results[0][0]
        count, _, length, _ = mixed.shape
        features = self.W_O.shape[2]
        if summed:
            total = output.transpose(0, 1).reshape(features, -1) @ mixed.flatten(0, 1).flatten(1)
            return total.view(features, length, -1), patterns
        written = output @ mixed.flatten(2)
        return written.view(count, features, length, -1), patterns

    def _placed(self, part: Sequence[Tensor], only: Tensor | None) -> list[Tensor]:
        """Returns the queries, keys and values of `forward`, the first two as scores take them."""
        q, k, v = (one for some in part for one in some.unbind())
        return [self.placed(q, only)[None], self.placed(k)[None], v[None]]

    def mix(self, q: Tensor, k: Tensor, v: Tensor, only: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Averages values: q (scaled), k, v `[H, E, T, N]` to `[H, E, T, N]` and the pattern."""
        return attend(q, k, v, self.causal, only=only)


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


def _projected(
    split: Tensor | Mixture, norm: nn.Module, weight: Tensor, bias: Tensor, rows_last: bool = True
) -> Tensor:
    """Normalises each reader's own input and maps it by `weight [R, E, D]` and `bias [R, E]`.

    Returns `[R, E, T, N]`; what a mixture gives has its features last in memory unless `rows_last`.
    """
    if isinstance(split, Mixture):
        if type(norm) is nn.Identity:
            return split.project(weight, bias, None, rows_last)
        if type(norm) is Norm:
            return split.project(*norm.folded(weight, bias), norm.eps, rows_last)
        split = split.copied()
    projected = torch.baddbmm(bias.unsqueeze(2), weight, norm(split).flatten(2))
    return projected.view(*bias.shape, *split.shape[2:])


def normalised(
    split: Mixture, norm: nn.Module, weight: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalises a single reader's input `[D, T, N]`, and folds a norm's weights into the next ones."""
    if type(norm) is Norm:
        weights, biases = norm.folded(weight[None], bias[None])
        return split.inputs(norm.eps)[0], weights[0], biases[0]
    return norm(split.copied())[0], weight, bias


def join(shared: Tensor, split: Tensor | Mixture | None) -> Tensor:
    """Puts shared rows and the rows of a single reader back together."""
    if split is None:
        return shared
    if isinstance(split, Mixture):
        return split.copied()[0]
    return torch.cat([shared, split[0]], -1) if shared.shape[2] else split[0]
