"""Interventional accuracy: whether a network's outputs under interventions are the program's.

Validations and certificates are made of these measurements.

A *row* is a pair of a base and a source; it is right if the output is right at every scored position.

Shapes: W nodes, R readers, D d_model, V outputs, T positions with BOS, P = T - 1 without it (`pos`), N rows.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from interpbench.alignment.alignment import Alignment
from interpbench.alignment.structure import structural_reads
from interpbench.causal.model import Intervention, Trace, changed
from interpbench.circuits.naming import Node
from interpbench.transformer.fast.circuits import Circuits
from interpbench.transformer.fast.frozen_run import frozen_run
from interpbench.transformer.fast.run_circuits import SingleEdges, rows_per_call, run_circuits
from interpbench.transformer.model import Transformer
from interpbench.transformer.recording import record

NO_CLASS = -2
"""The prediction of logits that are not finite, which is never right."""


@dataclass(frozen=True)
class Inputs:
    """Inputs, and the program's variables on them.

    Attributes:
        tokens: the inputs `[N, pos]`.
        trace: the program's variables.
    """

    tokens: np.ndarray
    trace: Trace


@dataclass(frozen=True)
class Activations(Inputs):
    """The network's activations on some inputs, without interventions.

    Attributes:
        stack: what nodes write, `[W, D, T, N]`.
        residuals: the residual stream `[D, T, N]` before each layer, and before the unembedding.
        logits: the logits `[V, T, N]`.
    """

    stack: Tensor
    residuals: list[Tensor]
    logits: Tensor

    def rows(self, chosen: slice) -> "Activations":
        """Returns the activations of some rows."""
        return _map(self, lambda x: x[..., chosen].contiguous(), lambda x: x[chosen])


def _map(
    run: Activations, tensors: Callable[[Tensor], Tensor], arrays: Callable[[np.ndarray], np.ndarray]
) -> Activations:
    """Returns activations with a function applied to all tensors `[..., N]`, and another to all arrays.

    Args:
        run: the activations.
        tensors: the function of tensors `[..., N]`.
        arrays: the function of arrays `[N, ...]`.
    """
    return Activations(
        arrays(run.tokens),
        {name: arrays(values) for name, values in run.trace.items()},
        tensors(run.stack),
        [tensors(residual) for residual in run.residuals],
        tensors(run.logits),
    )


class Evaluation:
    """A network and the causal model that it should implement.

    Args:
        network: the network.
        alignment: the nodes of the program's variables.
    """

    def __init__(self, network: Transformer, alignment: Alignment):
        self.network, self.alignment = network, alignment
        self.task, self.causal_model = alignment.task, alignment.task.causal_model
        self.reads = structural_reads(alignment)
        self.rows_per_call = rows_per_call(network.cfg)
        self.device = network.unembed.W_U.device

    @torch.no_grad()
    def activations(self, tokens: np.ndarray) -> Activations:
        """Runs network and causal model on inputs `[N, pos]`, without interventions."""
        chunks = []
        for first in range(0, len(tokens), self.rows_per_call):
            chunk = tokens[first : first + self.rows_per_call]
            ids = torch.from_numpy(self.task.token_ids(chunk)).to(self.device)
            logits, cache = record(self.network, ids)
            chunks.append((logits, cache.stack, cache.residuals))
        logits, stack = (torch.cat([part[i] for part in chunks], -1) for i in (0, 1))
        residuals = [torch.cat(layer, -1) for layer in zip(*(part[2] for part in chunks))]
        return Activations(tokens, self.causal_model.run(tokens), stack, residuals, logits)

    def pair(self, base: Activations, source: Activations) -> tuple[Activations, Activations]:
        """Returns the bases and the sources of all pairs of a row of `base` and a row of `source`.

        The pairs of the first base come first.
        """
        n, m = len(base.tokens), len(source.tokens)

        def repeat(x: Tensor) -> Tensor:
            return x.unsqueeze(-1).expand(*x.shape, m).flatten(-2)

        def tile(x: Tensor) -> Tensor:
            return x.unsqueeze(-2).expand(*x.shape[:-1], n, -1).flatten(-2)

        return _map(base, repeat, lambda x: x.repeat(m, 0)), _map(source, tile, lambda x: np.tile(x, (n, 1)))

    def predictions(self, logits: Tensor) -> np.ndarray:
        """Returns predictions `[N, pos]` of logits `[V, T, N]`: class codes (or `NO_CLASS`), or numbers."""
        outputs = logits[:, 1:]
        if self.causal_model.numerical:
            return outputs[0].double().T.cpu().numpy()
        chosen = outputs.argmax(0).masked_fill(~outputs.sum(0).isfinite(), NO_CLASS)
        return chosen.T.cpu().numpy()

    def right(self, predictions: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """Returns bool `[N]`, the rows whose predictions are right wherever `wanted [N, pos]` is not None."""
        scored = self.task.scored(wanted)
        if self.causal_model.numerical:
            good = np.abs(predictions - np.nan_to_num(wanted)) <= self.task.tolerance
        else:
            good = predictions == wanted
        return np.all(good | ~scored, axis=1)

    def answered(self, wanted: np.ndarray) -> np.ndarray:
        """Returns bool `[N]`, the rows with an output at some scored position; only these are counted."""
        return np.any(self.task.scored(wanted), axis=1)

    def margin(self, run: Activations) -> float:
        """Returns the smallest margin of the right class over the best other one, or the largest error."""
        wanted = run.trace[self.causal_model.output]
        scored = self.task.scored(wanted).T
        signals = self.signals(run.logits, wanted).cpu().double().numpy()[scored]
        if self.causal_model.numerical:
            return float(np.abs(signals - wanted.T[scored]).max(initial=0))
        return float(signals.min(initial=np.inf))

    def signals(self, logits: Tensor, wanted: np.ndarray) -> Tensor:
        """Returns the output number, or the margin of the right class over the best other one, `[P, N]`."""
        outputs = logits[:, 1:]
        if self.causal_model.numerical:
            return outputs[0]
        index = torch.from_numpy(np.where(wanted < 0, 0, wanted).T.astype(np.int64)).to(outputs.device)[None]
        right = outputs.gather(0, index)[0]
        return right - outputs.scatter(0, index, -torch.inf).amax(0)

    def lead(self, logits: Tensor, wanted: np.ndarray, others: np.ndarray) -> Tensor:
        """Returns the logit difference between right classes and others, `[P, N]`.

        Args:
            logits: the logits `[V, T, N]`.
            wanted: the codes of the right classes, `[N, pos]`.
            others: the codes of the other classes, `[N, pos]`.
        """
        right, other = (
            torch.from_numpy(np.where(codes < 0, 0, codes).T.astype(np.int64)).to(logits.device)[None]
            for codes in (wanted, others)
        )
        outputs = logits[:, 1:]
        return (outputs.gather(0, right) - outputs.gather(0, other))[0]

    def margins(self, logits: Tensor, wanted: np.ndarray) -> Tensor:
        """Returns the margin by which each output is right, `[P, N]`; it is negative where one is wrong."""
        signals = self.signals(logits, wanted)
        if not self.causal_model.numerical:
            return signals
        return self.task.tolerance - (signals - torch.from_numpy(np.nan_to_num(wanted).T).to(signals)).abs()

    def chunks(self, rows: int) -> Iterator[slice]:
        """Yields slices of rows that are run at once."""
        return (slice(first, first + self.rows_per_call) for first in range(0, rows, self.rows_per_call))

    def single_nodes(
        self, base: Activations, patch: Tensor, nodes: Sequence[Node]
    ) -> Iterator[tuple[Node, np.ndarray]]:
        """Yields each node and the predictions `[N, pos]` with this node alone patched.

        Args:
            base: the bases.
            patch: the values that nodes are patched with, `[W, D, T, N]`.
            nodes: the nodes.
        """
        graph = self.alignment.graph
        for half in sorted({(node.layer, node.head is None) for node in nodes}):
            here = [node for node in nodes if (node.layer, node.head is None) == half]
            masks = np.zeros((len(here), len(graph.nodes)), bool)
            masks[np.arange(len(here)), [graph.node_index[node] for node in here]] = True
            for number, predictions in self.patched(base, patch, nodes=masks):
                yield here[number], predictions

    def single_edges(
        self, base: Activations, patch: Tensor, edges: np.ndarray
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Yields the number of each edge and the predictions `[N, pos]` with this edge alone patched.

        Edges into the same head or MLP are run at once, as the other nodes of its layer then stay clean.

        Args:
            base: the bases.
            patch: the values that nodes are patched with, `[W, D, T, N]`.
            edges: the indices of each edge's reader and node, `[E, 2]`.
        """
        graph = self.alignment.graph
        targets = graph.reader_destination[edges[:, 0]]
        for target in sorted(set(targets.tolist())):
            here = np.flatnonzero(targets == target)
            for number, predictions in self.patched(base, patch, edges=SingleEdges(graph, edges[here])):
                yield int(here[number]), predictions

    def patched(
        self,
        base: Activations,
        patch: Tensor,
        nodes: np.ndarray | None = None,
        edges: np.ndarray | SingleEdges | None = None,
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Yields the number and the predictions `[N, pos]` of each circuit.

        Args:
            base: the bases.
            patch: the values that are patched in, `[W, D, T, N]`.
            nodes: the nodes that each circuit patches, bool `[K, W]`; or give `edges`.
            edges: the edges that each circuit patches, bool `[K, R, W]`; or give `nodes`.
        """
        several: dict[int, list[np.ndarray]] = {}
        for part in run_circuits(self.network, base, patch, edges, nodes):
            for place, number in enumerate(range(part.circuits.start, part.circuits.stop)):
                several.setdefault(number, []).append(self.predictions(part.logits[:, :, place]))
                if part.examples.stop == len(base.tokens):
                    yield number, np.concatenate(several.pop(number))

    @torch.no_grad()
    def with_written(
        self, base: Activations, node: Node, written: Tensor, row: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Runs some rows with one node's output replaced.

        Args:
            base: the bases.
            node: the node.
            written: what the node writes instead, `[D, T, M]`.
            row: the indices of the rows, `[M]`.

        Returns:
            Whether each row is right, bool `[M]`, and the smallest share of its clean margins left, `[M]`.
        """
        graph, layer = self.alignment.graph, node.layer
        index, answers = graph.node_index[node], base.trace[self.causal_model.output]
        live = [(other.layer, other.head is None) > (layer, node.head is None) for other in graph.nodes]
        here = [place for place, other in enumerate(graph.nodes) if other.layer == layer]
        around = slice(here[0], here[-1] + 1)
        chosen = np.arange(len(graph.nodes))[None] == index
        right, left = np.empty(len(row), bool), np.empty(len(row))
        for some in self.chunks(len(row)):
            rows = torch.from_numpy(row[some]).to(self.device)
            clean = base.stack.new_empty(*base.stack.shape[:3], len(rows))  # filled where it is read
            clean[around] = base.stack[around][..., rows]
            patch = torch.empty_like(clean)
            patch[around] = clean[around]
            patch[index] = written[..., some]
            circuits = Circuits(None, patch, clean, layer, chosen, live)
            logits = frozen_run(self.network, base.residuals[layer][..., rows], circuits)[:, :, 0]
            wanted = answers[row[some]]
            right[some] = self.right(self.predictions(logits), wanted)
            share = self.margins(logits, wanted) / self.margins(base.logits[..., rows], wanted).clamp(
                min=1e-6
            )
            scored = torch.from_numpy(self.task.scored(wanted).T).to(self.device)
            left[some] = share.masked_fill(~scored, torch.inf).amin(0).cpu().numpy()
        return right, left

    def with_edges(
        self,
        base: Inputs,
        source: Inputs,
        edges: np.ndarray,
        swaps: Mapping[str, Intervention] | None = None,
    ) -> np.ndarray:
        """Returns the program's output `[N, pos]` with those of some edges patched that are its own.

        Args:
            base: the bases.
            source: the sources.
            edges: the edges, bool `[R, W]`.
            swaps: interventions on variables besides, by name; None for none.
        """
        everywhere = np.ones(len(base.tokens), bool)
        interventions = {
            read: Intervention(source.trace[read[1].parent], everywhere)
            for place, reads in self.reads.items()
            if edges[place]
            for read in reads
        }
        if not interventions and not swaps:
            return base.trace[self.causal_model.output]
        return self.causal_model.run(base.tokens, swaps, interventions, base.trace)[self.causal_model.output]

    def counterfactual(
        self, base: Inputs, source: Inputs, node: Node, where: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the program's output with a node's variables swapped, `[N, pos]`, and where it changes.

        Args:
            base: the bases.
            source: the sources.
            node: the aligned node.
            where: bool `[N, pos]`, the positions at which it is swapped; None for all.

        Returns:
            The output, and bool `[N]`, whether it differs from that without the swap at some position.
        """
        chosen = np.ones(len(base.tokens), bool) if where is None else where
        names = self.alignment.aligned_nodes[node]
        swaps = {name: Intervention(source.trace[name], chosen) for name in names}
        output = self.causal_model.run(base.tokens, swaps, clean=base.trace)[self.causal_model.output]
        return output, np.any(changed(base.trace[self.causal_model.output], output), axis=1)
