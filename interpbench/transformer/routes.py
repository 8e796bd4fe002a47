"""Patching of edges and nodes with activations of source runs: from which run each reader sees each node.

Rows are G groups of B examples, N = G × B, those of the first group first. A group is a circuit on the same B
examples, or, with B = 1, a row with routes of its own. Patching all edges out of a node patches the node.
Masks may require gradients; values between 0 and 1 then mix the row's own activation and the source's.

Shapes: D d_model, T positions, W nodes (writers), R readers, S source runs.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.interventions import Interventions
from interpbench.transformer.tensors import ReaderInputs, Residual, SharedRows, WriterOutputs


class Routes(Interventions):
    """Patches edges: each reader sees each node's activation of this run, or that of a source run.

    P is T if routes differ between positions, else 1. F is the number of activations that a node writes at
    positions that share their routes.

    Args:
        masks: `[G, R, W, S]`, the share of source s in what reader r sees of node w; the rest of 1 is what w
            writes in this run. If routes differ between positions, `[G, T, R, W, S]`. Shares of edges that
            the graph does not have must be 0.
        sources: `[W, S, D, T, B]`, what nodes wrote in each source run, the same for all groups; with
            `by_row`, `[W, S, D, T, G]`.
        by_row: whether every group is one row, with sources of its own.
    """

    def __init__(self, masks: Tensor, sources: Tensor, by_row: bool = False):
        self.by_position = masks.ndim == 5
        masks = masks if self.by_position else masks.unsqueeze(1)
        self.masks, self.replaced = masks.flatten(3), masks.sum(4)  # [G, P, R, W × S], [G, P, R, W]
        self.groups, _, _, self.writers, self.count = masks.shape
        self.examples = 1 if by_row else sources.shape[-1]
        runs = sources.flatten(0, 1).unflatten(3, (-1, self.examples))  # the first writers come first
        blocks = self._blocks(runs).flatten(3).contiguous()
        self.sources = blocks if by_row else blocks[0]  # [(G,) P, W × S, F]
        self.used = (masks.detach().ne(0).any(0).any(0).any(1).any(1) | masks.requires_grad).tolist()

    def _blocks(self, values: Tensor) -> Tensor:
        """Returns activations `[K, D, T, G, B]` of K nodes as a view `[G, P, K, …]` with F in other axes."""
        if self.by_position:
            return values.permute(3, 2, 0, 1, 4)
        return values.permute(3, 0, 1, 2, 4).unsqueeze(1)

    def begin(self, cfg: TransformerConfig) -> None:
        """Clears what an earlier run has left."""
        self._own: list[Tensor] = []
        self._graph = self.masks.requires_grad and torch.is_grad_enabled()
        self._store: Tensor | None = None
        self._written = 0

    def write(self, writers: Sequence[int], outputs: WriterOutputs) -> WriterOutputs:
        """Keeps outputs, which readers with routes are to see the source's instead of, and returns them."""
        own = self._blocks(outputs.unflatten(3, (self.groups, self.examples)))
        self._graph |= outputs.requires_grad
        if self._graph:  # a buffer that is written later must not be part of it
            self._own.append(own.flatten(3))
        else:  # one buffer: concatenating the outputs for each reader would copy all of them
            if self._store is None:
                self._store = own.new_empty(*own.shape[:2], self.writers, *own.shape[3:])
            self._store[:, :, self._written : self._written + len(writers)] = own
            self._own = [self._store[:, :, : self._written + len(writers)].flatten(3)]
        self._written += len(writers)
        return outputs

    def read(self, readers: Sequence[int], residual: Residual) -> tuple[SharedRows, ReaderInputs | None]:
        """Returns an input of its own `[len(readers), D, T, N]` for each reader, if any sees a source."""
        if not any(self.used[reader] for reader in readers):
            return residual, None
        some, given = slice(readers[0], readers[-1] + 1), self._written * self.count
        chosen = some if len(readers) == some.stop - some.start else list(readers)
        masks, sources = self.masks[:, :, chosen, :given], self.sources[..., :given, :]
        if sources.ndim == 3:  # one product: a batched one would copy the sources for each group
            seen = masks.transpose(0, 1).flatten(1, 2) @ sources
            seen = seen.unflatten(1, (self.groups, -1)).transpose(0, 1).flatten(0, 1)
        else:
            seen = masks.flatten(0, 1) @ sources.flatten(0, 1)
        if len(self._own) > 1:
            self._own = [torch.cat(self._own, 2)]
        replaced = self.replaced[:, :, chosen, : self._written]
        seen = seen.baddbmm_(replaced.flatten(0, 1), self._own[0].flatten(0, 1), alpha=-1)
        features, length, _ = residual.shape
        if self.by_position:  # [G, T, R', D, B]
            seen = seen.view(self.groups, length, -1, features, self.examples).permute(2, 3, 1, 0, 4)
        else:  # [G, R', D, T, B]
            seen = seen.view(self.groups, -1, features, length, self.examples).permute(1, 2, 3, 0, 4)
        return residual[..., :0], (residual.unflatten(2, (self.groups, -1)) + seen).flatten(3)


class RoutedWriters(Interventions):
    """Patches nodes: what a node writes, for all readers, is its activation of this run or of a source run.

    Args:
        masks: `[G, W, S]`, the share of source s in what node w writes; the rest of 1 is its own output.
        sources: `[W, S, D, T, B]`, what nodes wrote in each source run.
    """

    def __init__(self, masks: Tensor, sources: Tensor):
        self.masks, self.sources = masks.transpose(0, 1), sources
        self.used = (masks.detach().ne(0).any(2).any(0) | masks.requires_grad).tolist()

    def write(self, writers: Sequence[int], outputs: WriterOutputs) -> WriterOutputs:
        """Returns outputs mixed with those of the source runs."""
        if not any(self.used[writer] for writer in writers):
            return outputs
        some = slice(writers[0], writers[-1] + 1)
        masks, given = self.masks[some], self.sources[some].flatten(2)  # [W', S, F]
        own = outputs.unflatten(3, (masks.shape[1], -1))
        kept = (1 - masks.sum(2))[:, None, None, :, None]
        values = (masks @ given).unflatten(2, (*own.shape[1:3], own.shape[4])).permute(0, 2, 3, 1, 4)
        return (own * kept + values).flatten(3)


class Replaced(Interventions):
    """Patches nodes with the values of one tensor, row by row.

    Args:
        replaced: `[W, N]` bool, the nodes that are patched in each row; `[W, 1]` for the same in all rows.
        patch: `[W, D, T, N]`, what patched nodes write.
    """

    def __init__(self, replaced: Tensor | None = None, patch: Tensor | None = None):
        self.replaced, self.patch = replaced, patch
        self.used = [] if replaced is None else replaced.any(1).tolist()

    def write(self, writers: Sequence[int], outputs: WriterOutputs) -> WriterOutputs:
        """Returns outputs with those of patched nodes replaced."""
        if self.replaced is None or self.patch is None or not any(self.used[writer] for writer in writers):
            return outputs
        some = slice(writers[0], writers[0] + len(writers))
        return torch.where(self.replaced[some, None, None], self.patch[some], outputs)
