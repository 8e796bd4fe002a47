"""A small transformer in which every read from and write to the residual stream can be intervened on.

Names and shapes of the state dict are TransformerLens's. Activations have the row as their last axis,
contiguous in memory: D d_model, V outputs, T positions, N rows.

There are no hooks: at each step `Transformer.run` passes activations to an `Interventions` object and goes on
with what that returns. `recording.py` caches them, `worlds.py`, `routes.py` and `head_parts.py` patch them.
For trained networks, whose weights get no gradient, `fast.run_circuits` is faster.
"""

from typing import Any

import torch
from torch import Tensor, nn

from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.initial_weights import initialise
from interpbench.transformer.interventions import Interventions
from interpbench.transformer.layers import Block, Embed, PosEmbed, Unembed, norm
from interpbench.transformer.tensors import GroupedLogits, LogitRows, Logits, Residual, Tokens


class Transformer(nn.Module):
    """The network: a transformer with the weights of TransformerLens's `HookedTransformer`.

    Args:
        cfg: its configuration.
        seed: the seed of its initial weights.
    """

    def __init__(self, cfg: TransformerConfig, seed: int = 0):
        super().__init__()
        self.cfg = cfg
        self.embed = Embed(cfg)
        self.pos_embed = PosEmbed(cfg) if cfg.positions == "learned" else None
        self.blocks = nn.ModuleList(Block(cfg) for _ in range(cfg.n_layers))
        self.ln_final = norm(cfg)
        self.unembed = Unembed(cfg)
        initialise(self, cfg, seed)

    def forward(self, tokens: Tokens) -> LogitRows:
        """Returns logits `[N, T, V]` of `tokens [N, T]`, without interventions."""
        return self.run(self.embedding(tokens)).permute(2, 1, 0)

    def embedding(self, tokens: Tokens) -> Residual:
        """Returns what the embedding writes for `tokens [N, T]`, `[D, T, N]`."""
        embedded = nn.functional.embedding(tokens.T, self.embed.W_E).permute(2, 0, 1).contiguous()
        if self.pos_embed is None:
            return embedded
        return embedded + self.pos_embed.W_pos[: tokens.shape[1]].T.unsqueeze(2)

    def run(self, embedding: Residual, interventions: Interventions | None = None) -> Logits:
        """Runs rows through the network and returns their logits `[V, T, N]`.

        Args:
            embedding: `[D, T, N]`, what the embedding writes (`embedding`).
            interventions: what is patched or cached in the run; None for a clean run.
        """
        return self.unembed(self.stream(embedding, interventions))

    def stream(self, embedding: Residual, interventions: Interventions | None = None) -> Residual:
        """Runs rows through the network, and returns what its unembedding reads, normalised, `[D, T, N]`.

        Args:
            embedding: `[D, T, N]`, what the embedding writes (`embedding`).
            interventions: what is patched or cached in the run; None for a clean run.
        """
        patch = interventions or Interventions()
        patch.begin(self.cfg)
        residual = patch.write(range(1), embedding[None])[0]
        for layer in range(self.cfg.n_layers):
            residual = self._layer(layer, residual, patch)
        logits = self.cfg.n_layers * (3 * self.cfg.n_heads + 1)
        shared, split = patch.read(range(logits, logits + 1), residual)
        return self.ln_final(_all_rows(shared, split))

    def run_groups(self, embedding: Residual, interventions: Interventions, count: int) -> GroupedLogits:
        """Runs the same B examples in G groups, each with interventions of its own.

        Args:
            embedding: `[D, T, B]`, what the embedding writes.
            interventions: interventions on G × B rows, those of the first group first.
            count: the number of groups G.

        Returns:
            Logits `[V, T, G, B]`.
        """
        rows = embedding.unsqueeze(2).expand(-1, -1, count, -1).flatten(2)
        return self.run(rows, interventions).unflatten(2, (count, -1))

    def _layer(self, layer: int, residual: Tensor, patch: Interventions) -> Tensor:
        """Returns the residual stream `[D, T, N]` after a layer, given the one before it."""
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

        TransformerLens keeps the unembedding's bias as a buffer: it is added, but not trained there.
        """
        from interpbench.transformer.transformer_lens import bridge_of

        return bridge_of(self.cfg, self.state_dict())

    @classmethod
    def from_transformer_lens(cls, bridge: Any) -> "Transformer":
        """Returns a network with the logits of a native TransformerLens 4 model and a copy of its weights.

        Raises:
            ConfigError: if the model has an activation, normalization or attention that is not supported.
            CheckpointError: if the model has a part that is not supported.
        """
        from interpbench.transformer.transformer_lens import copy_weights, shape_of

        network = cls(shape_of(bridge)).to(bridge.W_E.device, bridge.W_E.dtype)
        copy_weights(bridge, network.state_dict())
        return network


def _all_rows(shared: Tensor, split: Tensor | None) -> Tensor:
    """Returns all rows of a single reader's input `[D, T, N]`: the shared ones, then its own."""
    if split is None:
        return shared
    return torch.cat([shared, split[0]], -1) if shared.shape[2] else split[0]
