"""Circuits of a trained network: the edges and nodes that each of them patches, in one run.

Patched values are data (activations of other inputs, a mean, zero), not a mode.

Shapes: D d_model, T positions, K circuits, B examples, N = K × B rows, W nodes (writers), R readers.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.fast.patch_differences import Differences, Mixture
from interpbench.transformer.tensors import EdgeMasks, NodeMasks, Patch, SoftEdgeMasks, WriterOutputs


class Circuits:
    """Interventions of K circuits on the same B examples: which edges and nodes each of them patches.

    Rows are the examples of the first circuit, then those of the second, and so on.

    Args:
        masks: `[K, R, W]`, 1 where the circuit's reader sees the patch instead of what the node writes; None
            if no edge is patched. An array of bool, or a tensor of floats, which may require gradients, as
            shifts may; a tensor that does not is waited for.
        patch: `[W, D, T, B]`, the values that are patched in; `[W, D, T, K, B]` if each circuit has its own,
            which is possible with `masks` alone, in a run from the embedding on at all positions.
        clean: `[W, D, T, B]`, what nodes below layer `start` write in every circuit; if `start > 0` they are
            not computed again.
        start: the layer at which the run starts.
        nodes: `[K, W]` bool, the nodes that are patched: the patch takes the place of their whole output.
        live: `[W]`, whether a node of the layers from `start` on has to be computed; None for all. The others
            are patched by `nodes`, or write what `clean` says: they come before all patches, or are seen by
            no reader because all edges out of them are patched.
        shifts: `[K, W, D]`, what is added to the patch in each circuit, for all examples, at all positions
            but BOS; None for nothing.
        whole: whether shifts get gradients only from edges that are patched entirely, by a mask above 0.999.
        bos: whether all nodes are patched at BOS.
    """

    def __init__(
        self,
        masks: SoftEdgeMasks | EdgeMasks | None,
        patch: Patch,
        clean: WriterOutputs | None = None,
        start: int = 0,
        nodes: NodeMasks | None = None,
        live: Sequence[bool] | None = None,
        shifts: Tensor | None = None,
        whole: bool = False,
        bos: bool = False,
    ):
        self.shifts, self.whole, self.bos = shifts, whole, bos
        self.patch, self.clean, self.start = patch, clean, start
        chosen = masks if masks is not None else nodes
        assert chosen is not None
        self.count, self.live = len(chosen), live
        used = np.zeros((1, len(patch)), bool) if masks is None else _used(masks)
        self.used, self.used_writers = np.any(used, axis=1), np.any(used, axis=0)
        self.used_nodes = None if nodes is None else np.any(nodes, axis=0)
        self.masks: SoftEdgeMasks | None = (
            _on_device(masks, patch).to(patch.dtype) if isinstance(masks, np.ndarray) else masks
        )
        self.nodes = None if nodes is None else _on_device(nodes, patch)

    def begin(self, cfg: TransformerConfig) -> None:
        """Prepares a run: finds which nodes are known before the first layer and which edges are patched."""
        below = 1 + self.start * (cfg.n_heads + 1) if self.start else 0
        layer, place = divmod(max(np.flatnonzero(self.used).tolist(), default=0), 3 * cfg.n_heads + 1)
        self.seen: int = 1 + layer * (cfg.n_heads + 1) + (cfg.n_heads if place == 3 * cfg.n_heads else 0)
        """The first node that comes after every patched edge."""
        self.fixed = [writer for writer in range(below) if self.used_writers[writer]]
        self.indices: Tensor | None = None
        self.computed: list[int] = []
        if self.masks is not None:
            self.differences = Differences(self.masks, self.patch[: self.seen - below], cfg.centred)

    def keep_positions(self, indices: Tensor) -> None:
        """Keeps only some positions of the rows; from now on T = 1.

        `indices` are flat indices into T × N, in the order of circuits, with the same positions for each.
        """
        examples = self.patch.shape[-1]
        rows = self.count * examples
        first = indices[: len(indices) // self.count]
        self.indices = first // rows * examples + first % rows
        if self.masks is not None:
            self.differences.keep_positions(self.indices)

    def _given(self, values: Tensor, writers: Sequence[int]) -> Tensor:
        """Returns the patch, or clean activations, of some nodes, at the positions that the run has kept."""
        some = _some(values, writers)
        return some if self.indices is None else some.flatten(2)[:, :, None, self.indices]

    def given(self, writers: Sequence[int]) -> Tensor:
        """Returns the sum `[D, T, N]` of what nodes that are not computed write: clean or patched values."""
        assert self.clean is not None
        self.fixed += [writer for writer in writers if self.used_writers[writer]]
        clean = self._given(self.clean, writers)
        total = clean.sum(0).unsqueeze(2).expand(-1, -1, self.count, -1)
        if self._patches(writers):
            assert self.nodes is not None
            chosen = self.nodes[:, list(writers)].to(clean.dtype)
            total = total + torch.einsum("kw,wdtb->dtkb", chosen, self._given(self.patch, writers) - clean)
        return total.flatten(2)

    def _patches(self, writers: Sequence[int]) -> bool:
        """Returns whether any circuit patches one of these nodes."""
        return self.used_nodes is not None and any(self.used_nodes[writer] for writer in writers)

    def ignores(self, writers: Sequence[int]) -> bool:
        """Returns whether neither these nodes nor any edges out of them are patched."""
        unread = self.masks is None or writers[0] >= self.seen
        return unread and not self._patches(writers) and not (self.bos and self.indices is None)

    def write(self, writers: Sequence[int], outputs: WriterOutputs) -> WriterOutputs:
        """Returns outputs with patched nodes' replaced; keeps how the patch differs from them, for `read`."""
        count, features, length, rows = outputs.shape
        own = outputs.view(count, features, length, self.count, -1)
        if self._patches(writers):
            assert self.nodes is not None
            chosen = self.nodes[:, list(writers)].T[:, None, None, :, None]
            own = torch.where(chosen, self._given(self.patch, writers).unsqueeze(3), own)
        if self.bos and self.indices is None:
            patch = _some(self.patch, writers)[:, :, :1]
            first = patch if patch.ndim == own.ndim else patch.unsqueeze(3)
            own = torch.cat([first.expand(*own.shape[:2], 1, *own.shape[3:]), own[:, :, 1:]], 2)
        if self.masks is not None and writers[0] < self.seen:
            self.differences.write(list(writers), self._given(self.patch, writers), own)
            self.computed += writers
        return own.reshape(count, features, length, rows)

    def read(self, readers: Sequence[int], residual: Tensor) -> Tensor | Mixture:
        """Returns what readers see: the residual stream `[D, T, N]`, or its mixture with patches."""
        if self.masks is None or not any(self.used[reader] for reader in readers):
            return residual
        more = None
        if self.fixed:
            assert self.clean is not None
            fixed = self._given(self.patch, self.fixed) - self._given(self.clean, self.fixed)
            more = torch.tensordot(self.masks[:, list(readers)][:, :, self.fixed], fixed, 1)
        if self.shifts is not None:
            written = [*self.fixed, *self.computed]
            moved = self._shifted(self.masks[:, list(readers)][:, :, written], self.shifts[:, written])
            more = moved if more is None else more + moved
        return self.differences.read(list(readers), residual, more)

    def _shifted(self, masks: Tensor, shifts: Tensor) -> Tensor:
        """Returns what shifts add to the inputs of R' readers, `[K, R', D, T, 1]`, with T = 1 after BOS."""
        if self.whole:
            settled = shifts.detach()
            entire = torch.where(masks > 0.999, masks, 0).detach()
            moved = masks @ settled + entire @ (shifts - settled)
        else:
            moved = masks @ shifts
        if self.indices is not None:
            return moved[..., None, None]
        after = moved.new_ones(self.patch.shape[2], 1)
        after[0] = 0
        return moved[..., None, None] * after


def _some(values: Tensor, writers: Sequence[int]) -> Tensor:
    """Returns `values [W, …]` of some nodes, without a copy if these are consecutive."""
    if writers[-1] - writers[0] == len(writers) - 1:
        return values[writers[0] : writers[-1] + 1]
    return values[list(writers)]


def _used(masks: SoftEdgeMasks | EdgeMasks) -> np.ndarray:
    """Returns bool `[R, W]`, the edges that any circuit patches, or might: gradients are of all edges."""
    if isinstance(masks, np.ndarray):
        return np.any(masks, axis=0)
    if masks.requires_grad:
        return np.ones(masks.shape[1:], bool)
    return masks.ne(0).any(0).cpu().numpy()


def _on_device(masks: np.ndarray, like: Tensor) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(masks)).to(like.device)
