"""Queries, keys, values and attention patterns of heads: kept, and patched.

Names as TransformerLens's hooks: `q`, `k` and `v` are what `hook_q`, `hook_k` and `hook_v` hold (before
rotary positions turn them), `pattern` what `hook_pattern` does.

Shapes as in `model.py`; Q positions of queries, K of keys.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor

from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.interventions import Interventions

HeadPart = Literal["q", "k", "v", "pattern"]
QKV: tuple[HeadPart, ...] = ("q", "k", "v")
Place = tuple[int, HeadPart]
"""A head, by its place among the graph's nodes, and one of its parts."""


class HeadParts(Interventions):
    """Keeps and replaces parts of heads. Not for worlds, some of whose rows are run apart.

    Args:
        patch: what takes the place of parts: queries, keys and values `[E, T, N]`, patterns `[Q, K, N]`. One
            that requires a gradient gets it.
        keep: the parts that `kept` has after a run, as they were used, in the same shapes.
        rows: `[N]` bool, the rows that are patched; None for all.
    """

    def __init__(
        self,
        patch: Mapping[Place, Tensor] | None = None,
        keep: Collection[Place] = (),
        rows: Tensor | None = None,
    ):
        self.patch, self.keep, self.rows = patch or {}, frozenset(keep), rows
        self.kept: dict[Place, Tensor] = {}

    def begin(self, cfg: TransformerConfig) -> None:
        """Refuses places that the network does not have.

        Raises:
            ValueError: for a node that is no head, or a part that heads do not have.
        """
        heads = {writer for writer, node in enumerate(cfg.graph.nodes) if node.head is not None}
        for writer, part in sorted({*self.patch, *self.keep}):
            if writer not in heads or part not in (*QKV, "pattern"):
                raise ValueError(f"node {writer} is no head with a {part}; heads have q, k, v and pattern")

    def project(self, writers: Sequence[int], projected: list[Tensor]) -> list[Tensor]:
        """Patches and keeps queries, keys and values."""
        (own,) = projected
        scale = own.shape[2] ** 0.5  # a kernel's queries are divided by it
        parts = list(own.unbind())
        for kind, part in enumerate(QKV):
            factor = scale if part == "q" else 1.0
            parts[kind] = self._used(writers, part, parts[kind], factor)
        patched = any((writer, part) in self.patch for writer in writers for part in QKV)
        return [torch.stack(parts)] if patched else projected

    def attend(self, writers: Sequence[int], patterns: list[Tensor]) -> list[Tensor]:
        """Patches and keeps patterns."""
        (own,) = patterns
        return [self._used(writers, "pattern", own, 1.0)]

    def _used(self, writers: Sequence[int], part: HeadPart, own: Tensor, factor: float) -> Tensor:
        """Returns a part `[H, …]` of a layer's heads, patched; `factor` makes it TransformerLens's."""
        heads = list(own.unbind())
        for head, writer in enumerate(writers):
            given = self.patch.get((writer, part))
            if given is not None:
                given = given / factor
                heads[head] = given if self.rows is None else torch.where(self.rows, given, heads[head])
            if (writer, part) in self.keep:
                self.kept[writer, part] = heads[head] * factor
        return torch.stack(heads) if any((writer, part) in self.patch for writer in writers) else own
