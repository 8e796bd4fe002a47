"""Single edges, each patched alone on every row, at a cost that grows with nodes rather than with edges.

What an edge does to its reader is computed exactly for every edge and row: the one head or MLP, nothing
after it. What that does to the answer is estimated to first order, by gradients of margins with respect to
what nodes write: those of the right answer over the next one, and over another class drawn at random for
each row, in the clean run and in the one in which all forbidden nodes are patched; the largest estimate
counts. Where it reaches a share of the margin, or is no number, the edge is run. For heads of the last layer
there is a bound instead (`last_layer`): where it does not say that no answer changes, the edge is run. Of the
rest a random sample is run: the measure of what the screen passes over, on the average edge and on each. An
edge that is wrong where it was run is *watched*: it is run on every row from then on, and what it was passed
over on before counts no more. Where a writer writes exactly the same nothing has to be run. Edges into the
logits and into the last MLP are all run, which takes little more than the unembedding.

Several positions may be scored. Their margins, each divided by its clean value, are added up with random
signs, so that changes at two positions cancel on half of the rows at most.
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
"""The least clean margin that a change is divided by."""


@dataclass(frozen=True)
class _Edges:
    """Inert edges into one node, on a chunk.

    Attributes:
        chunk: the rows.
        numbers: `[edge]`, which of all inert edges they are.
        writers: `[edge]`, where each comes from.
        slots: `[edge]`, into which of the node's inputs each goes.
        there: the node on the clean run.
        deltas: `[W, D, T, row]`, what each writer writes more in the source run.
        clean: `[row]`, whether the network is right without a patch.
        counts: `[row]`, whether the program has an answer.
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
        """Edges and rows."""
        return len(self.numbers), len(self.clean)


class EdgeScreen:
    """Measures inert edges one by one.

    Args:
        tests: of the network.
        share: an edge is run where its estimated effect is at least this share of the margin.
        checks: the probability with which each other (edge, row) is run.

    Attributes:
        items: how many (edge, row) there were,
        run: how many of them were run, but for the sample, and
        proved: of how many a bound says that no answer can change.
        edges: `[inert edge, 3]`: the rows that each was passed over on, how many of these were run all the
            same, drawn at random, and how many of those were wrong.
        largest: the largest share of the margin that was found among the latter.
        watched: `[inert edge]` bool.
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
        """Destination to the numbers of the inert edges into it."""
        ends = graph.reader_destination[tests.inert[:, 0]]
        for target in sorted(set(ends.tolist())):
            self._targets[target] = np.flatnonzero(ends == target)

    def begin(self) -> None:
        """Begins with rows of another draw."""
        self._unrun[:] = 0

    def watch(self) -> Iterator[tuple[str, int]]:
        """Yields edges that are watched from now on, with how many rows of this draw were not run of each."""
        for number in np.flatnonzero(self._wrong & ~self.watched).tolist():
            self.watched[number] = True
            yield self.tests.places["edges"][number], int(self._unrun[number])

    def counts(self) -> Screen:
        """Returns what a certificate says of it."""
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
        """Runs edges on all rows: those into the logits, and the program's own, which it answers itself."""
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
        """Returns `[edge, row]` bool, right or not, of edges into a head of the last layer.

        They are run where no bound holds.
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
        """Returns `[edge, row]` bool, right or not, of edges into any other node.

        They are run where their estimated effect is large; `moved [W, row]` says where a writer writes
        something else at all.
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
        """Runs `chosen [edge, row]`, and of the others, but those that a patch leaves the `same`, a sample.

        Returns:
            Which rows are right, `[edge, row]`.
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
        """Yields edges into the same input that go together, by their places."""
        each = edges.there.numbers(self.evaluation.network.cfg.n_ctx) * len(edges.clean)
        at_once = max(1, NUMBERS_PER_CALL // each)
        for slot in sorted(set(edges.slots.tolist())):
            alike = np.flatnonzero(edges.slots == slot)
            yield from ((slot, alike[i : i + at_once]) for i in range(0, len(alike), at_once))

    def _run_alone(self, edges: _Edges, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Runs edges alone on rows `chosen [edge, row]`.

        Returns:
            Which rows are right, those that were not run as without a patch, and the share of a clean margin
            that is left, `[edge, row]` both.
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
        """Returns gradients `[W, D, T, N]` of relative margins by what nodes write.

        Of the margin over the next class and over one at random, in each of two states.
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
        for taps in states[: 2 if unaligned.any() else 1]:
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
    """Returns the node that a reader belongs to; of the logits, that of a layer after the last one."""
    return Node(reader.layer, reader.head)
