"""Activation caches: what a run computed. Shapes as in `model.py`."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.interventions import Interventions
from interpbench.transformer.model import Transformer


@dataclass(frozen=True)
class ActivationCache:
    """What a run computed.

    Attributes:
        stack: `[W, D, T, N]`, what every writer wrote.
        residuals: the residual stream `[D, T, N]` that each layer's heads read, and the logits.
        middles: the residual stream `[D, T, N]` that each layer's MLP reads.
    """

    stack: Tensor
    residuals: list[Tensor]
    middles: list[Tensor]


class Recording(Interventions):
    """Keeps what every writer wrote, and the residual stream."""

    def begin(self, cfg: TransformerConfig) -> None:
        """Forgets an earlier run."""
        self._written: list[Tensor] = []
        self._per_layer = 3 * cfg.n_heads + 1
        self._residuals: list[Tensor] = []
        self._middles: list[Tensor] = []

    def write(self, writers: Sequence[int], outputs: Tensor) -> Tensor:
        """Keeps the outputs."""
        self._written.append(outputs)
        return outputs

    def read(self, readers: Sequence[int], residual: Tensor) -> tuple[Tensor, Tensor | None]:
        """Keeps the residual stream."""
        (self._middles if readers[0] % self._per_layer else self._residuals).append(residual)
        return residual, None

    @property
    def cache(self) -> ActivationCache:
        """The last run's activations."""
        return ActivationCache(torch.cat(self._written), self._residuals, self._middles)


def record(network: Transformer, tokens: Tensor) -> tuple[Tensor, ActivationCache]:
    """Runs `tokens [N, T]` cleanly; returns logits `[V, T, N]` and what was computed."""
    recording = Recording()
    logits = network.run(network.embedding(tokens), recording)
    return logits, recording.cache
