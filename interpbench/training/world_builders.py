"""Builders of the worlds of a training step: rows with one kind of intervention, and the outputs wanted.

The first source of a base is its row of the source world, its second source is the next row of the batch.

Shapes: W nodes, R readers.
"""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from interpbench.alignment.alignment import Alignment
from interpbench.causal.model import Intervention, Read, Trace
from interpbench.training.draws import Draws, Targets
from interpbench.training.failures import NO_FAILURES, Failures, pick


@dataclass(frozen=True)
class Swapped:
    """Base inputs with interchange interventions on aligned nodes.

    Attributes:
        base: the base inputs `[row, pos]`.
        sources: the program's variables on the first and on the second source of each row.
        nodes: the source of each node's activation, `[W, row]`, 1 or 2; 0 if the node is not swapped.
        places: bool `[row, pos]`, the positions at which nodes are swapped; None for all.
        unchanged: the program's variables on the base.
        counterfactual: the program's variables under the interventions.
        failures: what the network did wrong in the last validations, which draws follow.
    """

    base: np.ndarray
    sources: tuple[Trace, Trace]
    nodes: np.ndarray
    places: np.ndarray | None
    unchanged: Trace
    counterfactual: Trace
    failures: Failures = NO_FAILURES


@dataclass(frozen=True)
class World:
    """Rows with one kind of intervention.

    Attributes:
        tokens: the inputs `[row, pos]`.
        trace: the program's variables under the interventions; its output is the target.
        nodes: the source of each node's activation, `[W, row]`, 1 or 2; 0 if the node is not swapped. None if
            no node is.
        places: bool `[row, pos]`, the positions at which nodes are swapped; None for all.
        edges: `[R, W, row]` 0/1, the edges that are patched; None for no edge.
        edge_sources: 1 if patched edges take their node's second source, 0 for the first: `[R, W, row]`, or
            `[W, row]` if it is the same for all edges out of a node.
        reads: the interventions on the program's reads that correspond to the patched edges.
    """

    tokens: np.ndarray
    trace: Trace
    nodes: np.ndarray | None = None
    places: np.ndarray | None = None
    edges: np.ndarray | None = None
    edge_sources: np.ndarray | None = None
    reads: dict[tuple[str, Read], Intervention] = field(default_factory=dict[tuple[str, Read], Intervention])


class WorldBuilder(Protocol):
    """A function that builds one world."""

    def __call__(self, rng: np.random.Generator, swapped: Swapped) -> World:
        """Draws the interventions of the rows, with a generator that all worlds of a step share."""
        ...


def source_world(rng: np.random.Generator, swapped: Swapped) -> World:
    """Builds the world of source inputs, from which the others take activations; its loss is `behaviour`."""
    return World(swapped.sources[0]["tokens"], swapped.sources[0])


def swap_world(rng: np.random.Generator, swapped: Swapped) -> World:
    """Builds the world of IIT: aligned nodes are swapped in the network, their variables in the program."""
    return World(swapped.base, swapped.counterfactual, swapped.nodes, swapped.places)


class StrictWorld:
    """Builds the world of SIIT: nodes outside the circuit are swapped, which must not change the output."""

    def __init__(self, alignment: Alignment, draws: Draws):
        self.nodes = [alignment.graph.node_index[node] for node in alignment.unaligned_nodes]
        self.names = [str(node) for node in alignment.unaligned_nodes]
        self.writers, self.draws = len(alignment.graph.nodes), draws

    def __call__(self, rng: np.random.Generator, swapped: Swapped) -> World:
        """Draws the nodes that each row swaps, and the source of each."""
        rows = len(swapped.base)
        chosen = choose(rng, self.draws, swapped.failures.shares("nodes", self.names), rows)
        own = own_sources(rng, self.draws.own_sources, chosen.shape)
        nodes = np.zeros((self.writers, rows), np.int8)
        nodes[self.nodes] = (chosen * (1 + own)).T
        return World(swapped.base, swapped.unchanged, nodes)


def choose(rng: np.random.Generator, draws: Draws, failed: np.ndarray, rows: int) -> np.ndarray:
    """Draws the forbidden nodes or edges that each row patches, bool `[row, target]`.

    Args:
        rng: the random generator.
        draws: the way in which they are chosen.
        failed: the share of rows that were wrong with each of them patched, `[target]`.
        rows: the number of rows.
    """
    count = len(failed)
    single = np.zeros((rows, count), bool)
    if count:
        single[np.arange(rows), pick(rng, failed, rows, draws.follow)] = True
    subset = rng.random((rows, count)) < rng.random((rows, 1))
    kinds: dict[Targets, np.ndarray] = {
        "individual": single,
        "subsets": subset,
        "all": np.ones((rows, count), bool),
    }
    kind = rng.random((rows, 1))
    kinds["mixed"] = np.where(kind < 0.5, single, subset)
    kinds["thirds"] = np.where(kind < 1 / 3, single, subset | (kind >= 2 / 3))
    return kinds[draws.targets]


def own_sources(rng: np.random.Generator, share: float, shape: tuple[int, ...]) -> np.ndarray:
    """Draws the sources of nodes or edges, int8 of a shape (rows, nodes or edges): 1 for the second source.

    Args:
        rng: the random generator.
        share: the share of rows in which each node or edge takes one of two sources at random; in the other
            rows all take the first one.
        shape: the numbers of rows and of nodes or edges.
    """
    several = rng.random((shape[0], 1), np.float32) < share
    return several * rng.integers(2, size=shape, dtype=np.int8)
