"""Gates: how the inputs of a node are joined, where they together change an output.

Take an output that patching all edges into a node changes. Patch one of them alone, and all but this one. The
edge and its siblings are joined by

* AND, if it alone changes the output, and without it the others change it as all do: the clean output takes
  all of them;
* OR, if it alone changes nothing, and without it the others do not do what all do: the clean output takes any
  of them;
* ADDER, if it alone changes the output, and the others do not do what all do: it counts by itself, and so do
  the others, which change the output or what it does alone;
* nothing of the sort otherwise, as where three copies vote, or where the edge or all others do not matter,
  being the same in both inputs, for example.

Outputs that are None in one of these runs are left aside, as nothing can be said of them.

These are the gates of Chen et al. 2025, "Rethinking circuit completeness in language models: AND, OR, and
ADDER gates", section 3. Noising finds AND and ADDER, denoising OR and ADDER. Which gate it is depends on the
pair of inputs: what takes both of two inputs to be true takes any of them to be false. For a node that all
paths to the output go through, exchanging clean and corrupted input exchanges AND and OR.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from interpbench.alignment.alignment import Alignment
from interpbench.alignment.find_orders import CircuitPart, parts_of
from interpbench.alignment.structure import draw_pairs_of
from interpbench.causal.model import Intervention, Trace, changed, has_value
from interpbench.circuits.ground_truth import Level
from interpbench.circuits.naming import edge_ends, head_edge_name

KINDS = ("and", "or", "adder")
PAIRS = 2_000
"""The number of pairs of inputs on which gates are looked for."""


@dataclass(frozen=True)
class Gate:
    """The gate that joins the edges into one node, on pairs of inputs.

    Attributes:
        edges: the names of the edges.
        moved: bool `[edge, pair, pos]`, the outputs that patching all of them changes, and that are not None
            with the edge alone or all others patched.
        kinds: bool `[3, edge, pair, pos]`: at which of these an edge is joined to its siblings by AND, by OR,
            and by ADDER.
    """

    edges: tuple[str, ...]
    moved: np.ndarray
    kinds: np.ndarray

    def shares(self, edge: str) -> dict[str, float]:
        """Returns the share of these outputs at which an edge is joined by each kind, by its name."""
        place = self.edges.index(edge)
        found = self.kinds[:, place].sum((1, 2)) / max(1, int(self.moved[place].sum()))
        return dict(zip(KINDS, found.tolist()))


def find_gates(
    alignment: Alignment,
    pairs: tuple[np.ndarray, np.ndarray] | None = None,
    level: Level = "qkv_edge",
) -> dict[str, Gate]:
    """Returns the gates of all nodes that several edges of the circuit lead to, by the name of the node.

    Args:
        alignment: the nodes of the program's variables.
        pairs: clean and corrupted inputs `[pair, pos]`; None for those on which truth is found.
        level: whether a head's edges into q, k and v are apart (`qkv_edge`) or together (`head_edge`). All of
            them lead to the head.
    """
    run = _Runs(alignment, pairs or draw_pairs_of(alignment.task, PAIRS))
    groups: dict[str, dict[str, CircuitPart]] = {}
    for name, part in parts_of(alignment, level).items():
        groups.setdefault(edge_ends(head_edge_name(name))[1], {})[name] = part
    gates: dict[str, Gate] = {}
    for node, parts in groups.items():
        if len(parts) > 1:
            whole = run(parts)
            alone = [run({name: part}) for name, part in parts.items()]
            kept = [run({other: each for other, each in parts.items() if other != name}) for name in parts]
            answered = np.stack([run.answers(one) & run.answers(two) for one, two in zip(alone, kept)])
            moved = run.differs(run.clean, whole) & answered
            breaks = np.stack([run.differs(run.clean, one) for one in alone])
            keeps = np.stack([run.differs(whole, one) for one in kept])
            others = [run.differs(run.clean, one) | run.differs(whole, two) for one, two in zip(kept, alone)]
            kinds = np.stack([breaks & ~keeps, ~breaks & keeps, breaks & keeps & np.stack(others)]) & moved
            gates[node] = Gate(tuple(parts), moved, kinds)
    return gates


class _Runs:
    """Runs the program on clean inputs, with parts of the circuit patched from corrupted ones."""

    def __init__(self, alignment: Alignment, pairs: tuple[np.ndarray, np.ndarray]):
        self.task, self.model = alignment.task, alignment.task.causal_model
        self.base = pairs[0]
        self.clean, self.there = (self.model.run(side) for side in pairs)
        self.scored = self.task.scored(self.clean[self.model.output])

    def __call__(self, parts: Mapping[str, CircuitPart]) -> Trace:
        """Returns the program's variables with these parts patched."""
        everywhere = np.ones(len(self.base), bool)
        reads = {
            read: Intervention(self.there[read[1].parent], everywhere)
            for part in parts.values()
            for read in part.reads
        }
        swaps = {
            name: Intervention(self.there[name], everywhere)
            for part in parts.values()
            for name in part.variables
        }
        return self.model.run(self.base, swaps, reads, self.clean)

    def differs(self, one: Trace, other: Trace) -> np.ndarray:
        """Returns bool `[pair, pos]`, whether scored outputs differ."""
        output = self.model.output
        return changed(one[output], other[output]) & self.scored

    def answers(self, trace: Trace) -> np.ndarray:
        """Returns bool `[pair, pos]`, whether there is an output."""
        return has_value(trace[self.model.output])
