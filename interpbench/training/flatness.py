"""Flatness: patches that go only part of the way move nothing, though the whole way changes the answer.

A required edge of a saturated task is patched by a share α of the way, to `clean + α (source - clean)`. Up
to the share that the task says (`Task.flat`), the logits are to stay where they are. The loss is the mean
squared distance of the logits, relative to the margin. What reads linearly cannot be flat (`flat_edges`).

Shapes: P positions without BOS, T positions with it, B rows, V outputs, R readers, W nodes.
"""

import numpy as np
import torch
from torch import Tensor

from interpbench.circuits.graph import Graph
from interpbench.circuits.ground_truth import Truth
from interpbench.circuits.naming import Reader
from interpbench.core.errors import ConfigError
from interpbench.tasks.task import Task
from interpbench.training.noise import margin
from interpbench.transformer.model import Transformer
from interpbench.transformer.worlds import Plan, Worlds


def flat_edges(truth: Truth) -> np.ndarray:
    """Returns the edges of the circuit whose readers can be flat, bool `[R, W]`.

    MLPs and attention patterns (queries and keys) can be. The logits read linearly, and so do the values of a
    head: these can be flat only where all that the circuit reads off the head is.
    """
    graph, circuit = truth.graph, truth.circuit
    flat = np.zeros(circuit.shape, bool)
    for number, reader in reversed(list(enumerate(graph.readers))):
        if reader.slot != "logits" and (reader.slot != "v" or _read_flatly(graph, circuit, flat, reader)):
            flat[number] = circuit[number]
    return flat


def _read_flatly(graph: Graph, circuit: np.ndarray, flat: np.ndarray, reader: Reader) -> bool:
    """Returns whether all that the circuit reads off a reader's head can be flat; later readers are known."""
    writer = [str(node) for node in graph.nodes].index(reader.destination)
    return bool((circuit[:, writer] <= flat[:, writer]).all())


def patched_together(truth: Truth) -> list[np.ndarray]:
    """Returns the sets of edges that are patched part of the way, bool `[R, W]` each.

    They are single edges that can be flat, and all edges out of the embedding, the heads of a layer, or an
    MLP, which paths of integrated gradients move together: but those of the circuit that cannot be flat, and
    those into the logits. Edges outside the circuit are among them, as that they have no effect is certified
    for the whole way alone.
    """
    graph, flat = truth.graph, flat_edges(truth)
    read = np.array([reader.slot != "logits" for reader in graph.readers])
    together = graph.legal & read[:, None] & (flat | ~truth.circuit)
    sets: list[np.ndarray] = []
    for reader, writer in np.argwhere(flat):
        sets.append(np.zeros(flat.shape, bool))
        sets[-1][reader, writer] = True
    blocks = [(node.layer, node.head is None) for node in graph.nodes]
    for block in sorted(set(blocks)):
        among = together & np.array([each == block for each in blocks])
        if (among & flat).any() and among.sum() > 1:
            sets.append(among)
    return sets


class Flatness:
    """The loss of what patches move that go part of the way.

    Row b of a step is the base, the next row its source. Which edges are patched, and how far, depends on b
    alone, in even steps for each set of edges; the inputs are drawn anew for each step.

    Args:
        task: the task, which says up to where nothing may move.
        truth: the states of edges.
        rows: the number B of rows.
        device: the device of the network.

    Raises:
        ConfigError: if there are fewer rows than sets of edges, or than two.
    """

    def __init__(self, task: Task, truth: Truth, rows: int, device: torch.device):
        graph, sets = truth.graph, patched_together(truth)
        if rows < (least := max(2, len(sets))):
            raise ConfigError(
                f"trainer.batch={rows}: each of {len(sets)} sets of edges that are to be flat needs a row; "
                f"try trainer.batch={least}"
            )
        self.rows = rows
        edges = np.zeros((len(graph.readers), len(graph.nodes), rows), np.float32)
        for place, some in enumerate(sets):
            those = range(place, rows, len(sets))
            for step, row in enumerate(those, 1):
                edges[:, :, row] = task.flat * step / len(those) * some
        self.edges = torch.from_numpy(edges).to(device)
        self.nodes = torch.zeros(len(graph.nodes), 2, rows, dtype=torch.int8, device=device)
        self.next = torch.ones(len(graph.nodes), rows, dtype=torch.int8, device=device)
        self.tolerance = task.tolerance

    def loss(self, network: Transformer, tokens: Tensor, weights: Tensor) -> Tensor:
        """Returns the loss.

        Args:
            network: the network.
            tokens: token ids of the bases, `[B, T]`.
            weights: the weights of their positions, `[P, B]`; 0 for positions that are not scored.
        """
        worlds = Worlds(self.nodes, self.edges, edge_sources=self.next, plan=Plan((), 1))
        logits = network.run(network.embedding(tokens.repeat(2, 1)), worlds)
        clean, patched = logits[:, 1:].chunk(2, -1)
        moved = apart(clean, patched) * (weights > 0)
        return (moved / margin(logits[..., : len(tokens)], self.tolerance)).square().mean()


def apart(first: Tensor, second: Tensor) -> Tensor:
    """Returns how far logits are apart, `[P, B]`: the root of the mean square over differences of two logits.

    Of numbers, it is the absolute difference.

    Args:
        first: logits `[V, P, B]`.
        second: other logits of the same shape.
    """
    classes = len(first)
    if classes == 1:
        return (second - first)[0].abs()
    return (2 * classes / (classes - 1) * (second - first).var(0, correction=0) + 1e-12).sqrt()
