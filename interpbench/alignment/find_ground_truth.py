"""Ground truth by interchange interventions on the program: which nodes and edges change its output.

Nodes and edges of the circuit that change an output for some pair of inputs are *required*. The others, such
as constants, index arithmetic and dead branches of a compiled program, are *allowed*, as a faithful method
cannot find them. Those outside the circuit are *forbidden*. Where the program leaves open through which input
of a head a variable is read, the head edge is required or allowed, and its q/k/v edges are *free*.
"""

from collections.abc import Callable, Iterable
from itertools import pairwise

import numpy as np

from interpbench.alignment.alignment import Alignment
from interpbench.causal.model import Intervention, Read, Trace
from interpbench.circuits.ground_truth import State, Truth
from interpbench.circuits.naming import EMBED, Node, Reader
from interpbench.core import seeds
from interpbench.tasks.task import Task

PAIRS = 20_000
"""The number of pairs of inputs that are tried before a node or edge is found to have no effect."""


def find_truth(alignment: Alignment, pairs: int = PAIRS) -> Truth:
    """Returns the state of every node, head edge and q/k/v edge, found on this number of pairs of inputs."""
    graph = alignment.graph
    slots = structural_edges(alignment)
    heads: dict[tuple[str, Node], list[tuple[str, Read]]] = {}
    for (reader, node), reads in slots.items():
        heads.setdefault((reader.destination, node), []).extend(reads)

    effects = _Effects(alignment, pairs)
    empty = Truth.empty(graph)
    carried = any(effects.of_node(node) for node in alignment.relay_nodes)
    for node in {EMBED, *alignment.nodes.values()}:
        required = effects.of_node(node) or (node == EMBED and carried)
        empty.nodes[graph.node_index[node]] = State.REQUIRED if required else State.ALLOWED
    ends = _ends(alignment)
    place = {name: index for index, name in enumerate(graph.destinations)}
    for (reader, node), reads in slots.items():
        fixed = [key for key in reads if key[1].slot is not None]
        where = (graph.reader_index[reader], graph.node_index[node])
        end = ends.get((reader, node))
        required = effects.of_reads(fixed) if end is None else effects.of_node(end)
        state = State.REQUIRED if required else State.ALLOWED
        if end is None and not required and len(fixed) < len(reads):  # read through any of q, k and v
            state = State.FREE if effects.of_reads(list(dict.fromkeys(reads))) else State.ALLOWED
        empty.qkv_edges[where] = state
    for (destination, node), reads in heads.items():
        parts = empty.qkv_edges[:, graph.node_index[node]][graph.reader_destination == place[destination]]
        required = (parts == State.REQUIRED).any() or effects.of_reads(list(dict.fromkeys(reads)))
        where = (place[destination], graph.node_index[node])
        empty.head_edges[where] = State.REQUIRED if required else State.ALLOWED
    return empty


def structural_edges(alignment: Alignment) -> dict[tuple[Reader, Node], list[tuple[str, Read]]]:
    """Returns the edges of the circuit, each with the reads of variables (child, read) that use it."""
    edges: dict[tuple[Reader, Node], list[tuple[str, Read]]] = {}
    for name, variable in alignment.task.causal_model.variables.items():
        for read in variable.reads:
            for reader in alignment.readers(name, read):
                edges.setdefault((reader, alignment.nodes[read.parent]), []).append((name, read))
    return edges | {edge: [] for edge in _ends(alignment)}


def _ends(alignment: Alignment) -> dict[tuple[Reader, Node], Node]:
    """Returns edges that are no variable's read, each with the node whose patch acts like the edge's.

    These are the edges into relay nodes, and from the node of the output (and those of other ends) to the
    logits.
    """
    into = {(Reader(node.layer, "mlp"), EMBED): node for node in alignment.relay_nodes}
    ends = [alignment.nodes[name] for name in alignment.task.causal_model.ends]
    return {**into, **{(alignment.logits, node): node for node in ends}}


def structural_ends(alignment: Alignment) -> dict[tuple[int, int], Node]:
    """Returns `_ends` by the indices (reader, node) of the edges."""
    graph = alignment.graph
    ends = _ends(alignment).items()
    return {(graph.reader_index[reader], graph.node_index[node]): end for (reader, node), end in ends}


def structural_reads(alignment: Alignment) -> dict[tuple[int, int], list[tuple[str, Read]]]:
    """Returns the circuit's edges by their indices (reader, node), with their reads (child, read)."""
    graph = alignment.graph
    return {
        (graph.reader_index[reader], graph.node_index[node]): reads
        for (reader, node), reads in structural_edges(alignment).items()
    }


def draw_pairs_of(task: Task, pairs: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the pairs of inputs on which truth is found, bases and sources `[pair, pos]`.

    These are all pairs if there are few, and else so many that are always the same.

    Args:
        task: the task.
        pairs: the number of pairs that are drawn; up to four times as many are enumerated.
    """
    domain, rng = task.domain, seeds.generator(0, "truth", task.name)
    if domain.size**2 <= pairs * 4:
        everything = domain.all()
        return everything.repeat(len(everything), 0), np.tile(everything, (len(everything), 1))
    base = domain.draw(rng, pairs)
    return base, domain.sources(rng, base)


class _Effects:
    """Interventions on pairs of inputs, tried in chunks until one changes an output."""

    def __init__(self, alignment: Alignment, pairs: int):
        self.alignment = alignment
        self.causal_model = alignment.task.causal_model
        self.chunks = list(self._chunks(pairs))

    def _chunks(self, pairs: int) -> list[tuple[np.ndarray, Trace, Trace]]:
        base, source = draw_pairs_of(self.alignment.task, pairs)
        bounds = [0, 500, *range(5_000, len(base), 5_000), len(base)]
        return [
            (base[a:b], self.causal_model.run(base[a:b]), self.causal_model.run(source[a:b]))
            for a, b in pairwise(bounds)
            if b > a
        ]

    def _any(self, names: Iterable[str], run: Callable[[np.ndarray, Trace, Trace], Trace]) -> bool:
        """Returns whether `run` changes an output; variables that never vary need no run."""
        return any(
            self.causal_model.effective(clean, run(base, clean, source)).any()
            for base, clean, source in self.chunks
            if any(not np.array_equal(clean[name], source[name]) for name in names)
        )

    def of_node(self, node: Node) -> bool:
        """Returns whether swapping all variables of a node changes an output."""
        names = self.alignment.variables_at(node)
        return self._any(
            names,
            lambda base, clean, source: self.causal_model.run(base, _swap(names, source), clean=clean),
        )

    def of_reads(self, reads: list[tuple[str, Read]]) -> bool:
        """Returns whether interventions on these reads (child, read) alone change an output."""

        def run(base: np.ndarray, clean: Trace, source: Trace) -> Trace:
            everywhere = np.ones(len(base), bool)
            edges = {key: Intervention(source[key[1].parent], everywhere) for key in reads}
            return self.causal_model.run(base, None, edges, clean)

        return self._any([read.parent for _, read in reads], run)


def _swap(names: tuple[str, ...], source: Trace) -> dict[str, Intervention]:
    return {name: Intervention(source[name], np.ones(len(source[name]), bool)) for name in names}
