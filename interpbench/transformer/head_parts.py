"""Activation caching and patching inside heads: queries, keys, values and attention patterns.

They are named as TransformerLens's hooks: `q`, `k` and `v` are what `hook_q`, `hook_k` and `hook_v` hold
(before rotary positions rotate them), `pattern` is what `hook_pattern` holds.

Shapes: H heads, E d_head, T positions, Q positions of queries, K positions of keys, N rows.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor

from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.interventions import Interventions
from interpbench.transformer.tensors import Patterns, Projections

HeadPart = Literal["q", "k", "v", "pattern"]
QKV: tuple[HeadPart, ...] = ("q", "k", "v")
HeadPartIndex = tuple[int, HeadPart]
"""A part of a head: the head's index among the graph's nodes, and the name of the part."""


class HeadParts(Interventions):
    """Caches and patches parts of heads; cannot be combined with interventions that split rows (`read`).

    Args:
        patch: the values that take the place of parts: queries, keys and values `[E, T, N]`, patterns
            `[Q, K, N]`. Values that require a gradient get one.
        keep: the parts that `kept` holds after a run, as they were used, in the same shapes.
        rows: `[N]` bool, the rows that are patched; None for all.
    """

    def __init__(
        self,
        patch: Mapping[HeadPartIndex, Tensor] | None = None,
        keep: Collection[HeadPartIndex] = (),
        rows: Tensor | None = None,
    ):
        self.patch, self.keep, self.rows = patch or {}, frozenset(keep), rows
        self.kept: dict[HeadPartIndex, Tensor] = {}

    def begin(self, cfg: TransformerConfig) -> None:
        """Checks that the network has all heads and parts that are asked for.

        Raises:
            ValueError: if a node is no head, or a part is none of a head's.
        """
        heads = {writer for writer, node in enumerate(cfg.graph.nodes) if node.head is not None}
        for writer, part in sorted({*self.patch, *self.keep}):
            if writer not in heads or part not in (*QKV, "pattern"):
                raise ValueError(f"node {writer} is not a head with a {part}; heads have q, k, v and pattern")

    def project(self, writers: Sequence[int], projected: list[Projections]) -> list[Projections]:
        """Patches and caches queries, keys and values."""
        (own,) = projected
        scale = own.shape[2] ** 0.5  # the kernel divides queries by it, TransformerLens divides scores
        parts = list(own.unbind())
        for kind, part in enumerate(QKV):
            factor = scale if part == "q" else 1.0
            parts[kind] = self._used(writers, part, parts[kind], factor)
        patched = any((writer, part) in self.patch for writer in writers for part in QKV)
        return [torch.stack(parts)] if patched else projected

    def attend(self, writers: Sequence[int], patterns: list[Patterns]) -> list[Patterns]:
        """Patches and caches attention patterns."""
        (own,) = patterns
        return [self._used(writers, "pattern", own, 1.0)]

    def _used(self, writers: Sequence[int], part: HeadPart, own: Tensor, factor: float) -> Tensor:
        """Returns a part `[H, …]` of a layer's heads, patched; times `factor` it is as in TransformerLens."""
        heads = list(own.unbind())
        for head, writer in enumerate(writers):
            given = self.patch.get((writer, part))
            if given is not None:
                given = given / factor
                heads[head] = given if self.rows is None else torch.where(self.rows, given, heads[head])
            if (writer, part) in self.keep:
                self.kept[writer, part] = heads[head] * factor
        return torch.stack(heads) if any((writer, part) in self.patch for writer in writers) else own
