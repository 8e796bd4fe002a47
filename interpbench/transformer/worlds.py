"""Several worlds of one batch: in training, interventions take their values from other rows of the same run.

Shapes as in `model.py`; B examples of a batch.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.interventions import Interventions
from interpbench.transformer.row_products import Stack, swap


class Worlds(Interventions):
    """Training: several worlds share a batch, and patched worlds take values from world 0, the source.

    Rows are world-major, the source world first, the edge world, if any, last. Patching by whole worlds
    is a broadcast: no gather of rows, whose backward pass would scatter.

    Args:
        nodes: `[W, world, B]` integers: 0 keeps the row's own output, s takes that of the source row
            s - 1 places further on, cyclically; so every base has several sources for one source world.
        edges: `[R, W, B]` float 0/1: in the last world, which edges read the source world; None for no
            such world.
        keep: writers whose outputs, swaps included, `kept` has after a run, `[D, T, N]` each.
        sources: whether `sources` has what writers wrote in world 0 after a run.
        watch: heads whose attention `patterns` has after a run, `[Q, K, N]` each.
        places: `[world, T, B]` 0/1: at which positions nodes are swapped; None for all.
        edge_sources: `[W, B]` integers: how many places further on the source row is from which edges of the
            last world take a writer; None for 0.
    """

    def __init__(
        self,
        nodes: Tensor,
        edges: Tensor | None,
        keep: Iterable[int] = (),
        watch: Iterable[int] = (),
        sources: bool = False,
        places: Tensor | None = None,
        edge_sources: Tensor | None = None,
    ):
        self.worlds, self.batch, self.edges = nodes.shape[1], nodes.shape[2], edges
        self.keep, self.watch, self.keeps_sources = frozenset(keep), frozenset(watch), sources
        self.swaps: list[tuple[int, int, Tensor, list[bool]]] = []
        for source in range(1, int(nodes.max()) + 1):
            masks = nodes == source
            used = masks.any(2).tolist()
            for world in range(self.worlds):
                if any(writer[world] for writer in used):
                    column = [writer[world] for writer in used]
                    mask = masks[:, world, None, None].to(torch.get_default_dtype())
                    mask = mask if places is None else mask * places[world]
                    self.swaps.append((world, source - 1, mask, column))
        self.picks: list[tuple[int, Tensor]] = []
        for shift in range(1, 1 + (0 if edge_sources is None else int(edge_sources.max()))):
            self.picks.append((shift, (edge_sources == shift)[:, None, None].to(torch.get_default_dtype())))

    def begin(self, cfg: TransformerConfig) -> None:
        """Forgets an earlier run."""
        self._stack: Stack | None = None
        self.sources: list[Tensor] = []
        """`[some writers, D, T, B]`, in the writers' order."""
        self.kept: dict[int, Tensor] = {}
        self.patterns: dict[int, Tensor] = {}

    def attend(self, writers: Sequence[int], patterns: list[Tensor]) -> list[Tensor]:
        """Keeps the patterns of heads that are watched."""
        for writer in self.watch.intersection(writers):
            place = writers.index(writer)
            self.patterns[writer] = torch.cat([pattern[place] for pattern in patterns], -1)
        return patterns

    def write(self, writers: Sequence[int], outputs: Tensor) -> Tensor:
        """Swaps node-patched rows' outputs; notes how the edge world differs from its source."""
        values = self._swapped(writers, outputs)
        for writer in self.keep.intersection(writers):
            self.kept[writer] = values[writer - writers[0]]
        return values

    def _swapped(self, writers: Sequence[int], outputs: Tensor) -> Tensor:
        count, features, length, rows = outputs.shape
        written = slice(writers[0], writers[0] + count)
        swaps = [
            (world, shift, mask[written].to(outputs.dtype))
            for world, shift, mask, used in self.swaps
            if any(used[written])
        ]
        if not swaps and self.edges is None and not self.keeps_sources:
            return outputs
        worlds = outputs.reshape(count, features, length, self.worlds, self.batch)
        if self.edges is None:
            values, source = swap(worlds, swaps, self.keeps_sources)
        else:
            if self._stack is None:
                self._stack = Stack(self.edges.shape[1], worlds[0, ..., 0, :])
            picks = [(shift, mask[written].to(outputs.dtype)) for shift, mask in self.picks]
            values, source = self._stack.swap(worlds, swaps, self.keeps_sources, picks)
        if self.keeps_sources:
            self.sources.append(source)
        return values.view(count, features, length, rows)

    def read(self, readers: Sequence[int], residual: Tensor) -> tuple[Tensor, Tensor | None]:
        """Gives each reader of the edge world its own input."""
        if self.edges is None or self._stack is None:
            return residual, None
        shared, own = residual.split([residual.shape[-1] - self.batch, self.batch], -1)
        return shared, self._stack.blend(own, self.edges[readers[0] : readers[0] + len(readers)])
