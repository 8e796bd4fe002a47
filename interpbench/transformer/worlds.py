"""Interventions of training: rows of a batch take activations from other rows of the same run.

The rows of a batch are several *worlds* of B rows each, those of the first world first. World 0 is the
source.

Shapes: D d_model, T positions, Q positions of queries, K positions of keys, N rows of all worlds, B rows of
one world, W nodes (writers), R readers.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.interventions import Interventions
from interpbench.transformer.row_products import Stack, swap
from interpbench.transformer.tensors import (
    Patterns,
    Projections,
    ReaderInputs,
    Residual,
    SharedRows,
    WriterOutputs,
)


@dataclass(frozen=True)
class Plan:
    """What the interventions of a step compute, whatever its rows are: the kinds of swaps that there may be.

    It is known before the step is run, so that nothing waits for a device to know it, and steps with the same
    plan are the same calls on other values (`interpbench/training/step.py`). A swap that a plan has and no
    row takes changes nothing.

    Attributes:
        swaps: (world, shift, used): rows of that world may take the outputs of the writers that are `used`,
            one bool for each writer, from the row `shift` further on in world 0.
        shifts: patched edges may start in rows up to `shifts` further on.
    """

    swaps: tuple[tuple[int, int, tuple[bool, ...]], ...]
    shifts: int

    @classmethod
    def of(cls, nodes: np.ndarray, edge_sources: np.ndarray | None = None) -> "Plan":
        """Returns the plan of some rows; see `Worlds` for the arguments, of which any may be more rows."""
        kinds = [(world, source) for source in range(1, nodes.max() + 1) for world in range(nodes.shape[1])]
        columns = [tuple((nodes[:, world] == source).any(1).tolist()) for world, source in kinds]
        swaps = [(world, source - 1, used) for (world, source), used in zip(kinds, columns) if any(used)]
        return cls(tuple(swaps), 0 if edge_sources is None else int(edge_sources.max()))


class Worlds(Interventions):
    """Interchange interventions on nodes in any world, and patched edges in the last world.

    Row b of a world is patched from row b of world 0, or from a row further on, so that every base has
    several sources. Patching whole worlds is a broadcast: no gather of rows, whose backward pass would
    scatter.

    Args:
        nodes: `[W, world, B]` integers: 0 if row b keeps the node's own output, s > 0 if it takes that of
            row b + s - 1 (cyclically) of world 0.
        edges: `[R, W, B]` float 0/1, the edges of the last world that are patched; None for none.
        keep: the nodes whose outputs, swaps included, `kept` holds after a run, `[D, T, N]` each.
        watch: the heads whose attention patterns `patterns` holds after a run, `[Q, K, N]` each.
        sources: whether `sources` holds what nodes wrote in world 0 after a run.
        swap_positions: `[world, T, B]` 0/1, the positions at which nodes are swapped; None for all.
        edge_sources: integers s: patched edges take what their node writes in row b + s (cyclically) of world
            0; `[R, W, B]`, or `[W, B]` if they are the same for all edges out of a node; None for s = 0.
        plan: the swaps that there may be; None for those of `nodes` and `edge_sources`, which are then on the
            CPU.
        crossed: the heads whose queries and keys `queries_keys` holds after a run, `[2, E, T, N]` each, E
            being d_head.
    """

    def __init__(
        self,
        nodes: Tensor,
        edges: Tensor | None,
        keep: Iterable[int] = (),
        watch: Iterable[int] = (),
        sources: bool = False,
        swap_positions: Tensor | None = None,
        edge_sources: Tensor | None = None,
        plan: Plan | None = None,
        crossed: Iterable[int] = (),
    ):
        self.worlds, self.batch, self.edges = nodes.shape[1], nodes.shape[2], edges
        self.crossed = frozenset(crossed)
        self.keep, self.watch, self.keeps_sources = frozenset(keep), frozenset(watch), sources
        if plan is None:
            plan = Plan.of(nodes.numpy(), None if edge_sources is None else edge_sources.numpy())
        kind = torch.get_default_dtype()
        self.swaps: list[tuple[int, int, Tensor, tuple[bool, ...]]] = []
        for world, shift, used in plan.swaps:
            mask = (nodes[:, world, None, None] == shift + 1).to(kind)
            mask = mask if swap_positions is None else mask * swap_positions[world]
            self.swaps.append((world, shift, mask, used))
        self.picks: list[tuple[int, Tensor]] = []
        self.of_each_node = 1  # differences from the source that are kept
        if edges is not None and edge_sources is not None and edge_sources.ndim == 3:
            self.of_each_node += plan.shifts
            parts = [edges * (edge_sources == shift) for shift in range(self.of_each_node)]
            self.edges = torch.stack(parts, 2).flatten(1, 2)
        elif edge_sources is not None:
            shifts = range(1, plan.shifts + 1)
            self.picks = [(shift, (edge_sources == shift)[:, None, None].to(kind)) for shift in shifts]

    def begin(self, cfg: TransformerConfig) -> None:
        """Clears what an earlier run has left."""
        self._stack: Stack | None = None
        self.sources: list[Tensor] = []
        """What each step's nodes wrote in world 0, `[len(writers), D, T, B]`, in the order of the graph."""
        self.kept: dict[int, Tensor] = {}
        self.patterns: dict[int, Tensor] = {}
        self.queries_keys: dict[int, Tensor] = {}

    def project(self, writers: Sequence[int], projected: list[Projections]) -> list[Projections]:
        """Keeps the queries and keys of the heads that are `crossed`, and returns all unchanged."""
        for writer in self.crossed.intersection(writers):
            place = writers.index(writer)
            self.queries_keys[writer] = torch.cat([each[:2, place] for each in projected], -1)
        return projected

    def attend(self, writers: Sequence[int], patterns: list[Patterns]) -> list[Patterns]:
        """Keeps the patterns of heads that are watched, and returns all unchanged."""
        for writer in self.watch.intersection(writers):
            place = writers.index(writer)
            self.patterns[writer] = torch.cat([pattern[place] for pattern in patterns], -1)
        return patterns

    def write(self, writers: Sequence[int], outputs: WriterOutputs) -> WriterOutputs:
        """Returns outputs after the swaps; keeps how the source differs from the world of patched edges."""
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
                kept = self.edges.shape[1] // self.of_each_node
                self._stack = Stack(kept, worlds[0, ..., 0, :], self.of_each_node)
            picks = [(shift, mask[written].to(outputs.dtype)) for shift, mask in self.picks]
            values, source = self._stack.swap(worlds, swaps, self.keeps_sources, picks)
        if self.keeps_sources:
            self.sources.append(source)
        return values.view(count, features, length, rows)

    def read(self, readers: Sequence[int], residual: Residual) -> tuple[SharedRows, ReaderInputs | None]:
        """Returns an input of its own for each reader of the world of patched edges, the last one."""
        if self.edges is None or self._stack is None:
            return residual, None
        shared, own = residual.split([residual.shape[-1] - self.batch, self.batch], -1)
        return shared, self._stack.blend(own, self.edges[readers[0] : readers[0] + len(readers)])
