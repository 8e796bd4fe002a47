"""Interventions: worlds of one batch, candidate circuits, and taps where gradients are taken.

Shapes as in `model.py`; B examples of a batch. Patched values are data (activations of other rows, of
another run, a mean, zero), not a mode.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.fast.frozen_parts import Packed
from interpbench.transformer.fast.patch_differences import Differences, Mixture
from interpbench.transformer.model import Interventions, Transformer
from interpbench.transformer.row_products import Stack, swap


class Recording(Interventions):
    """Keeps what every writer wrote, and the residual stream before each layer, of a clean run."""

    def begin(self, cfg: TransformerConfig) -> None:
        """Forgets an earlier run."""
        self._parts: list[Tensor] = []
        self._per_layer = 3 * cfg.n_heads + 1
        self.residuals: list[Tensor] = []
        """`[D, T, N]` before each layer, and before the logits."""

    def write(self, writers: Sequence[int], outputs: Tensor) -> Tensor:
        """Keeps the outputs."""
        self._parts.append(outputs)
        return outputs

    def read(self, readers: Sequence[int], residual: Tensor) -> tuple[Tensor, Tensor | None]:
        """Keeps the residual stream at the start of each layer."""
        if readers[0] % self._per_layer == 0:
            self.residuals.append(residual)
        return residual, None

    @property
    def stack(self) -> Tensor:
        """All writers' outputs `[W, D, T, N]`."""
        return torch.cat(self._parts)


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

    def attend(self, writers: Sequence[int], patterns: Sequence[Tensor]) -> None:
        """Keeps the patterns of heads that are watched."""
        for writer in self.watch.intersection(writers):
            place = writers.index(writer)
            self.patterns[writer] = torch.cat([pattern[place] for pattern in patterns], -1)

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


class Candidates(Interventions):
    """Discovery and certificates: K candidate circuits, each on the same B examples; rows candidate-major.

    For networks that are done: what patched readers see gives the heads' weights no gradient.

    Args:
        masks: `[K, R, W]` float: 1 where a candidate's reader sees the patch instead of the writer. Masks and
            shifts may require gradients.
        patch: `[W, D, T, B]`: the patched values; `[W, D, T, K, B]` if each candidate has its own, which only
            masks of edges can take, in a run from the embedding on without `only`.
        clean: `[W, D, T, B]`: what the writers below layer `start` write in every candidate; with
            `start > 0` they are not computed again.
        start: the layer at which the run starts.
        nodes: `[K, W]` bool: writers whose output is replaced by the patch as a whole.
        live: `[W]`: writers of the layers from `start` on that have to be computed; None for all. The others
            are replaced by `nodes`, or write what they write in `clean`: either they come before all
            patches, or nobody sees them because every edge out of them is patched.
        shifts: `[K, W, D]`: what each candidate's masks add to the patch, for all examples, at all positions
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
        self.candidates, self.live = len(chosen), live
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
        """Goes on with some places, the same ones for every candidate."""
        examples = self.patch.shape[-1]
        rows = self.candidates * examples
        first = places[: len(places) // self.candidates]
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
        total = clean.sum(0).unsqueeze(2).expand(-1, -1, self.candidates, -1)
        if self._patches(writers):
            assert self.nodes is not None
            chosen = self.nodes[:, list(writers)].to(clean.dtype)
            total = total + torch.einsum("kw,wdtb->dtkb", chosen, self._given(self.patch, writers) - clean)
        return total.flatten(2)

    def _patches(self, writers: Sequence[int]) -> bool:
        """Returns whether any candidate replaces one of these writers."""
        return self.used_nodes is not None and any(self.used_nodes[writer] for writer in writers)

    def ignores(self, writers: Sequence[int]) -> bool:
        """Returns whether these writers are neither replaced nor read by a patched edge."""
        unread = self.masks is None or writers[0] >= self.seen
        return unread and not self._patches(writers) and not (self.bos and self.places is None)

    def write(self, writers: Sequence[int], outputs: Tensor) -> Tensor:
        """Patches nodes; keeps each candidate's difference from the patch."""
        count, features, length, rows = outputs.shape
        own = outputs.view(count, features, length, self.candidates, -1)
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

    def read(self, readers: Sequence[int], residual: Tensor) -> tuple[Tensor, Mixture | None]:
        """Adds the masked differences to each reader's input, where any candidate patches an edge."""
        if self.masks is None or not any(self.used[reader] for reader in readers):
            return residual, None
        more = None
        if self.fixed:
            assert self.clean is not None
            fixed = self._given(self.patch, self.fixed) - self._given(self.clean, self.fixed)
            more = torch.tensordot(self.masks[:, list(readers)][:, :, self.fixed], fixed, 1)
        if self.shifts is not None:
            written = [*self.fixed, *self.computed]
            moved = self._shifted(self.masks[:, list(readers)][:, :, written], self.shifts[:, written])
            more = moved if more is None else more + moved
        return residual[..., :0], self.differences.read(list(readers), residual, more)

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


