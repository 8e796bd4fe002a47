"""The published SIIT recipe, with hooks of TransformerLens 4, with which training speed is compared.

For each batch of base/source pairs, three optimiser steps are taken one after another, each on one loss:

1. interchange (IIT): one aligned node, drawn for the whole batch, is taken from the source run;
2. strict: one node outside the circuit, drawn for the whole batch, is taken from the source run;
3. behaviour: the base alone.

Heads are swapped at `hook_z`, MLPs at `hook_post`; source activations are computed without gradients.

It is faster than the published code where that changes no result: labels are looked up in tables instead of
being computed by a second transformer, and only the activation that is needed is kept of a source run. The
strict weight is applied once; the published code applies it twice, so that 10 acts as 100.

Letters of shapes: B pairs, T positions.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from interpbench.alignment.alignment import Alignment
from interpbench.causal.model import Intervention
from interpbench.circuits.naming import Node
from interpbench.transformer.model import Transformer


@dataclass(frozen=True)
class PublishedRecipe:
    """The published settings of `frac_prevs`.

    Attributes:
        pairs: the number of base/source pairs in an epoch, which are the same in every epoch (375 batches).
        betas: the betas of Adam in the published code; PyTorch's (0.9, 0.999) took longer in a trial.
        strict: the published weight of the strict loss for this task; 1 took as long, the usual 0.4 longer.
    """

    batch: int = 256
    pairs: int = 96_000
    learning_rate: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.9)
    clip: float = 0.1
    iit: float = 1.0
    strict: float = 10.0
    behaviour: float = 1.0


class Hooked:
    """A `TransformerBridge` that starts from a network's weights, and the recipe's step on given data."""

    def __init__(self, network: Transformer, recipe: PublishedRecipe):
        self.recipe = recipe
        self.bridge = network.to_transformer_lens()
        self.parameters = list(self.bridge.parameters())
        self.optimizer = torch.optim.Adam(self.parameters, recipe.learning_rate, recipe.betas)

    def learn(
        self,
        tokens: Tensor,
        patch: Tensor,
        labels: Tensor,
        swapped: tuple[Node, Tensor],
        unaligned: Node,
    ) -> None:
        """Takes the three optimiser steps of a batch.

        Args:
            tokens: the token ids of the bases, `[B, T]`.
            patch: the token ids of the sources, `[B, T]`.
            labels: the outputs of the program, numbers or classes, `[B, T - 1]`; -100 where none is scored.
            swapped: an aligned node, and the outputs with its variables swapped.
            unaligned: a node outside the circuit.
        """
        aligned, counterfactual = swapped
        self._descend(self.recipe.iit, self.patched(tokens, patch, aligned), counterfactual)
        self._descend(self.recipe.strict, self.patched(tokens, patch, unaligned), labels)
        self._descend(self.recipe.behaviour, self.bridge(tokens, return_type="logits"), labels)

    def patched(self, base: Tensor, source: Tensor, node: Node) -> Tensor:
        """Returns the logits of `base`, `[B, T]`, with a node's activation taken from `source`, `[B, T]`."""
        kept: list[Tensor] = []

        def keep(activation: Tensor, hook: Any) -> None:
            kept.append(activation)

        def swap(activation: Tensor, hook: Any) -> Tensor:
            if node.head is None:
                return kept[0]
            activation = activation.clone()
            activation[:, :, node.head] = kept[0][:, :, node.head]
            return activation

        name = f"blocks.{node.layer}." + ("mlp.hook_post" if node.head is None else "attn.hook_z")
        with torch.no_grad():
            self.bridge.run_with_hooks(source, return_type="logits", fwd_hooks=[(name, keep)])
        return self.bridge.run_with_hooks(base, return_type="logits", fwd_hooks=[(name, swap)])

    def _descend(self, weight: float, logits: Tensor, targets: Tensor) -> None:
        self.optimizer.zero_grad()
        outputs = logits[:, 1:]
        if targets.is_floating_point():
            loss = weight * functional.mse_loss(outputs[..., 0], targets)
        else:
            loss = weight * functional.cross_entropy(outputs.transpose(1, 2), targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, self.recipe.clip)
        self.optimizer.step()


class Reference(Hooked):
    """A training by the published recipe, for a task with numerical output and few inputs."""

    def __init__(self, network: Transformer, alignment: Alignment, recipe: PublishedRecipe, seed: int):
        assert alignment.task.causal_model.numerical
        super().__init__(network, recipe)
        self.alignment, self.rng = alignment, np.random.default_rng(seed)
        self.aligned, self.unaligned = list(alignment.aligned_nodes), list(alignment.unaligned_nodes)
        inputs = alignment.task.domain.all()
        self.tokens = torch.from_numpy(alignment.task.token_ids(inputs))
        self.labels = torch.from_numpy(alignment.task.causal_model.outputs(inputs)).float()
        self.counterfactuals = {node: self._counterfactuals(inputs, node) for node in self.aligned}
        self.pairs = torch.from_numpy(self.rng.integers(len(inputs), size=(recipe.pairs, 2)))
        self.batches: list[Tensor] = []

    def _counterfactuals(self, inputs: np.ndarray, node: Node) -> Tensor:
        """Returns the program's outputs with a node's variables swapped, `[base, source, pos]`."""
        model, count = self.alignment.task.causal_model, len(inputs)
        base, source = inputs.repeat(count, 0), model.run(np.tile(inputs, (count, 1)))
        everywhere = np.ones(len(base), bool)
        swaps = {name: Intervention(source[name], everywhere) for name in self.alignment.aligned_nodes[node]}
        outputs = model.run(base, swaps)[model.output]
        return torch.from_numpy(outputs).float().view(count, count, -1)

    def step(self) -> None:
        """Trains on one batch, by three optimiser steps on three losses."""
        if not self.batches:
            order = torch.from_numpy(self.rng.permutation(len(self.pairs)))
            self.batches = list(self.pairs[order].split(self.recipe.batch))
        base, source = self.batches.pop().T
        tokens, patch, labels = self.tokens[base], self.tokens[source], self.labels[base]
        aligned = self.aligned[self.rng.integers(len(self.aligned))]
        unaligned = self.unaligned[self.rng.integers(len(self.unaligned))]
        counterfactual = self.counterfactuals[aligned][base, source]
        self.learn(tokens, patch, labels, (aligned, counterfactual), unaligned)

    def network(self) -> Transformer:
        """Returns a copy as this project's `Transformer`, on which both trainings are measured."""
        return Transformer.from_transformer_lens(self.bridge)
