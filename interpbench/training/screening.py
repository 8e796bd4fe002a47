"""The screen of single edges: it measures each patched alone on every row, without running them all.

An (edge, row) is run to the end only where the edge may change the output:

* The effect of an edge on its reader, one head or MLP, is computed exactly for every edge and row.
* The effect of this on the output is estimated to first order, by gradients of margins with respect to what
  nodes write. There are up to four margins: of the right class over the best other one, and over one that is
  drawn at random for each row; in the clean run, and in the run with all forbidden nodes patched. The largest
  estimate counts. Where it reaches a share of the margin, or is NaN, the edge is run.
* For heads of the last layer there is a bound instead (`last_layer`). Where it does not prove that no output
  changes, the edge is run.
* Of the rest, a random sample is run: it measures what the screen misses, overall and for each edge.
* An edge that was wrong where it was run is *watched*: from then on it is run on every row, and earlier rows
  on which it was not run are not counted.
* Where the node writes exactly the same in the source run, nothing has to be run.
* Edges into the logits and into the last MLP are all run, as this costs little more than the unembedding.

If several positions are scored, their margins, each divided by its clean value, are added up with random
signs, so that changes at two positions cancel on at most half of the rows.

Shapes: W nodes, D d_model, T positions, P scored positions, N rows.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from interpbench.circuits.certificate import Screen
from interpbench.circuits.naming import Node, Reader, Slot
from interpbench.training.intervention_tests import Chunk, InterventionTests, Outcome
from interpbench.training.interventional_accuracy import Activations, Evaluation
from interpbench.training.last_layer import Bound, is_bounded
from interpbench.training.one_node import Head, NodeOnCleanRun, reader
from interpbench.transformer.fast.run_circuits import NUMBERS_PER_CALL
from interpbench.transformer.taps import WriterTaps

LEAST = 1e-3
"""The smallest clean margin by which a change is divided."""


@dataclass(frozen=True)
class _Edges:
    """Inert edges into one node, on a chunk.

    Attributes:
        chunk: the rows.
        numbers: the indices of the edges among all inert edges, `[edge]`.
        writers: the index of the node that each edge starts from, `[edge]`.
        slots: the input of the node that each edge goes to, `[edge]`.
        there: the node that the edges go to, on the clean run.
        deltas: source minus clean outputs of all nodes, `[W, D, T, row]`.
        clean: bool `[row]`, whether the network is right without a patch.
        counts: bool `[row]`, whether the program has an output.
    """

    chunk: Chunk
    numbers: np.ndarray
    writers: np.ndarray
    slots: np.ndarray
    there: NodeOnCleanRun
    deltas: Tensor
    clean: np.ndarray
    counts: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of edges and rows."""
        return len(self.numbers), len(self.clean)


