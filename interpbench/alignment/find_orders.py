"""Orders of being required: nodes and edges that matter only once others are patched, too.

A node or edge is *required of order k* if there are k others and a pair of inputs such that patching these k
changes no output, and patching them together with it does (an actual cause under a contingency, Halpern and
Pearl 2005; its degree of responsibility is 1 / (k + 1), Chockler and Halpern 2004, definition 3.1). Order 0
is `required`. Of three copies that vote, each is required of order 1: one alone is outvoted.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from interpbench.alignment.alignment import Alignment
from interpbench.alignment.structure import draw_pairs_of, structural_edges, structural_ends
from interpbench.causal.model import Intervention, Read, Trace, has_value
from interpbench.circuits.ground_truth import MOST_ORDER, Level, Witness
from interpbench.circuits.naming import EMBED, Node, edge_name

PAIRS = 2_000
"""The number of pairs of inputs on which sets are patched."""
MOST_SETS = 4_000
"""The largest number of sets of a size that are patched: order 2 is looked for among up to 29 edges that can
vary, order 3 among up to 19."""


@dataclass(frozen=True)
class CircuitPart:
    """A node or edge of the circuit: the interventions on the program that act like patching it."""

    reads: tuple[tuple[str, Read], ...] = ()
    variables: tuple[str, ...] = ()


def find_orders(
    alignment: Alignment,
    level: Level = "qkv_edge",
    most: int = MOST_ORDER,
    least: int = 0,
    pairs: int = PAIRS,
    among: Collection[str] | None = None,
) -> dict[str, Witness]:
    """Returns witnesses of the orders of the circuit's nodes or edges, by name.

    What matters in no set has none.

    Args:
        alignment: the nodes of the program's variables.
        level: whether nodes, head edges or q/k/v edges are meant. A read through any of a head's inputs is
            patched in all three.
        most: the highest order that is looked for, if `MOST_SETS` sets are enough for it.
        least: the lowest order that is looked for.
        pairs: the number of pairs of inputs that are tried.
        among: the names whose orders are looked for; None for all.
    """
    search = _Search(alignment, parts_of(alignment, level), pairs)
    varied = [name for name in search.parts if search.varies(name)]
    wanted = [name for name in varied if among is None or name in among]
    found: dict[str, Witness] = {}
    for order in range(least, most + 1) if wanted else ():
        if order > highest_order(len(varied)):
            break
        for name in wanted:
            if name not in found:
                others = [other for other in varied if other != name]
                witness = next(search.witnesses(name, others, order), None)
                if witness is not None:
                    found[name] = witness
    return found


def highest_order(varied: int) -> int:
    """Returns the highest order that is looked for among so many nodes or edges that can vary."""
    few = [order for order in range(2, MOST_ORDER + 1) if math.comb(varied, order + 1) <= MOST_SETS]
    return max(few, default=1)


def unknown_orders(alignment: Alignment) -> tuple[int, int] | None:
    """Returns how many edges can vary, and the highest order that is looked for; None if all orders are."""
    search = _Search(alignment, parts_of(alignment, "qkv_edge"), PAIRS)
    varied = sum(search.varies(name) for name in search.parts)
    known = highest_order(varied)
    return None if known == MOST_ORDER else (varied, known)


def parts_of(alignment: Alignment, level: Level) -> dict[str, CircuitPart]:
    """Returns the nodes or edges of the circuit, by name, but the embedding as a node."""
    graph = alignment.graph
    if level == "node":
        names = {node: alignment.variables_at(node) for node in graph.nodes if node != EMBED}
        return {str(node): CircuitPart(variables=carried) for node, carried in names.items() if carried}
    ends = structural_ends(alignment)
    reads: dict[str, list[tuple[str, Read]]] = {}
    variables: dict[str, tuple[str, ...]] = {}
    for (reader, node), those in structural_edges(alignment).items():
        free = any(read.slot is None for _, read in those)
        whole = level == "head_edge" or free
        name = edge_name(node, reader.destination if whole else reader)
        reads.setdefault(name, []).extend(those)
        end: Node | None = ends.get((graph.reader_index[reader], graph.node_index[node]))
        variables[name] = () if end is None else alignment.variables_at(end)
    return {name: CircuitPart(tuple(dict.fromkeys(those)), variables[name]) for name, those in reads.items()}


class _Search:
    """Sets of nodes or edges that are patched on the same pairs of inputs, each set once."""

    def __init__(self, alignment: Alignment, parts: Mapping[str, CircuitPart], pairs: int):
        self.model, self.parts = alignment.task.causal_model, parts
        self.base, self.source = draw_pairs_of(alignment.task, pairs)
        self.clean, self.there = self.model.run(self.base), self.model.run(self.source)
        self._changed: dict[frozenset[str], np.ndarray] = {}
        self._same: dict[frozenset[str], np.ndarray] = {}
        self._moves: dict[tuple[str, frozenset[str]], bool] = {}
        above: dict[str, set[str]] = {}
        for name, variable in self.model.variables.items():
            above[name] = {name}.union(*(above[read.parent] for read in variable.reads))
        ends = {name: {*part.variables, *(child for child, _ in part.reads)} for name, part in parts.items()}
        self._before = {
            name: {
                other
                for other in parts
                if other != name and any(ends[other] & above[end] for end in ends[name])
            }
            for name in parts
        }
        self._ends, self._above = ends, above

    def varies(self, name: str) -> bool:
        """Returns whether what is patched can differ once other parts are patched.

        So it can if anything that it is computed from differs between a base and its source: what is the same
        in both may still be another once a part of that is patched.
        """
        part = self.parts[name]
        names = [*part.variables, *(read.parent for _, read in part.reads)]
        above = set().union(*(self._above[name] for name in names))
        return any(not np.array_equal(self.clean[each], self.there[each]) for each in above)

    def changed(self, names: frozenset[str]) -> np.ndarray:
        """Returns bool `[pair]`, whether patching a set changes the output."""
        if names not in self._changed:
            after = self._run(names)
            self._changed[names] = self.model.effective(self.clean, after)
            kept = [has_value(self.clean[end]) == has_value(after[end]) for end in self.model.ends]
            self._same[names] = ~self._changed[names] & np.all([each.all(1) for each in kept], axis=0)
        return self._changed[names]

    def _run(self, names: frozenset[str]) -> Trace:
        """Returns the program's variables with a set patched."""
        everywhere = np.ones(len(self.base), bool)
        parts = [self.parts[name] for name in sorted(names)]
        reads = {
            read: Intervention(self.there[read[1].parent], everywhere)
            for part in parts
            for read in part.reads
        }
        swaps = {
            name: Intervention(self.there[name], everywhere) for part in parts for name in part.variables
        }
        return self.model.run(self.base, swaps, reads, self.clean)

    def moves(self, name: str, others: frozenset[str]) -> bool:
        """Returns whether patching a node or edge together with others moves what it is read by at all.

        Only others that come before what it is read by, or are read by the same, make a difference, so that
        most sets need no run. True as well for sets that consist of such others, which take runs anyway.
        """
        key = name, others & self._before[name]
        if key[1] == others:
            return True
        if key not in self._moves:
            without, together = self._run(key[1]), self._run(key[1] | {name})
            self._moves[key] = any(
                not np.array_equal(without[end], together[end], equal_nan=without[end].dtype.kind == "f")
                for end in self._ends[name]
            )
        return self._moves[key]

    def same(self, names: frozenset[str]) -> np.ndarray:
        """Returns bool `[pair]`, whether patching a set leaves every output, None included."""
        self.changed(names)
        return self._same[names]

    def witnesses(self, name: str, others: Sequence[str], order: int) -> Iterator[Witness]:
        """Yields the sets of so many others with which a node or edge matters, each with a pair."""
        for chosen in combinations(others, order):
            some = frozenset(chosen)
            if not self.moves(name, some):
                continue
            pairs = self.changed(some | {name}) & self.same(some)
            if pairs.any():
                pair = int(pairs.argmax())
                yield Witness(chosen, *(tuple(side[pair].tolist()) for side in (self.base, self.source)))
