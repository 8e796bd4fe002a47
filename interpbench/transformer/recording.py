"""Activation caches: what nodes wrote and what the residual stream was in a run.

Shapes: D d_model, V outputs, T positions, N rows, W nodes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.interventions import Interventions
from interpbench.transformer.model import Transformer
from interpbench.transformer.tensors import (
    Logits,
    Patterns,
    ReaderInputs,
    Residual,
    SharedRows,
    Tokens,
    WriterOutputs,
)


@dataclass(frozen=True)
class ActivationCache:
    """The activations of a run.

    Attributes:
        stack: `[W, D, T, N]`, what every node wrote.
        residuals: the residual stream `[D, T, N]` before each layer, and before the unembedding.
        middles: the residual stream `[D, T, N]` before each layer's MLP, after its heads.
    """

    stack: WriterOutputs
    residuals: list[Residual]
    middles: list[Residual]


class Recording(Interventions):
    """Caches what every node writes, and the residual stream; it patches nothing."""

    def begin(self, cfg: TransformerConfig) -> None:
        """Clears the cache of an earlier run."""
        self._written: list[Tensor] = []
        self._per_layer = 3 * cfg.n_heads + 1
        self._residuals: list[Tensor] = []
        self._middles: list[Tensor] = []

    def write(self, writers: Sequence[int], outputs: WriterOutputs) -> WriterOutputs:
        """Caches outputs and returns them unchanged."""
        self._written.append(outputs)
        return outputs

    def read(self, readers: Sequence[int], residual: Residual) -> tuple[SharedRows, ReaderInputs | None]:
        """Caches the residual stream and returns it unchanged."""
        (self._middles if readers[0] % self._per_layer else self._residuals).append(residual)
        return residual, None

    @property
    def cache(self) -> ActivationCache:
        """The activations of the last run."""
        return ActivationCache(torch.cat(self._written), self._residuals, self._middles)


class AttentionPatterns(Interventions):
    """Keeps the attention patterns of a run, and changes none.

    Attributes:
        each: the patterns of each layer's heads, `[H, Q, K, N]`.
    """

    def begin(self, cfg: TransformerConfig) -> None:
        """Clears those of an earlier run."""
        self.each: list[Tensor] = []

    def attend(self, writers: Sequence[int], patterns: list[Patterns]) -> list[Patterns]:
        """Keeps a layer's patterns and returns them unchanged."""
        self.each.append(patterns[0])
        return patterns


def record(network: Transformer, tokens: Tokens) -> tuple[Logits, ActivationCache]:
    """Runs `tokens [N, T]` without interventions; returns logits `[V, T, N]` and the activation cache."""
    recording = Recording()
    logits = network.run(network.embedding(tokens), recording)
    return logits, recording.cache