class Taps(Interventions):
    """Keeps every reader's input and every writer's output, to take gradients there.

    Rows are several points for the same B examples, point-major. A point can move some writers' outputs
    towards the patch. The network is run on an embedding that requires a gradient.

    Args:
        delta: `[W, D, T, B]`: patch minus clean; None if nothing moves.
        moved: `[point, W]`, on the CPU: how much of `delta` is added to what each writer writes.
        blocked: a layer whose outputs pass no gradient on, or None.
    """

    def __init__(self, delta: Tensor | None = None, moved: Tensor | None = None, blocked: int | None = None):
        self.delta, self.moved, self.blocked = delta, moved, blocked
        self.moves = [] if moved is None else moved.ne(0).any(0).tolist()

    def begin(self, cfg: TransformerConfig) -> None:
        """Forgets an earlier run."""
        self._layers = [node.layer for node in cfg.graph.nodes]
        self.inputs: list[Tensor] = []
        """`[some readers, D, T, N]`, in the readers' order."""
        self.outputs: list[Tensor] = []
        """`[some writers, D, T, N]`, in the writers' order."""

    def write(self, writers: Sequence[int], outputs: Tensor) -> Tensor:
        """Moves and keeps the outputs."""
        if self.delta is not None and self.moved is not None and any(self.moves[w] for w in writers):
            chosen = list(writers)
            moved = self.moved[:, chosen].T[:, None, None, :, None].to(self.delta)
            outputs = outputs + (moved * self.delta[chosen].unsqueeze(3)).flatten(3)
        self.outputs.append(outputs)
        return outputs.detach() if self._layers[writers[0]] == self.blocked else outputs

    def read(self, readers: Sequence[int], residual: Tensor) -> tuple[Tensor, Tensor | None]:
        """Gives each reader an input of its own, and keeps it."""
        own = residual.expand(len(readers), -1, -1, -1)
        self.inputs.append(own)
        return residual[..., :0], own


def _some(values: Tensor, writers: Sequence[int]) -> Tensor:
    """Returns `values [W, …]` of some writers, without a copy if they are consecutive."""
    if writers[-1] - writers[0] == len(writers) - 1:
        return values[writers[0] : writers[-1] + 1]
    return values[list(writers)]


def record(network: Transformer, tokens: Tensor) -> tuple[Tensor, Recording]:
    """Runs `tokens [N, T]` cleanly; returns logits `[V, T, N]` and what every writer wrote."""
    recorder = Recording()
    logits = network.run(network.embedding(tokens), recorder)
    return logits, recorder


def run_circuits(
    network: Transformer,
    stream: Tensor,
    interventions: Interventions,
    count: int,
    start: int = 0,
    only: Tensor | None = None,
    packed: Packed | None = None,
) -> Tensor:
    """Runs several circuits, or points of a path, on the same B examples, in one batch.

    In which order their rows are is known here and to the interventions alone (circuit-major).

    Args:
        network: the network.
        stream: `[D, T, B]`: what the embedding writes, or the residual stream before layer `start`.
        interventions: `Candidates`, or others whose rows are circuit-major.
        count: how many circuits, K.
        start: the first layer to compute.
        only: `[B]`: the one position of each example whose logits are wanted; None for all.
        packed: as `Transformer.run` takes it; `stream` is packed, too.

    Returns:
        Logits `[V, T, K, B]`, T one with `only` or `packed`.
    """
    rows = stream.unsqueeze(2).expand(-1, -1, count, -1).flatten(2)
    wanted = None if only is None else only.repeat(count)
    return network.run(rows, interventions, start, wanted, packed).unflatten(2, (count, -1))
