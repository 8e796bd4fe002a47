"""Routes: each reader of each row sees each writer as some run computed it, this one or a source.

Shapes as in `model.py`; S source runs, B examples, G groups of examples that share their routes: N = G × B
rows, group-major. G candidate sets on the same B examples, or, with B = 1, every row with routes of its
own. A node that is patched is a full column of edges. Masks may require gradients: 0 and 1 are then ends of
a path.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.interventions import Interventions


class Routes(Interventions):
    """Readers that see other runs' activations.

    P is T if routes differ between positions, else 1; a block is what a writer writes at the positions that
    share their routes, F numbers.

    Args:
        masks: `[G, R, W, S]`: how much of what reader r sees of writer w comes from source s; the rest of 1
            is what w writes in this run. With routes of their own for every position, `[G, T, R, W, S]`.
            Only legal edges may be other than 0.
        sources: `[W, S, D, T, B]`: what writers wrote in each source run, for all groups alike; with
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
        """Maps `[K, D, T, G, B]` to `[G, P, K, …]`, the rest F numbers; a view."""
        if self.by_position:
            return values.permute(3, 2, 0, 1, 4)
        return values.permute(3, 0, 1, 2, 4).unsqueeze(1)

    def begin(self, cfg: TransformerConfig) -> None:
        """Forgets an earlier run."""
        self._own: list[Tensor] = []
        self._graph = self.masks.requires_grad and torch.is_grad_enabled()
        self._store: Tensor | None = None
        self._written = 0

    def write(self, writers: Sequence[int], outputs: Tensor) -> Tensor:
        """Keeps what readers may not see."""
        own = self._blocks(outputs.unflatten(3, (self.groups, self.examples)))
        self._graph |= outputs.requires_grad
        if self._graph:  # a buffer that is written later must not be part of it
            self._own.append(own.flatten(3))
        else:  # one buffer, where putting them together anew for each reader would copy all of them
            if self._store is None:
                self._store = own.new_empty(*own.shape[:2], self.writers, *own.shape[3:])
            self._store[:, :, self._written : self._written + len(writers)] = own
            self._own = [self._store[:, :, : self._written + len(writers)].flatten(3)]
        self._written += len(writers)
        return outputs

    def read(self, readers: Sequence[int], residual: Tensor) -> tuple[Tensor, Tensor | None]:
        """Gives each reader its own input `[R', D, T, N]`, if any of them has a route."""
        if not any(self.used[reader] for reader in readers):
            return residual, None
        some, given = slice(readers[0], readers[-1] + 1), self._written * self.count
        chosen = some if len(readers) == some.stop - some.start else list(readers)
        masks, sources = self.masks[:, :, chosen, :given], self.sources[..., :given, :]
        if sources.ndim == 3:  # one product, where a batched one would copy the sources for each group
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
    """The same for writers that all readers see as the same run computed them: they write it themselves.

    Args:
        masks: `[G, W, S]`: how much of what writer w writes is that of source s.
        sources: `[W, S, D, T, B]`.
    """

    def __init__(self, masks: Tensor, sources: Tensor):
        self.masks, self.sources = masks.transpose(0, 1), sources
        self.used = (masks.detach().ne(0).any(2).any(0) | masks.requires_grad).tolist()

    def write(self, writers: Sequence[int], outputs: Tensor) -> Tensor:
        """Mixes."""
        if not any(self.used[writer] for writer in writers):
            return outputs
        some = slice(writers[0], writers[-1] + 1)
        masks, given = self.masks[some], self.sources[some].flatten(2)  # [W', S, F]
        own = outputs.unflatten(3, (masks.shape[1], -1))
        kept = (1 - masks.sum(2))[:, None, None, :, None]
        values = (masks @ given).unflatten(2, (*own.shape[1:3], own.shape[4])).permute(0, 2, 3, 1, 4)
        return (own * kept + values).flatten(3)


class Replaced(Interventions):
    """Some writers of each row write what they are given instead of their own.

    Args:
        replaced: `[W, N]` bool, or `[W, 1]` for all rows alike.
        patch: `[W, D, T, N]`.
    """

    def __init__(self, replaced: Tensor | None = None, patch: Tensor | None = None):
        self.replaced, self.patch = replaced, patch
        self.used = [] if replaced is None else replaced.any(1).tolist()

    def write(self, writers: Sequence[int], outputs: Tensor) -> Tensor:
        """Replaces."""
        if self.replaced is None or self.patch is None or not any(self.used[writer] for writer in writers):
            return outputs
        some = slice(writers[0], writers[0] + len(writers))
        return torch.where(self.replaced[some, None, None], self.patch[some], outputs)
