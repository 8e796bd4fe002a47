"""A small transformer whose every residual read and write can be intervened on.

State-dict names and shapes are TransformerLens's. Inside, tensors are feature-first: D d_model, H heads,
E head width, M d_mlp, V outputs, T positions, N rows, W writers, R readers; rows come last.

There are no hooks. `Transformer.run` asks an `Interventions` object, at each step, what rows really see and
write; `recording.py`, `worlds.py`, `routes.py` and `head_parts.py` have the ones that there are. What is fast
because a network is trained already is in `fast/`, behind `run_circuits`.
"""

from typing import Any

import torch
from torch import Tensor, nn

from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.initial_weights import initialise
from interpbench.transformer.interventions import Interventions
from interpbench.transformer.layers import Block, Embed, PosEmbed, Unembed, norm


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
        initialise(self, cfg, seed)

    def forward(self, tokens: Tensor) -> Tensor:
        """Runs `tokens [N, T]` without interventions and returns logits `[N, T, V]`."""
        return self.run(self.embedding(tokens)).permute(2, 1, 0)

    def embedding(self, tokens: Tensor) -> Tensor:
        """Embeds `tokens [N, T]` as `[D, T, N]`."""
        embedded = nn.functional.embedding(tokens.T, self.embed.W_E).permute(2, 0, 1).contiguous()
        if self.pos_embed is None:
            return embedded
        return embedded + self.pos_embed.W_pos[: tokens.shape[1]].T.unsqueeze(2)

    def run(self, embedding: Tensor, interventions: Interventions | None = None) -> Tensor:
        """Runs rows through the network.

        Args:
            embedding: `[D, T, N]`: what the embedding writes.
            interventions: what rows write and read instead of their own.

        Returns:
            Logits `[V, T, N]`.
        """
        patch = interventions or Interventions()
        patch.begin(self.cfg)
        residual = patch.write(range(1), embedding[None])[0]
        for layer in range(self.cfg.n_layers):
            residual = self._layer(layer, residual, patch)
        logits = self.cfg.n_layers * (3 * self.cfg.n_heads + 1)
        shared, split = patch.read(range(logits, logits + 1), residual)
        return self.unembed(self.ln_final(_all_rows(shared, split)))

    def run_groups(self, embedding: Tensor, interventions: Interventions, count: int) -> Tensor:
        """Runs the same examples several times, for interventions whose rows are group-major.

        Args:
            embedding: `[D, T, B]`.
            interventions: of `count` groups of B rows.
            count: how often, G.

        Returns:
            Logits `[V, T, G, B]`.
        """
        rows = embedding.unsqueeze(2).expand(-1, -1, count, -1).flatten(2)
        return self.run(rows, interventions).unflatten(2, (count, -1))

    def _layer(self, layer: int, residual: Tensor, patch: Interventions) -> Tensor:
        """Maps the residual stream `[D, T, N]` before a layer to the one after it."""
        block: Block = self.blocks[layer]  # type: ignore[assignment]
        count = self.cfg.n_heads
        first, reader = 1 + layer * (count + 1), layer * (3 * count + 1)
        heads, mlp = range(first, first + count), range(first + count, first + count + 1)

        shared, split = patch.read(range(reader, reader + 3 * count), residual)
        attn, maps, projected = block.attn, block.attn.maps(), list[Tensor]()
        if shared.shape[2] or split is None:
            projected.append(attn.project(block.ln1(shared), maps))
        if split is not None:
            projected.append(attn.project_each(block.ln1(split), maps))
        projected = patch.project(heads, projected)
        patterns = patch.attend(heads, [attn.pattern(q, k) for q, k, _ in projected])
        mixed = [attn.mix(pattern, v) for pattern, (_, _, v) in zip(patterns, projected)]
        written = patch.write(heads, attn.write(mixed[0] if len(mixed) == 1 else torch.cat(mixed, -1)))
        residual = written.sum(0).add_(residual).add_(attn.b_O[:, None, None])

        shared, split = patch.read(range(reader + 3 * count, reader + 3 * count + 1), residual)
        written = block.mlp(block.ln2(_all_rows(shared, split)))
        return residual + patch.write(mlp, written[None])[0]

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


def _all_rows(shared: Tensor, split: Tensor | None) -> Tensor:
    """Puts shared rows and the rows of a single reader back together."""
    if split is None:
        return shared
    return torch.cat([shared, split[0]], -1) if shared.shape[2] else split[0]
