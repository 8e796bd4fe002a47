"""Circuits of a frozen network: which edges and nodes of each read, or write, a patch instead.

Shapes as in `model.py`; K circuits, B examples. Patched values are data (activations of other inputs, a mean,
zero), not a mode.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.fast.patch_differences import Differences, Mixture


class Circuits:
    """K circuits, each on the same B examples: what their readers see and their writers write.

    Rows are circuit-major, which `frozen_run` and this class alone know.

    Args:
        masks: `[K, R, W]` float: 1 where a circuit's reader sees the patch instead of the writer. Masks and
            shifts may require gradients.
        patch: `[W, D, T, B]`: the patched values; `[W, D, T, K, B]` if each circuit has its own, which only
            masks of edges can take, in a run from the embedding on without `only`.
        clean: `[W, D, T, B]`: what the writers below layer `start` write in every circuit; with
            `start > 0` they are not computed again.
        start: the layer at which the run starts.
        nodes: `[K, W]` bool: writers whose output is replaced by the patch as a whole.
        live: `[W]`: writers of the layers from `start` on that have to be computed; None for all. The others
            are replaced by `nodes`, or write what they write in `clean`: either they come before all
            patches, or nobody sees them because every edge out of them is patched.
        shifts: `[K, W, D]`: what each circuit's masks add to the patch, for all examples, at all positions
            but BOS.
        whole: whether shifts get gradients only from edges that are replaced whole, by a mask above 0.999.
        bos: whether everything writes its patch at BOS.
    """

    def __init__(
        self,
        masks: Tensor | None,
        patch: Tensor,
        clean: Tensor | None = None,
        start: int = 0,
        nodes: Tensor | None = None,
        live: Sequence[bool] | None = None,
        shifts: Tensor | None = None,
        whole: bool = False,
        bos: bool = False,
    ):
        self.shifts, self.whole, self.bos = shifts, whole, bos
        self.masks, self.patch, self.clean, self.start, self.nodes = masks, patch, clean, start, nodes
        chosen = masks if masks is not None else nodes
        assert chosen is not None
        self.count, self.live = len(chosen), live
        self.used, self.used_writers = [False] * len(patch), [False] * len(patch)
        if masks is not None:
            used = (masks.detach().ne(0) | masks.requires_grad).any(0)
            self.used, self.used_writers = used.any(1).tolist(), used.any(0).tolist()
        self.used_nodes = None if nodes is None else nodes.any(0).tolist()

    def begin(self, cfg: TransformerConfig) -> None:
        """Sets up the writers that are known before the first layer."""
        below = 1 + self.start * (cfg.n_heads + 1) if self.start else 0
        layer, place = divmod(max(np.flatnonzero(self.used).tolist(), default=0), 3 * cfg.n_heads + 1)
        self.seen: int = 1 + layer * (cfg.n_heads + 1) + (cfg.n_heads if place == 3 * cfg.n_heads else 0)
        """Writers from this one on come after every patched edge."""
        self.fixed = [writer for writer in range(below) if self.used_writers[writer]]
        self.places: Tensor | None = None
        self.computed: list[int] = []
        if self.masks is not None:
            self.differences = Differences(self.masks, self.patch[: self.seen - below], cfg.centred)

    def narrow(self, places: Tensor) -> None:
        """Goes on with some places, the same ones for every circuit."""
        examples = self.patch.shape[-1]
        rows = self.count * examples
        first = places[: len(places) // self.count]
        self.places = first // rows * examples + first % rows
        if self.masks is not None:
            self.differences.narrow(self.places)

    def _given(self, values: Tensor, writers: Sequence[int]) -> Tensor:
        """Returns the patch, or clean activations, of some writers, at the places that the run is at."""
        some = _some(values, writers)
        return some if self.places is None else some.flatten(2)[:, :, None, self.places]

    def given(self, writers: Sequence[int]) -> Tensor:
        """Sums what writers that are not computed write."""
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
        """Returns whether any circuit replaces one of these writers."""
        return self.used_nodes is not None and any(self.used_nodes[writer] for writer in writers)

    def ignores(self, writers: Sequence[int]) -> bool:
        """Returns whether these writers are neither replaced nor read by a patched edge."""
        unread = self.masks is None or writers[0] >= self.seen
        return unread and not self._patches(writers) and not (self.bos and self.places is None)

    def write(self, writers: Sequence[int], outputs: Tensor) -> Tensor:
        """Patches nodes; keeps each circuit's difference from the patch."""
        count, features, length, rows = outputs.shape
        own = outputs.view(count, features, length, self.count, -1)
        if self._patches(writers):
            assert self.nodes is not None
            chosen = self.nodes[:, list(writers)].T[:, None, None, :, None]
            own = torch.where(chosen, self._given(self.patch, writers).unsqueeze(3), own)
        if self.bos and self.places is None:
            patch = _some(self.patch, writers)[:, :, :1]
            first = patch if patch.ndim == own.ndim else patch.unsqueeze(3)
            own = torch.cat([first.expand(*own.shape[:2], 1, *own.shape[3:]), own[:, :, 1:]], 2)
        if self.masks is not None and writers[0] < self.seen:
            self.differences.write(list(writers), self._given(self.patch, writers), own)
            self.computed += writers
        return own.reshape(count, features, length, rows)

    def read(self, readers: Sequence[int], residual: Tensor) -> Tensor | Mixture:
        """Adds the masked differences to each reader's input, where any circuit patches an edge."""
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
        """Returns what shifts add to inputs, `[K, R', D, T, 1]`, or `[…, 1, 1]` at places after BOS."""
        if self.whole:
            settled = shifts.detach()
            entire = torch.where(masks > 0.999, masks, 0).detach()
            moved = masks @ settled + entire @ (shifts - settled)
        else:
            moved = masks @ shifts
        if self.places is not None:
            return moved[..., None, None]
        after = moved.new_ones(self.patch.shape[2], 1)
        after[0] = 0
        return moved[..., None, None] * after


def _some(values: Tensor, writers: Sequence[int]) -> Tensor:
    """Returns `values [W, …]` of some writers, without a copy if they are consecutive."""
    if writers[-1] - writers[0] == len(writers) - 1:
        return values[writers[0] : writers[-1] + 1]
    return values[list(writers)]