class EdgeScreen:
    """The screen of inert edges, each patched alone.

    Args:
        tests: the interventions on the network.
        share: an edge is run on rows where its estimated effect is at least this share of the margin.
        checks: the probability with which an edge is run on any other row.

    Attributes:
        items: the number of (edge, row).
        run: the number of (edge, row) that were run, without the random sample.
        proved: the number of (edge, row) for which a bound proves that no output can change.
        edges: for each inert edge, `[inert edge, 3]`, the number of rows that were not to be run, how many of
            these were run as a random sample, and how many of the sample were wrong.
        largest: the largest share of a margin that an edge of the sample took away.
        watched: bool `[inert edge]`, the edges that are run on every row.
    """

    def __init__(self, tests: InterventionTests, share: float, checks: float):
        self.tests, self.share, self.checks = tests, share, checks
        self.evaluation: Evaluation = tests.evaluation
        self.items = self.run = self.proved = 0
        self.bounded = is_bounded(self.evaluation.network.cfg)
        self.largest = 0.0
        self.edges = np.zeros((len(tests.inert), 3), np.int64)
        self.watched = np.zeros(len(tests.inert), bool)
        self._unrun = np.zeros(len(tests.inert), np.int64)
        self._wrong = np.zeros(len(tests.inert), bool)
        graph = tests.truth.graph
        self._targets: dict[int, np.ndarray] = {}
        """The indices of the inert edges into each head, MLP or the logits, by the index of the latter."""
        ends = graph.reader_destination[tests.inert[:, 0]]
        for target in sorted(set(ends.tolist())):
            self._targets[target] = np.flatnonzero(ends == target)

    def begin(self) -> None:
        """Prepares for rows of another draw."""
        self._unrun[:] = 0

    def watch(self) -> Iterator[tuple[str, int]]:
        """Yields edges that are watched from now on, each with the number of its rows that were not run."""
        for number in np.flatnonzero(self._wrong & ~self.watched).tolist():
            self.watched[number] = True
            yield self.tests.places["edges"][number], int(self._unrun[number])

    def counts(self) -> Screen:
        """Returns the counts of the screen for a certificate."""
        names = self.tests.places["edges"]
        _, sampled, wrong = self.edges.sum(0).tolist()
        return Screen(
            share=self.share,
            items=self.items,
            run=self.run,
            proved=self.proved,
            sampled=sampled,
            wrong=wrong,
            largest=self.largest,
            edges={names[n]: tuple(self.edges[n].tolist()) for n in np.flatnonzero(self.edges[:, 0])},
        )

    def measure(self, chunk: Chunk, places: Collection[str]) -> Iterator[Outcome]:
        """Yields the outcome of each wanted edge patched alone on a chunk."""
        ev, base, source = self.evaluation, chunk.base, chunk.sources[0]
        answer = base.trace[ev.causal_model.output]
        scored = ev.task.scored(answer)
        counts = ev.answered(answer)
        names, wanted = self.tests.places["edges"], set(places)
        graph = self.tests.truth.graph
        layers = ev.network.cfg.n_layers
        gradients: list[Tensor] = []
        bound: Bound | None = None
        deltas = source.stack - base.stack
        moved = deltas.ne(0).any(2).any(1).cpu().numpy()  # [W, row]
        for numbers in self._targets.values():
            end = _end(graph.readers[self.tests.inert[numbers[0], 0]])
            here = [n for n in numbers.tolist() if names[n] in wanted]
            bounded = self.bounded and end.head is not None and end.layer == layers - 1
            every = end.layer == layers or Node(layers - 1) == end or (self.share == 0 and not bounded)
            whole = [n for n in here if every or ev.reads.get(tuple(self.tests.inert[n].tolist()))]
            if whole:
                yield from self._whole(chunk, whole)
            rest = np.array([n for n in here if n not in whole], int)
            if not len(rest):
                continue
            if bounded:
                bound = bound or Bound(ev, base, answer)
                right = self._within(self._edges(chunk, rest, answer, deltas), bound)
            else:
                gradients = gradients or self._gradients(chunk, answer, scored)
                right = self._into(self._edges(chunk, rest, answer, deltas), moved, gradients)
            for number, row in zip(rest, right):
                yield Outcome("edges", names[number], row, counts)

    def _whole(self, chunk: Chunk, numbers: list[int]) -> Iterator[Outcome]:
        """Runs edges on all rows; those that the program has are patched in it, too."""
        ev, base, source = self.evaluation, chunk.base, chunk.sources[0]
        edges = self.tests.inert[numbers]
        for number, predictions in ev.single_edges(base, source.stack, edges):
            mask = np.zeros(self.tests.truth.graph.legal.shape, bool)
            mask[tuple(edges[number])] = True
            answer = ev.with_edges(base, source, mask)
            name = self.tests.places["edges"][numbers[number]]
            counts = ev.answered(answer)
            self.items += int(counts.sum())
            self.run += int(counts.sum())
            yield Outcome("edges", name, ev.right(predictions, answer), counts)

    def _edges(self, chunk: Chunk, numbers: np.ndarray, answer: np.ndarray, deltas: Tensor) -> _Edges:
        ev, graph, ends = self.evaluation, self.tests.truth.graph, self.tests.inert[numbers]
        slots = np.array([graph.readers[r].slot for r in ends[:, 0]])
        there = reader(ev.network, _end(graph.readers[ends[0, 0]]), chunk.base)
        clean = ev.right(ev.predictions(chunk.base.logits), answer)
        return _Edges(chunk, numbers, ends[:, 1], slots, there, deltas, clean, ev.answered(answer))

    @torch.no_grad()
    def _within(self, edges: _Edges, bound: Bound) -> np.ndarray:
        """Returns bool `[edge, row]`, whether each row is right with each edge into a last head patched.

        An edge is run where no bound proves that the output stays the same.
        """
        assert isinstance(edges.there, Head)
        rates, harmless = bound.of(edges.there), np.zeros(edges.shape, bool)
        for slot, some in self._in_calls(edges):
            found = bound.harmless(rates, edges.there.changes(slot, edges.deltas[edges.writers[some]]))
            harmless[some] = found.cpu().numpy()
        self.proved += int((harmless & edges.counts).sum())
        chosen = (~harmless | self.watched[edges.numbers, None]) & edges.counts
        return self._run(edges, chosen, np.zeros_like(chosen))

    @torch.no_grad()
    def _into(self, edges: _Edges, moved: np.ndarray, gradients: list[Tensor]) -> np.ndarray:
        """Returns bool `[edge, row]`, whether each row is right with each edge into another node patched.

        Args:
            edges: the edges.
            moved: bool `[W, row]`, whether a node's output differs in the source run.
            gradients: the gradients `[W, D, T, N]` of relative margins, by which effects are estimated.
        """
        index = self.tests.truth.graph.node_index[edges.there.node]
        by_node = [gradient[index] for gradient in gradients]
        estimate = np.zeros(edges.shape, np.float32)
        for slot, some in self._in_calls(edges):
            effects = edges.there.effects(slot, edges.deltas[edges.writers[some]], by_node)
            estimate[some] = torch.stack(effects).abs().amax(0).cpu().numpy()
        same = ~moved[edges.writers] & edges.clean & edges.counts
        large = ~(estimate < self.share) | ~edges.clean | self.watched[edges.numbers, None]
        return self._run(edges, large & edges.counts & ~same, same)

    def _run(self, edges: _Edges, chosen: np.ndarray, same: np.ndarray) -> np.ndarray:
        """Runs chosen edges and rows, and a random sample of the others.

        Args:
            edges: the edges.
            chosen: bool `[edge, row]`, what is run.
            same: bool `[edge, row]`, where the patch changes nothing, which is never run.

        Returns:
            Whether each row is right with each edge patched, bool `[edge, row]`.
        """
        others, numbers = edges.counts & ~chosen & ~same, edges.numbers
        sampled = (edges.chunk.rng.random(edges.shape, np.float32) < self.checks) & others
        right, left = self._run_alone(edges, chosen | sampled)
        self.items += int(edges.counts.sum()) * len(numbers)
        self.run += int(chosen.sum()) + int(same.sum())
        amiss = (sampled & ~right).sum(1)
        self.edges[numbers] += np.stack([others.sum(1), sampled.sum(1), amiss], 1)
        self._unrun[numbers] += others.sum(1) - sampled.sum(1)
        self._wrong[numbers] |= ((chosen | sampled) & edges.clean & ~right).any(1)
        self.largest = max(self.largest, float((1 - left)[sampled].max(initial=0.0)))
        return right

    def _in_calls(self, edges: _Edges) -> Iterator[tuple[Slot, np.ndarray]]:
        """Yields an input of the node and the places of edges into it that are computed at once."""
        each = edges.there.numbers(self.evaluation.network.cfg.n_ctx) * len(edges.clean)
        at_once = max(1, NUMBERS_PER_CALL // each)
        for slot in sorted(set(edges.slots.tolist())):
            alike = np.flatnonzero(edges.slots == slot)
            yield from ((slot, alike[i : i + at_once]) for i in range(0, len(alike), at_once))

    def _run_alone(self, edges: _Edges, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Runs edges alone on chosen rows, bool `[edge, row]`.

        Returns:
            Whether each row is right (as without a patch if it was not run), bool `[edge, row]`, and the
            smallest share of its clean margins that is left, `[edge, row]`.
        """
        ev, base, there = self.evaluation, edges.chunk.base, edges.there
        right, left = np.repeat(edges.clean[None], len(chosen), 0), np.ones(chosen.shape)
        edge, row = np.nonzero(chosen)
        by_row = edges.deltas.permute(0, 3, 1, 2)
        for slot in sorted(set(edges.slots[edge].tolist())):
            alike = np.flatnonzero(edges.slots[edge] == slot)
            for some in (alike[i : i + ev.rows_per_call] for i in range(0, len(alike), ev.rows_per_call)):
                at, writers = torch.from_numpy(row[some]), torch.from_numpy(edges.writers[edge[some]])
                delta = by_row[writers, at].permute(1, 2, 0).contiguous()
                found = ev.with_written(base, there.node, there.written(slot, delta, at), row[some])
                right[edge[some], row[some]], left[edge[some], row[some]] = found
        return right, left

    def _gradients(self, chunk: Chunk, answer: np.ndarray, scored: np.ndarray) -> list[Tensor]:
        """Returns gradients `[W, D, T, N]` of relative margins with respect to what nodes write.

        The margins are over the best other class and over one that is drawn, on the clean run and on the run
        with all forbidden nodes patched.
        """
        ev, base = self.evaluation, chunk.base
        signs = torch.from_numpy(chunk.rng.choice([-1.0, 1.0], scored.shape) * scored).T.to(base.logits)
        scales = [signs / ev.margins(base.logits, answer).clamp(min=LEAST)]  # [P, N]
        others: np.ndarray | None = None
        if not ev.causal_model.numerical and len(base.logits) > 2:
            shift = chunk.rng.integers(1, len(base.logits), size=(len(answer), 1))
            others = np.where(answer < 0, 0, (answer + shift) % len(base.logits))
            scales.append(signs / ev.lead(base.logits, answer, others).clamp(min=LEAST))
        unaligned = torch.from_numpy(self.tests.unaligned).to(ev.device)[:, None]
        states = [WriterTaps(), WriterTaps(unaligned, chunk.sources[0].stack)]
        found: list[Tensor] = []
        for taps in states[: 2 if self.tests.unaligned.any() else 1]:
            parts = [
                self._part(
                    base,
                    taps,
                    some,
                    answer[some],
                    None if others is None else others[some],
                    [scale[:, some] for scale in scales],
                )
                for some in ev.chunks(len(base.tokens))
            ]
            found += [torch.cat(each, -1) for each in zip(*parts)]
        return found

    def _part(
        self,
        base: Activations,
        taps: WriterTaps,
        some: slice,
        answer: np.ndarray,
        others: np.ndarray | None,
        scales: list[Tensor],
    ) -> list[Tensor]:
        """Returns the gradients of `_gradients` on a slice of rows."""
        ev = self.evaluation
        own = WriterTaps(taps.replaced, None if taps.patch is None else taps.patch[..., some])
        with torch.enable_grad():
            logits = ev.network.run(base.stack[0][..., some].detach(), own)
            signals = [ev.signals(logits, answer)]
            if others is not None:
                signals.append(ev.lead(logits, answer, others))
            totals = [(signal * scale).sum() for signal, scale in zip(signals, scales)]
            return [
                torch.cat(torch.autograd.grad(total, own.outputs, retain_graph=True, materialize_grads=True))
                for total in totals
            ]


def _end(reader: Reader) -> Node:
    """Returns the node that a reader belongs to; for the logits, an MLP after the last layer."""
    return Node(reader.layer, reader.head)
