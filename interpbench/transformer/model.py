"""A small transformer whose every residual read and write can be intervened on.

State-dict names and shapes are TransformerLens's. Inside, tensors are feature-first: D d_model, H heads,
E head width, M d_mlp, V outputs, T positions, N rows, W writers, R readers; rows come last.

There are no hooks. `Transformer.run` asks an `Interventions` object, after each write and before each
read, what rows really write and see; `patching.py` has the ones that there are.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from interpbench.transformer.attention import attend
from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.differences import Mixture
from interpbench.transformer.rowwise import normalise


class Interventions:
    """No intervention: the base class, and what a clean run uses.

    Attributes:
        live: `[W]` bools, the writers to compute; None for all. What the others write is known, and their
            sum comes from `given`.
    """

    live: Sequence[bool] | None = None

    def begin(self, cfg: TransformerConfig) -> None:
        """Called once before a run."""

    def write(self, writers: Sequence[int], outputs: Tensor) -> Tensor:
        """Gets the outputs `[K, D, T, N]` of some writers; returns what is written."""
        return outputs

    def attend(self, writers: Sequence[int], patterns: Sequence[Tensor]) -> None:
        """Gets the attention patterns `[K, Q, K, N]` of some heads, the rows as `read` splits them."""

    def ignores(self, writers: Sequence[int]) -> bool:
        """Returns whether `write` neither changes nor keeps these outputs: only their sum is made then."""
        return type(self).write is Interventions.write

    def read(self, readers: Sequence[int], residual: Tensor) -> tuple[Tensor, Tensor | Mixture | None]:
        """Splits rows by how some readers see the residual `[D, T, N]`.

        Returns:
            The leading rows `[D, T, N1]`, which all these readers see alike, and the trailing rows
            `[len(readers), D, T, N2]` with an input for each reader, or None.
        """
        return residual, None

    def given(self, writers: Sequence[int]) -> Tensor:
        """Returns the sum `[D, T, N]` of what writers that are not computed write; asked only with `live`."""
        raise NotImplementedError(f"{type(self).__name__} has `live`, but does not say what the others write")


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
        self.causal = cfg.attention == "causal"

    def forward(
        self,
        shared: Tensor,
        split: Tensor | Mixture | None,
        norm: nn.Module,
        heads: Sequence[int],
        summed: bool = False,
    ) -> tuple[Tensor, list[Tensor]]:
        """Normalises inputs as `Interventions.read` gives them, and runs some heads on them.

        Returns:
            What they write, `[H, D, T, N]`, or their sum `[D, T, N]`; and their patterns `[H, Q, K, N]`, for
            shared rows and for split ones.
        """
        scale = self.W_Q.shape[2] ** -0.5
        weights = torch.stack((self.W_Q * scale, self.W_K, self.W_V)).transpose(2, 3)  # [3, H, E, D]
        biases = torch.stack((self.b_Q * scale, self.b_K, self.b_V))
        output = self.W_O.transpose(1, 2)
        if len(heads) < len(self.W_Q):
            weights, biases, output = weights[:, heads], biases[:, heads], output[heads]
        kinds, count, width, features = weights.shape
        length = shared.shape[1]
        parts: list[tuple[Tensor, Tensor]] = []
        if shared.shape[2] or split is None:
            projected = torch.addmm(
                biases.view(-1, 1), weights.reshape(-1, features), norm(shared).flatten(1)
            )
            q, k, v = projected.view(kinds, count, width, length, -1).unbind()
            parts.append(self.mix(q, k, v))
        if split is not None:
            own = _project(split, norm, weights.reshape(-1, width, features), biases.reshape(-1, width))
            q, k, v = own.view(kinds, count, width, length, -1).unbind()
            parts.append(self.mix(q, k, v))
        mixed = torch.cat([values for values, _ in parts], -1) if len(parts) > 1 else parts[0][0]
        patterns = [pattern for _, pattern in parts]
        if summed:
            total = output.transpose(0, 1).reshape(features, -1) @ mixed.flatten(0, 1).flatten(1)
            return total.view(features, length, -1), patterns
        written = output @ mixed.flatten(2)
        return written.view(count, features, length, -1), patterns

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Averages values: q (scaled), k, v `[H, E, T, N]` to `[H, E, T, N]` and the pattern."""
        return attend(q, k, v, self.causal)


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

    def activate(self, hidden: Tensor) -> Tensor:
        """Applies the activation function, elementwise."""
        if self.activation == "relu":
            return hidden.relu()
        return nn.functional.gelu(hidden, approximate="tanh" if self.activation == "gelu_new" else "none")


class Block(nn.Module):
    """One layer: attention, then MLP."""

    def __init__(self, cfg: TransformerConfig):
        super().__init__()
        normalized = cfg.normalization is not None
        self.ln1 = Norm(cfg) if normalized else nn.Identity()
        self.attn = Attention(cfg)
        self.ln2 = Norm(cfg) if normalized else nn.Identity()
        self.mlp = Mlp(cfg)


class Unembed(nn.Module):
    """`W_U [D, V]` and `b_U [V]`."""

    def __init__(self, cfg: TransformerConfig):
        super().__init__()
        self.W_U = nn.Parameter(torch.empty(cfg.d_model, cfg.d_out))
        self.b_U = nn.Parameter(torch.zeros(cfg.d_out), cfg.biases)


