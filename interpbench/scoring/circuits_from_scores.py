"""Circuits of a given size from scores of edges, pruning of circuits, and random circuits to compare with.

A circuit is a bool array `[R, W]`, true for the edges in it. Scores are `[R, W]` too, larger for more
important edges. Letters of shapes: R readers, W writers (nodes), E edges.
"""

import heapq

import numpy as np

from interpbench.circuits.graph import Graph
from interpbench.circuits.ground_truth import State, Truth
from interpbench.circuits.naming import Node
from interpbench.circuits.order_arrays import orders_of

SIZES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""The sizes of circuits, as shares of all edges, of MIB's circuit track (Mueller et al. 2025)."""
LOGITS = -1
"""The index that stands for the logits among the indices of nodes; the logits are not a node."""


def true_size(truth: Truth, any_order: bool = False) -> int:
    """Returns the number of required q/k/v edges; the free ones of a required head edge count as one.

    Args:
        truth: the ground truth.
        any_order: whether edges count that are required of a higher order than 0 (`Truth.witnesses`).
    """
    free = truth.graph.merge(truth.qkv_edges == State.FREE, False) & (truth.head_edges == State.REQUIRED)
    higher = int((orders_of(truth, "qkv_edge") > 0).sum()) if any_order else 0
    return truth.count("qkv_edge", State.REQUIRED) + int(free.sum()) + higher


def best_edges(graph: Graph, scores: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Returns the circuit of the `size` edges with the highest scores.

    Args:
        graph: the network's graph.
        scores: the scores of edges, `[R, W]`.
        size: the number of edges in the circuit.
        rng: the random generator that orders edges of equal scores.
    """
    return first_edges(graph, edges_by_score(graph, scores, rng), size)


def edges_by_score(graph: Graph, scores: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Returns the reader and the writer of each edge, from the highest score to the lowest, `[E, 2]`.

    Args:
        graph: the network's graph.
        scores: the scores of edges, `[R, W]`.
        rng: the random generator that orders edges of equal scores.
    """
    values = scores[graph.legal]
    return np.argwhere(graph.legal)[np.lexsort((rng.random(len(values)), -values))]


def first_edges(graph: Graph, order: np.ndarray, size: int) -> np.ndarray:
    """Returns the first edges of an order as a circuit.

    Args:
        graph: the network's graph.
        order: the reader and the writer of each edge, `[E, 2]`.
        size: how many of them.
    """
    circuit = np.zeros(graph.legal.shape, bool)
    circuit[tuple(order[:size].T)] = True
    return circuit


def of_true_size(truth: Truth, order: np.ndarray, any_order: bool = False) -> np.ndarray:
    """Returns the first edges of an order, as many as are required, as a circuit.

    Where a program leaves free through which of its three inputs a head reads, edges are head edges: as many
    as are required, each with all inputs of its head.

    Args:
        truth: the ground truth.
        order: the reader and the writer of each edge, `[E, 2]`.
        any_order: whether edges count that are required of a higher order than 0 (`Truth.witnesses`).
    """
    graph, size = truth.graph, true_size(truth, any_order)
    if not (truth.qkv_edges == State.FREE).any():
        return first_edges(graph, order, size)
    merged = np.stack([np.asarray(graph.reader_destination)[order[:, 0]], order[:, 1]], 1)
    first = np.sort(np.unique(merged, axis=0, return_index=True)[1])[:size]
    chosen = np.zeros((len(graph.destinations), graph.legal.shape[1]), bool)
    chosen[tuple(merged[first].T)] = True
    return chosen[graph.reader_destination] & graph.legal


def grown(graph: Graph, scores: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Returns all edges in the order in which a greedy search adds them to a circuit, starting at the logits.

    The next edge is the one with the highest score among those into the logits or into a node that is already
    in the circuit. Of edges with equal scores, the one into the node that was added first comes first, as in
    the greedy search of EAP-IG and MIB.

    Args:
        graph: the network's graph.
        scores: the scores of edges, `[R, W]`.
        rng: the random generator that orders equal edges into the same node. Equal edges into the logits are
            in the order of their writers.

    Returns:
        The reader and the writer of each edge, `[E, 2]`.
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
    """Returns whether equal scores leave a choice of which edges are the `size` best.

    Args:
        graph: the network's graph.
        scores: the scores of edges, `[R, W]`.
        size: the number of edges.
    """
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
    """Returns a union of random paths from the embedding to the logits, with at least `size` edges.

    Args:
        graph: the network's graph.
        size: the smallest number of edges; paths are added until it is reached.
        rng: the random generator of the paths.
    """
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
    """Returns the indices of each node's readers (a head has three); those of the logits are at `LOGITS`."""
    readers: dict[int, list[int]] = {}
    for reader in range(len(graph.readers)):
        writer = _writer_of(graph, reader)
        readers.setdefault(LOGITS if writer is None else writer, []).append(reader)
    return readers


def _writer_of(graph: Graph, reader: int) -> int | None:
    """Returns the index of the node that a reader is an input of; None for the logits."""
    place = graph.readers[reader]
    return graph.node_index.get(Node(place.layer, place.head))
