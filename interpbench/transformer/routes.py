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
from interpbench.transformer.model import Interventions


class Routes(Interventions):
    """Readers that see other runs' activations.

    Args:
        masks: `[G, R, S, W]`: how much of what reader r sees of writer w comes from source s; the rest of 1
            is what w writes in this run. Only legal edges may be other than 0.
        sources: `[S, W, D, T, B]`: what writers wrote in each source run, for all groups alike; with
            `by_row`, `[S, W, D, T, G]`.
        by_row: whether every group is one row, with sources of its own.
    """

    def __init__(self, masks: Tensor, sources: Tensor, by_row: bool = False):
        self.masks = masks
        self.groups, _, self.count, self.writers = masks.shape
        self.examples = 1 if by_row else sources.shape[-1]
        if by_row:  # [G, S × W, F]
            self.sources = sources.permute(4, 0, 1, 2, 3).flatten(1, 2).flatten(2)
        else:  # [S × W, F × B]
            self.sources = sources.flatten(0, 1).flatten(1)
        self.used = (masks.detach().ne(0).any(0).any(1).any(1) | masks.requires_grad).tolist()

    def begin(self, cfg: TransformerConfig) -> None:
        """Forgets an earlier run."""
        self._own: list[Tensor] = []
        self._written = 0

    def write(self, writers: Sequence[int], outputs: Tensor) -> Tensor:
        """Keeps what readers may not see."""
        own = outputs.unflatten(3, (self.groups, self.examples)).permute(3, 0, 1, 2, 4)
        self._own.append(own.flatten(2))
        self._written += len(writers)
        return outputs

    def read(self, readers: Sequence[int], residual: Tensor) -> tuple[Tensor, Tensor | None]:
        """Gives each reader its own input `[R', D, T, N]`, if any of them has a route."""
        if not any(self.used[reader] for reader in readers):
            return residual, None
        masks = self.masks[:, list(readers)][..., : self._written]
        given = self.sources.unflatten(-2, (self.count, self.writers))[..., : self._written, :].flatten(
            -3, -2
        )
        seen = masks.flatten(2) @ given
        own = self._own[0] if len(self._own) == 1 else torch.cat(self._own, 1)
        self._own = [own]
        seen = torch.baddbmm(seen, masks.sum(2), own, alpha=-1)
        seen = seen.unflatten(2, (*residual.shape[:2], self.examples)).permute(1, 2, 3, 0, 4).flatten(3)
        return residual[..., :0], residual + seen


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


class WriterTaps(Replaced):
    """The same, and keeps what every writer then writes, connected to the logits, to take gradients there."""

    def begin(self, cfg: TransformerConfig) -> None:
        """Forgets an earlier run."""
        self.outputs: list[Tensor] = []
        """`[some writers, D, T, N]`, in the writers' order."""

    def write(self, writers: Sequence[int], outputs: Tensor) -> Tensor:
        """Replaces and keeps."""
        written = super().write(writers, outputs)
        if not written.requires_grad:
            written = written.detach().requires_grad_()
        self.outputs.append(written)
        return written
