"""The published SIIT recipe, written plainly with TransformerLens 4 hooks: what the speed of training is held against.

Each batch of base/source pairs takes three optimiser steps one after another, each on one loss:

1. interchange (IIT): one aligned node, drawn for the whole batch, is taken from the source run;
2. strict: one node outside the circuit, drawn for the whole batch, is taken from the source run;
3. behaviour: the base alone.

Heads are swapped at `hook_z`, MLPs at `hook_post`; source activations are computed without gradients.

Where it is kinder to the recipe than the published code: labels are looked up in tables made beforehand instead
of being computed by a second transformer, of the source run only the one activation that is needed is kept, and
the strict weight is applied once (the published code applies it twice, so that 10 acts as 100).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformer_lens.config import TransformerBridgeConfig
from transformer_lens.model_bridge import TransformerBridge

from interpbench.alignment.alignment import Alignment
from interpbench.causal.model import Intervention
from interpbench.circuits.components import Node
from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.model import Transformer


@dataclass(frozen=True)
class Recipe:
    """The published settings, for a task with numerical output.

    Attributes:
        pairs: base/source pairs of an epoch (96,000 are 375 batches), the same in every epoch.
        betas: of Adam; the published code had (0.9, 0.9), its library's default before was (0.9, 0.999).
    """

    batch: int = 256
    pairs: int = 96_000
    learning_rate: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.9)
    clip: float = 0.1
    iit: float = 1.0
    strict: float = 0.4
    behaviour: float = 1.0
    init_std: float = 0.146


class Reference:
    """A randomly initialised `TransformerBridge` and its training."""

    def __init__(self, alignment: Alignment, cfg: TransformerConfig, recipe: Recipe, seed: int):
        assert alignment.task.model.numerical
        self.alignment, self.cfg, self.recipe = alignment, cfg, recipe
        self.bridge = boot(cfg, recipe.init_std, seed)
        self.parameters = list(self.bridge.parameters())
        self.optimizer = torch.optim.Adam(self.parameters, recipe.learning_rate, recipe.betas)
        self.rng = np.random.default_rng(seed)
        self.units, self.outside = list(alignment.units), list(alignment.outside)
        self._tabulate()
        self.base, self.source = torch.from_numpy(self.rng.integers(len(self.tokens), size=(2, recipe.pairs)))
        self.batches: list[Tensor] = []

    def _tabulate(self) -> None:
        """Makes the tables of tokens and labels for every input and every pair of inputs."""
        task = self.alignment.task
        inputs = task.domain.all()
        count = len(inputs)
        self.tokens = torch.from_numpy(task.token_ids(inputs))
        self.labels = torch.from_numpy(task.model.outputs(inputs)).float()
        base, trace = inputs.repeat(count, 0), task.model.run(np.tile(inputs, (count, 1)))
        everywhere = np.ones(len(base), bool)
        self.counterfactuals: dict[Node, Tensor] = {}
        for node, names in self.alignment.units.items():
            swaps = {name: Intervention(trace[name], everywhere) for name in names}
            output = task.model.run(base, swaps)[task.model.output]
            self.counterfactuals[node] = torch.from_numpy(output).float().view(count, count, -1)

    def step(self) -> None:
        """Trains on one batch: three losses, three optimiser steps."""
        if not self.batches:
            order = torch.from_numpy(self.rng.permutation(self.recipe.pairs))
            self.batches = list(order.split(self.recipe.batch))
        rows = self.batches.pop()
        base, source = self.base[rows], self.source[rows]
        tokens, patch = self.tokens[base], self.tokens[source]
        aligned = self.units[self.rng.integers(len(self.units))]
        outside = self.outside[self.rng.integers(len(self.outside))]

        counterfactual = self.counterfactuals[aligned][base, source]
        self._descend(self.recipe.iit, self.patched(tokens, patch, aligned), counterfactual)
        self._descend(self.recipe.strict, self.patched(tokens, patch, outside), self.labels[base])
        self._descend(self.recipe.behaviour, self.bridge(tokens, return_type="logits"), self.labels[base])

    def patched(self, base: Tensor, source: Tensor, node: Node) -> Tensor:
        """Returns logits of the base with a node's activation, at all positions, from the source."""
        kept: dict[str, Tensor] = {}

        def keep(activation: Tensor, hook: Any) -> None:
            kept["source"] = activation

        def swap(activation: Tensor, hook: Any) -> Tensor:
            if node.head is None:
                return kept["source"]
            activation = activation.clone()
            activation[:, :, node.head] = kept["source"][:, :, node.head]
            return activation

        name = f"blocks.{node.layer}." + ("mlp.hook_post" if node.head is None else "attn.hook_z")
        run: Callable[..., Tensor] = partial(self.bridge.run_with_hooks, return_type="logits")
        with torch.no_grad():
            run(source, fwd_hooks=[(name, keep)])
        return run(base, fwd_hooks=[(name, swap)])

    def _descend(self, weight: float, logits: Tensor, targets: Tensor) -> None:
        self.optimizer.zero_grad()
        loss = weight * torch.nn.functional.mse_loss(logits[:, 1:, 0], targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, self.recipe.clip)
        self.optimizer.step()

    @torch.no_grad()
    def network(self) -> Transformer:
        """Returns a copy as this project's transformer, so that one ruler measures both trainings."""
        network = Transformer(self.cfg)
        bridge = self.bridge.state_dict()
        heads = (self.cfg.n_heads, self.cfg.d_head)
        state = {
            "embed.W_E": bridge["embed.weight"],
            "pos_embed.W_pos": bridge["pos_embed.weight"],
            "unembed.W_U": bridge["unembed.weight"].T,
            "unembed.b_U": bridge["unembed.bias"],
        }
        for layer in range(self.cfg.n_layers):
            for letter in "qkv":
                place = f"blocks.{layer}.attn.{letter}"
                weight = bridge[f"{place}.weight"].view(*heads, -1).transpose(1, 2)
                state[f"blocks.{layer}.attn.W_{letter.upper()}"] = weight
                state[f"blocks.{layer}.attn.b_{letter.upper()}"] = bridge[f"{place}.bias"].view(heads)
            place = f"blocks.{layer}.attn.o"
            state[f"blocks.{layer}.attn.W_O"] = bridge[f"{place}.weight"].T.reshape(*heads, -1)
            state[f"blocks.{layer}.attn.b_O"] = bridge[f"{place}.bias"]
            for part in ("in", "out"):
                place = f"blocks.{layer}.mlp.{part}"
                state[f"blocks.{layer}.mlp.W_{part}"] = bridge[f"{place}.weight"].T
                state[f"blocks.{layer}.mlp.b_{part}"] = bridge[f"{place}.bias"]
        network.load_state_dict(state)
        return network


def boot(cfg: TransformerConfig, init_std: float, seed: int) -> TransformerBridge:
    """Returns a bridge of this shape: weights from a normal distribution, biases zero, no LayerNorm."""
    bridge = TransformerBridge.boot_native(
        TransformerBridgeConfig(
            n_layers=cfg.n_layers,
            n_heads=cfg.n_heads,
            d_model=cfg.d_model,
            d_head=cfg.d_head,
            d_mlp=cfg.d_mlp,
            d_vocab=cfg.d_vocab,
            d_vocab_out=cfg.d_out,
            n_ctx=cfg.n_ctx,
            act_fn=cfg.activation,
            attention_dir=cfg.attention,
            normalization_type=None,
            seed=seed,
        )
    )
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in bridge.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, init_std, generator=generator)
    return bridge