class Transformer(nn.Module):
    """The low-level model."""

    def __init__(self, cfg: TransformerConfig, seed: int = 0):
        super().__init__()
        self.cfg = cfg
        self.embed = Embed(cfg)
        self.pos_embed = PosEmbed(cfg)
        self.blocks = nn.ModuleList(Block(cfg) for _ in range(cfg.n_layers))
        self.ln_final = Norm(cfg) if cfg.normalization is not None else nn.Identity()
        self.unembed = Unembed(cfg)
        self.initialise(seed)

    def initialise(self, seed: int) -> None:
        """Draws every weight matrix from a normal distribution; biases are zero."""
        generator = torch.Generator().manual_seed(seed)
        std = self.cfg.init_std or 0.8 / math.sqrt(self.cfg.d_model)
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                if name.split(".")[-1].startswith("W_"):
                    values = torch.empty(parameter.shape).normal_(0, std, generator=generator)
                    parameter.copy_(values)
            for name, parameter in self.named_parameters() if self.cfg.init_matching else ():
                if name.endswith("W_K"):
                    parameter.copy_(self.get_parameter(name.replace("W_K", "W_Q")))
                elif name.endswith(("W_O", "W_out")):
                    parameter *= 0.1
                elif name.endswith(("W_E", "W_pos")):
                    parameter *= 3
            positions, dimensions = self.cfg.init_positions, self.cfg.d_model
            if positions:
                self.embed.W_E[:, dimensions - positions :] = 0
                self.pos_embed.W_pos[:, : dimensions - positions] = 0
                self.pos_embed.W_pos.mul_(math.sqrt(dimensions / positions))

    def embedding(self, tokens: Tensor) -> Tensor:
        """Embeds `tokens [N, T]` as `[D, T, N]`."""
        embedded = nn.functional.embedding(tokens.T, self.embed.W_E).permute(2, 0, 1).contiguous()
        return embedded + self.pos_embed.W_pos[: tokens.shape[1]].T.unsqueeze(2)

    def run(
        self,
        embedding: Tensor,
        interventions: Interventions | None = None,
        start: int = 0,
    ) -> Tensor:
        """Runs rows through the network.

        Args:
            embedding: `[D, T, N]`: what the embedding writes; with `start`, the residual stream before
                that layer.
            interventions: what rows write and read instead of their own.
            start: the first layer to compute.

        Returns:
            Logits `[V, T, N]`.
        """
        patch = interventions or Interventions()
        patch.begin(self.cfg)
        residual = embedding
        if start == 0:
            residual = patch.write(range(1), embedding[None])[0]
        for layer in range(start, self.cfg.n_layers):
            residual = self._layer(layer, residual, patch)
        last = self.cfg.n_layers * (3 * self.cfg.n_heads + 1)
        seen = _join(patch.read(range(last, last + 1), residual))
        logits = self.unembed.W_U.T @ self.ln_final(seen).flatten(1)
        return logits.view(-1, *seen.shape[1:]) + self.unembed.b_U[:, None, None]

    def _layer(self, layer: int, residual: Tensor, patch: Interventions) -> Tensor:
        """Maps the residual stream `[D, T, N]` before a layer to the one after it."""
        block: Block = self.blocks[layer]  # type: ignore[assignment]
        count, live = self.cfg.n_heads, patch.live
        writer, reader = 1 + layer * (count + 1), layer * (3 * count + 1)
        heads = [head for head in range(count) if live is None or live[writer + head]]
        if heads:
            readers = [reader + slot * count + head for slot in range(3) for head in heads]
            shared, split = patch.read(readers, residual)
            writers = [writer + head for head in heads]
            summed = patch.ignores(writers)
            written, patterns = block.attn(shared, split, block.ln1, heads, summed)
            patch.attend(writers, patterns)
            residual = residual + (written if summed else patch.write(writers, written).sum(0))
        if len(heads) < count:
            residual = residual + patch.given([writer + h for h in range(count) if h not in heads])
        residual = residual + block.attn.b_O[:, None, None]
        if live is not None and not live[writer + count]:
            return residual + patch.given([writer + count])
        seen = _join(patch.read(range(reader + 3 * count, reader + 3 * count + 1), residual))
        return (
            residual
            + patch.write(range(writer + count, writer + count + 1), block.mlp(block.ln2(seen))[None])[0]
        )

    def forward(self, tokens: Tensor) -> Tensor:
        """Runs `tokens [N, T]` without interventions and returns logits `[N, T, V]`."""
        return self.run(self.embedding(tokens)).permute(2, 1, 0)

    def to_transformer_lens(self) -> Any:
        """Returns a TransformerLens 4 `TransformerBridge` with these weights."""
        from interpbench.transformer.transformer_lens import to_transformer_lens

        return to_transformer_lens(self)


def _project(split: Tensor | Mixture, norm: nn.Module, weight: Tensor, bias: Tensor) -> Tensor:
    """Normalises each reader's own input and maps it by `weight [R, E, D]` and `bias [R, E]`."""
    if isinstance(split, Mixture):
        if type(norm) is nn.Identity:
            return split.project(weight, bias, None)
        if type(norm) is Norm:
            return split.project(*norm.folded(weight, bias), norm.eps)
        split = split.inputs()
    return torch.baddbmm(bias.unsqueeze(2), weight, norm(split).flatten(2))


def _join(rows: tuple[Tensor, Tensor | Mixture | None]) -> Tensor:
    """Puts shared rows and the rows of a single reader back together."""
    shared, split = rows
    if split is None:
        return shared
    if isinstance(split, Mixture):
        split = split.inputs()
    return torch.cat([shared, split[0]], -1) if shared.shape[2] else split[0]
