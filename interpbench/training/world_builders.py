"""The worlds of a training step, one builder each: what its rows are patched with, and what must come of it.

A base's first source is its row of the source world, its second one the next row of its batch.
"""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from interpbench.alignment.alignment import Alignment
from interpbench.causal.model import Intervention, Read, Trace
from interpbench.training.draws import Draws, Targets


@dataclass(frozen=True)
class Swapped:
    """Inputs, and interchange interventions on them.

    Attributes:
        base: `[row, pos]`.
        sources: the program's variables on each row's source, and on the next row's.
        nodes: the swaps `[W, row]`; 0 for none, s from source s.
        places: `[row, pos]` bool, where they are; None for everywhere.
        unchanged: the program's variables on the base.
        counterfactual: the program's variables under the swaps.
    """

    base: np.ndarray
    sources: tuple[Trace, Trace]
    nodes: np.ndarray
    places: np.ndarray | None
    unchanged: Trace
    counterfactual: Trace


@dataclass(frozen=True)
class World:
    """Some rows with interventions of one kind.

    Attributes:
        tokens: `[row, pos]`.
        trace: the program's variables under the interventions, whose output is the target.
        nodes: `[W, row]`: the source, from 1, that a node is taken from; 0 for none. None for no node.
        places: `[row, pos]` bool: where nodes are swapped; None for everywhere.
        edges: `[R, W, row]` 0/1: patched edges; None for none.
        edge_sources: `[W, row]`: 0 or 1, how many rows further on the source of patched edges is.
        reads: what the program's own reads get instead, where an edge of its own is patched.
    """

    tokens: np.ndarray
    trace: Trace
    nodes: np.ndarray | None = None
    places: np.ndarray | None = None
    edges: np.ndarray | None = None
    edge_sources: np.ndarray | None = None
    reads: dict[tuple[str, Read], Intervention] = field(default_factory=dict[tuple[str, Read], Intervention])


class WorldBuilder(Protocol):
    """Builds one world of some rows."""

    def __call__(self, rng: np.random.Generator, swapped: Swapped) -> World:
        """Draws what the rows are patched with; the generator is shared by all worlds, in order."""
        ...


def source_world(rng: np.random.Generator, swapped: Swapped) -> World:
    """Builds the clean runs from which the others take activations; they carry the behaviour loss."""
    return World(swapped.sources[0]["tokens"], swapped.sources[0])


def swap_world(rng: np.random.Generator, swapped: Swapped) -> World:
    """Builds the world of IIT: aligned nodes are swapped, as the program's variables are."""
    return World(swapped.base, swapped.counterfactual, swapped.nodes, swapped.places)


class StrictWorld:
    """Builds the world in which unaligned nodes are swapped, which must change nothing."""

    def __init__(self, alignment: Alignment, draws: Draws):
        self.nodes = [alignment.graph.node_index[node] for node in alignment.unaligned_nodes]
        self.writers, self.draws = len(alignment.graph.nodes), draws

    def __call__(self, rng: np.random.Generator, swapped: Swapped) -> World:
        """Draws which unaligned nodes each row swaps, and the source of each."""
        rows = len(swapped.base)
        chosen = choose(rng, self.draws.targets, len(self.nodes), rows)
        own = own_sources(rng, self.draws.own_sources, chosen.shape)
        nodes = np.zeros((self.writers, rows), np.int8)
        nodes[self.nodes] = (chosen * (1 + own)).T
        return World(swapped.base, swapped.unchanged, nodes)


def choose(rng: np.random.Generator, targets: Targets, count: int, rows: int) -> np.ndarray:
    """Returns bool `[row, count]`: which of `count` forbidden things a row patches; see `Draws.targets`."""
    single = np.zeros((rows, count), bool)
    if count:
        single[np.arange(rows), rng.integers(count, size=rows)] = True
    subset = rng.random((rows, count)) < rng.random((rows, 1))
    kinds: dict[Targets, np.ndarray] = {
        "individual": single,
        "subsets": subset,
        "all": np.ones((rows, count), bool),
    }
    kind = rng.random((rows, 1))
    kinds["mixed"] = np.where(kind < 0.5, single, subset)
    kinds["thirds"] = np.where(kind < 1 / 3, single, subset | (kind >= 2 / 3))
    return kinds[targets]


def own_sources(rng: np.random.Generator, share: float, shape: tuple[int, ...]) -> np.ndarray:
    """Draws int8 `[row, thing]`: 1 where it takes the second source; 0 throughout in the other rows.

    Args:
        rng: the generator.
        share: of the rows in which each thing has a source of its own.
        shape: (rows, things).
    """
    several = rng.random((shape[0], 1), np.float32) < share
    return several * rng.integers(2, size=shape, dtype=np.int8)
