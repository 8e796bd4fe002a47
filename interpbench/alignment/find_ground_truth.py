"""Ground truth by interchange interventions on the program: which nodes and edges change its output.

Nodes and edges of the circuit that change an output for some pair of inputs are *required*. The others, such
as constants, index arithmetic and dead branches of a compiled program, are *allowed*. A faithful method
cannot find them, except those that matter together with others (`find_orders`). Those outside the circuit are
*forbidden*. Where the program leaves open through which input of a head a variable is read, the head edge is
required or allowed, and its q/k/v edges are *free*.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise

import numpy as np

from interpbench.alignment.alignment import Alignment
from interpbench.alignment.find_orders import find_orders
from interpbench.alignment.structure import draw_pairs_of, ends_of, structural_edges
from interpbench.causal.model import Intervention, Read, Trace
from interpbench.circuits.ground_truth import LEVELS, Level, State, Truth, Witness
from interpbench.circuits.naming import EMBED, Node

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
    ends = ends_of(alignment)
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
    return replace(empty, witnesses=_witnesses(alignment, empty))


def _witnesses(alignment: Alignment, truth: Truth) -> dict[Level, dict[str, Witness]]:
    """Returns witnesses of what is allowed, but required of some order."""
    found: dict[Level, dict[str, Witness]] = {}
    for level in LEVELS:
        allowed = set(truth.names(level, State.ALLOWED))
        if level == "qkv_edge":  # where a head's input is open, the name is that of the head edge
            allowed |= set(truth.names("head_edge", State.ALLOWED))
        if witnesses := find_orders(alignment, level, least=1, among=allowed):
            found[level] = witnesses
    return found


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
