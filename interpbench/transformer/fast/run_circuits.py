"""Logits of many circuits of a trained network on the same examples, for discovery, scoring and certificates.

A circuit is given by what it patches: edges, whose readers see the patch instead of what the node writes, or
nodes, whose output is replaced as a whole. This module decides how many circuits and examples go through the
network at once, at which layer they start and which nodes need not be computed.

Shapes: D d_model, V outputs, T positions, W nodes (writers), R readers, K circuits, B examples.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch

from interpbench.circuits.graph import Graph
from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.fast.circuits import Circuits
from interpbench.transformer.fast.frozen_run import frozen_run
from interpbench.transformer.model import Transformer
from interpbench.transformer.tensors import EdgeMasks, GroupedLogits, NodeMasks, Residual, WriterOutputs

NUMBERS_PER_CALL = 1 << 23
"""The number of entries that the inputs of one layer's heads may have in one call; more leave the cache."""
LEAST_ROWS = 256
"""The smallest number of rows that go through a network in one call, however large it is."""


@runtime_checkable
class CleanRun(Protocol):
    """The activations of a run without patches."""

    @property
    def stack(self) -> WriterOutputs:
        """What every node wrote, `[W, D, T, B]`."""
        ...

    @property
    def residuals(self) -> Sequence[Residual]:
        """The residual stream `[D, T, B]` before each layer."""
        ...


class SingleEdges:
    """Circuits that patch one edge each; their masks are made when they are needed.

    Args:
        graph: the network's graph.
        edges: `[K, 2]`, the indices of each edge's reader and node.
    """

    def __init__(self, graph: Graph, edges: np.ndarray):
        self.graph, self.edges = graph, edges

    def __len__(self) -> int:
        return len(self.edges)

    def __getitem__(self, some: slice) -> np.ndarray:
        chosen = self.edges[some]
        masks = np.zeros((len(chosen), *self.graph.legal.shape), bool)
        masks[np.arange(len(chosen)), chosen[:, 0], chosen[:, 1]] = True
        return masks


class CircuitLogits(NamedTuple):
    """Logits of some circuits on some examples.

    Attributes:
        circuits: which of all circuits these are.
        examples: which of all examples these are.
        logits: `[V, T, circuit, example]`.
    """

    circuits: slice
    examples: slice
    logits: GroupedLogits


def rows_per_call(cfg: TransformerConfig) -> int:
    """Returns how many rows go through a network of this size in one call."""
    return max(LEAST_ROWS, NUMBERS_PER_CALL // (cfg.d_model * cfg.n_ctx * 3 * cfg.n_heads))


def run_circuits(
    network: Transformer,
    clean: CleanRun,
    patch: WriterOutputs,
    edges: EdgeMasks | SingleEdges | None = None,
    nodes: NodeMasks | None = None,
    whole: bool = False,
) -> Iterator[CircuitLogits]:
    """Runs every circuit on every example, computing only what can differ from the clean run.

    What is computed depends on the circuits of a call, and so does the order in which sums are rounded.

    Args:
        network: the network.
        clean: its clean run on the examples.
        patch: `[W, D, T, B]`, the values that are patched in.
        edges: `[K, R, W]` bool, the edges that each circuit patches; or give `nodes`.
        nodes: `[K, W]` bool, the nodes that each circuit patches; or give `edges`.
        whole: whether to compute everything, so that a circuit's logits are bit-identical whatever other
            circuits are run with it.

    Yields:
        The logits of some circuits at a time, in order, on all examples if these fit into a call.

    Raises:
        TypeError: if the network has a module of another class, such as those of `backward_rules`, or hooks.
        ValueError: if both edges and nodes are given, or neither.
    """
    given = edges if edges is not None else nodes
    if given is None or (edges is not None and nodes is not None):
        raise ValueError("circuits patch either edges or nodes; give one of the two")
    count, examples = len(given), patch.shape[-1]
    rows = rows_per_call(network.cfg)
    for circuits in _slices(count, max(1, rows // examples)):
        chosen = given[circuits]
        start, live = (0, None) if whole else computed(network.cfg.graph, chosen, edges is not None)
        masks, replaced = (chosen, None) if edges is not None else (None, chosen)
        for part in _slices(examples, rows):
            every = part.stop - part.start == examples
            with torch.no_grad():  # not around a yield, after which it would hold for the caller
                stack, given_patch, stream = (
                    x if every else x[..., part] for x in (clean.stack, patch, clean.residuals[start])
                )
                ran = Circuits(masks, given_patch, stack, start, replaced, live)
                logits = frozen_run(network, stream, ran)
            yield CircuitLogits(circuits, part, logits)


def computed(graph: Graph, chosen: np.ndarray, by_edge: bool) -> tuple[int, list[bool]]:
    """Returns what has to be computed for some circuits.

    Args:
        graph: the network's graph.
        chosen: `[K, R, W]` or `[K, W]` bool, the patched edges or nodes.
        by_edge: whether `chosen` are edges.

    Returns:
        The first layer that any circuit changes, and for each node whether it has to be computed: its output
        may differ from the clean run, is not patched in all circuits, and is seen by some reader.
    """
    layers = np.array([node.layer for node in graph.nodes])
    steps = 2 * layers + np.array([node.head is None for node in graph.nodes])  # a layer's heads, its MLP
    if not by_edge:
        first = steps[chosen.any(0)].min(initial=2 * graph.n_layers)
        return max(0, int(first) // 2), (steps > first).tolist()
    reads = np.zeros(len(graph.nodes), bool)  # whether a node sees a patch at any of its inputs
    reads[1:] = graph.merge(np.any(chosen, axis=(0, 2)), False)[:-1]
    first = steps[reads].min(initial=2 * graph.n_layers)
    seen = (graph.legal & ~chosen).any((0, 1))
    return int(first) // 2, ((reads | (steps > first)) & seen).tolist()


def _slices(count: int, each: int) -> Iterator[slice]:
    return (slice(first, min(first + each, count)) for first in range(0, count, each))
