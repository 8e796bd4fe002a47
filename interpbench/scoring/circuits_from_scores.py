"""Circuits out of rankings: the best edges, what of them leads anywhere, and random ones to compare with.

A circuit is a bool array `[reader, writer]` of the edges that are kept.
"""

import heapq

import numpy as np

from interpbench.circuits.graph import Graph
from interpbench.circuits.ground_truth import State, Truth
from interpbench.circuits.naming import Node

SIZES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""The sizes of circuits, as shares of all edges, of MIB's circuit track (Mueller et al. 2025)."""
LOGITS = -1
"""What stands for the logits where writers are numbers, which they are none of."""


def true_size(truth: Truth) -> int:
    """Returns how many q/k/v edges are required; the free ones of a required head edge count as one."""
    free = truth.graph.merge(truth.qkv_edges == State.FREE, False) & (truth.head_edges == State.REQUIRED)
    return truth.count("qkv_edge", State.REQUIRED) + int(free.sum())


def best_edges(graph: Graph, scores: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Returns the circuit of the `size` best edges; `rng` decides between ties.

    Args:
        graph: the graph.
        scores: `[reader, writer]`.
        size: how many.
        rng: where the order of ties comes from.
    """
    values = scores[graph.legal]
    chosen = np.lexsort((rng.random(len(values)), -values))[:size]
    circuit = np.zeros(graph.legal.shape, bool)
    circuit[tuple(np.argwhere(graph.legal)[chosen].T)] = True
    return circuit


def grown(graph: Graph, scores: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Returns all edges in the order in which a circuit grows from the logits.

    The next edge is always the best of those into the logits or into a node that is already read. Of equal
    ones that into the node that was read first is taken, as in the greedy search of EAP-IG and MIB.

    Args:
        graph: the graph.
        scores: `[reader, writer]`.
        rng: decides between equal edges into the same node; those into the logits come in the writers' order.

    Returns:
        `[edge, 2]`: reader and writer.
    """
    readers, ties = _readers_of(graph), rng.random(scores.shape)
    ties[readers[LOGITS]] = np.arange(len(graph.nodes))
    order: list[tuple[int, int]] = []
    frontier: list[tuple[float, int, float, int, int]] = []
    opened: set[int] = set()

    def open_node(node: int) -> None:
        opened.add(node)
        for reader in readers.get(node, ()):
            for writer in np.flatnonzero(graph.legal[reader]).tolist():
                score, tie = float(scores[reader, writer]), float(ties[reader, writer])
                heapq.heappush(frontier, (-score, len(opened), tie, reader, writer))

    open_node(LOGITS)
    while frontier:
        *_, reader, writer = heapq.heappop(frontier)
        order.append((reader, writer))
        if writer not in opened:
            open_node(writer)
    return np.array(order)


def ties_at(graph: Graph, scores: np.ndarray, size: int) -> bool:
    """Returns whether the `size` best edges are a matter of choice."""
    values = np.sort(scores[graph.legal])[::-1]
    return 0 < size < len(values) and bool(values[size - 1] == values[size])


def connected(graph: Graph, circuit: np.ndarray) -> np.ndarray:
    """Returns the edges of a circuit that lie on a path from the embedding to the logits."""
    column = [_writer_of(graph, reader) for reader in range(len(graph.readers))]
    reached = np.zeros(len(graph.nodes), bool)
    reached[0] = True
    for reader, writer in enumerate(column):
        if writer is not None:
            reached[writer] |= bool((circuit[reader] & reached).any())
    wanted, kept = np.zeros(len(graph.nodes), bool), np.zeros_like(circuit)
    for reader in reversed(range(len(column))):
        writer = column[reader]
        if writer is None or wanted[writer]:
            kept[reader] = circuit[reader] & reached
            wanted |= kept[reader]
    return kept


def random_circuit(graph: Graph, size: int, rng: np.random.Generator) -> np.ndarray:
    """Draws random paths from the logits back to the embedding until they have `size` edges or more."""
    circuit = np.zeros(graph.legal.shape, bool)
    readers = _readers_of(graph)
    size = min(size, int(graph.legal.sum()))
    while circuit.sum() < size:
        writer = LOGITS
        while writer:
            reader = int(rng.choice(readers[writer]))
            writer = int(rng.choice(np.flatnonzero(graph.legal[reader])))
            circuit[reader, writer] = True
    return circuit


def _readers_of(graph: Graph) -> dict[int, list[int]]:
    """Returns, for each writer that reads anything, its readers; those of the logits under `LOGITS`."""
    readers: dict[int, list[int]] = {}
    for reader in range(len(graph.readers)):
        writer = _writer_of(graph, reader)
        readers.setdefault(LOGITS if writer is None else writer, []).append(reader)
    return readers


def _writer_of(graph: Graph, reader: int) -> int | None:
    """Returns the writer that a reader feeds; None for the logits."""
    place = graph.readers[reader]
    return graph.node_index.get(Node(place.layer, place.head))
