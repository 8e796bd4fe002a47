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

from interpbench.transformer.attention import by_rows
from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.fast.frozen_parts import Packed, mlp
from interpbench.transformer.fast.patch_differences import Mixture
from interpbench.transformer.layers import Block, Embed, Mlp, PosEmbed, Unembed, join, norm, normalised


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

    def narrow(self, places: Tensor) -> None:
        """From here on tensors are `[..., 1, P]`, and what they were at some `places [P]` of T × N."""

    def given(self, writers: Sequence[int]) -> Tensor:
        """Returns the sum `[D, T, N]` of what writers that are not computed write; asked only with `live`."""
        raise NotImplementedError(f"{type(self).__name__} has `live`, but does not say what the others write")


class Transformer(nn.Module):
    """The low-level model."""

    def __init__(self, cfg: TransformerConfig, seed: int = 0):
        super().__init__()
        self.cfg = cfg
        self.embed = Embed(cfg)
        self.pos_embed = PosEmbed(cfg) if cfg.positions == "learned" else None
        self.blocks = nn.ModuleList(Block(cfg) for _ in range(cfg.n_layers))
        self.ln_final = norm(cfg)
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
            if self.cfg.init_orthogonal:
                self._make_orthogonal()
            positions, dimensions = self.cfg.init_positions, self.cfg.d_model
            if positions and self.pos_embed is not None:
                self.embed.W_E[:, dimensions - positions :] = 0
                self.pos_embed.W_pos[:, : dimensions - positions] = 0
                self.pos_embed.W_pos.mul_(math.sqrt(dimensions / positions))

    def _make_orthogonal(self) -> None:
        """Makes every head's values and outputs orthogonal maps, and tokens, positions and classes long."""
        for name, parameter in self.named_parameters():
            if name.endswith(("W_V", "W_O")):
                for head in parameter:
                    wide = head.shape[0] < head.shape[1]
                    basis = torch.linalg.qr(head.T if wide else head)[0]
                    head.copy_((basis.T if wide else basis) * (2.0 if name.endswith("W_V") else 0.7))
            elif name.endswith(("W_E", "W_pos", "W_U")):
                parameter *= 3 if name.endswith("W_U") else 4

    def embedding(self, tokens: Tensor) -> Tensor:
        """Embeds `tokens [N, T]` as `[D, T, N]`."""
        embedded = nn.functional.embedding(tokens.T, self.embed.W_E).permute(2, 0, 1).contiguous()
        if self.pos_embed is None:
            return embedded
        return embedded + self.pos_embed.W_pos[: tokens.shape[1]].T.unsqueeze(2)

    def run(
        self,
        embedding: Tensor,
        interventions: Interventions | None = None,
        start: int = 0,
        only: Tensor | None = None,
        packed: Packed | None = None,
        stop: int | None = None,
    ) -> Tensor:
        """Runs rows through the network.

        Args:
            embedding: `[D, T, N]`: what the embedding writes; with `start`, the residual stream before
                that layer.
            interventions: what rows write and read instead of their own.
            start: the first layer to compute.
            only: `[N]`: the one position of each row whose logits are wanted; None for all.
            packed: instead of `only`, which positions the rows `[D, 1, K × F]` are, for `Candidates` whose
                readers are all patched. It needs a network that is done and has batched attention.
            stop: the first layer not to compute; None for none.

        Returns:
            Logits `[V, T, N]`, with `only` `[V, 1, N]`, with `packed` `[V, 1, K × B]`; with `stop` the
            residual stream `[D, T, N]` before that layer.
        """
        patch = interventions or Interventions()
        patch.begin(self.cfg)
        residual = embedding
        if packed is not None:
            assert self.cfg.positions == "learned", "where packed rows are is not known to rotary positions"
            only = packed.only.repeat(embedding.shape[2] // packed.count)
        if start == 0:
            residual = patch.write(range(1), embedding[None])[0]
        for layer in range(start, self.cfg.n_layers if stop is None else stop):
            last = layer == self.cfg.n_layers - 1
            places = _places(residual, only, packed) if last else None
            residual = self._layer(layer, residual, patch, places, only, packed)
        if stop is not None:
            return residual
        last = self.cfg.n_layers * (3 * self.cfg.n_heads + 1)
        shared, split = patch.read(range(last, last + 1), residual)
        if isinstance(split, Mixture):
            seen, weight, bias = normalised(split, self.ln_final, self.unembed.W_U.T, self.unembed.b_U)
            return (weight @ seen.flatten(1)).view(-1, *seen.shape[1:]) + bias[:, None, None]
        seen = join(shared, split)
        logits = self.unembed.W_U.T @ self.ln_final(seen).flatten(1)
        return logits.view(-1, *seen.shape[1:]) + self.unembed.b_U[:, None, None]

    def _layer(
        self,
        layer: int,
        residual: Tensor,
        patch: Interventions,
        places: Tensor | None,
        only: Tensor | None,
        packed: Packed | None,
    ) -> Tensor:
        """Maps the residual stream `[D, T, N]` before a layer to the one after it.

        With `places [P]` of T × N, to that at these places alone, `[D, 1, P]`; `only [P]` are their
        positions.
        """
        block: Block = self.blocks[layer]  # type: ignore[assignment]
        count, live = self.cfg.n_heads, patch.live
        writer, reader = 1 + layer * (count + 1), layer * (3 * count + 1)
        heads = [head for head in range(count) if live is None or live[writer + head]]
        rows_last = packed is None and by_rows(residual.shape[1], residual.device)

        def project(kinds: slice) -> list[Tensor]:
            readers = [reader + slot * count + head for slot in range(3)[kinds] for head in heads]
            return block.attn.project(kinds, *patch.read(readers, residual), block.ln1, heads, rows_last)

        parts = [[part] for part in project(slice(places is not None, 3))] if heads else []
        if places is not None:  # of queries alone
            patch.narrow(places)
            residual = residual.flatten(1)[:, None, places]
            queries = project(slice(1)) if heads else []
            parts = [[query, *others] for query, others in zip(queries, parts)]
        if heads:
            writers = [writer + head for head in heads]
            summed = patch.ignores(writers)
            at, others = None if places is None else only, packed.others[layer] if packed else None
            written, patterns = block.attn(parts, heads, summed, at, packed, others)
            patch.attend(writers, patterns)
            total = written if summed else patch.write(writers, written).sum(0)
            residual = total.add_(residual)
        if len(heads) < count:
            residual = residual + patch.given([writer + h for h in range(count) if h not in heads])
        residual.add_(block.attn.b_O[:, None, None])
        if live is not None and not live[writer + count]:
            return residual + patch.given([writer + count])
        shared, split = patch.read(range(reader + 3 * count, reader + 3 * count + 1), residual)
        if isinstance(split, Mixture) and type(block.mlp) is Mlp:
            seen, weight, bias = normalised(split, block.ln2, block.mlp.W_in.T, block.mlp.b_in)
            written = mlp(seen, weight, bias, block.mlp.W_out.T, block.mlp.b_out, block.mlp.activation)
        else:
            written = block.mlp(block.ln2(join(shared, split)))
        return residual + patch.write(range(writer + count, writer + count + 1), written[None])[0]

    def forward(self, tokens: Tensor) -> Tensor:
        """Runs `tokens [N, T]` without interventions and returns logits `[N, T, V]`."""
        return self.run(self.embedding(tokens)).permute(2, 1, 0)

    def to_transformer_lens(self) -> Any:
        """Returns a TransformerLens 4 `TransformerBridge` with the same logits and a copy of the weights.

        TransformerLens keeps the unembedding's bias as a buffer: it counts, but is not trained there.
        """
        from interpbench.transformer.transformer_lens import bridge_of

        return bridge_of(self.cfg, self.state_dict())

    @classmethod
    def from_transformer_lens(cls, bridge: Any) -> "Transformer":
        """Returns a network with the same logits as a native TransformerLens 4 model, from its weights.

        Raises:
            ConfigError: if its activation, normalization or attention is none of ours.
            CheckpointError: if it has a part that ours lack.
        """
        from interpbench.transformer.transformer_lens import copy_weights, shape_of

        network = cls(shape_of(bridge)).to(bridge.W_E.device, bridge.W_E.dtype)
        copy_weights(bridge, network.state_dict())
        return network


def _places(residual: Tensor, only: Tensor | None, packed: Packed | None) -> Tensor | None:
    """Returns where in T × N of the residual stream the wanted positions are; None for all."""
    rows = residual.shape[2]
    if packed is not None:
        firsts = torch.arange(0, rows, packed.count, device=residual.device)
        return (firsts[:, None] + packed.rows).flatten()
    return None if only is None else only * rows + torch.arange(rows, device=residual.device)
