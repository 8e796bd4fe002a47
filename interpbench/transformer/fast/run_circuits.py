"""Many circuits of a trained network on the same examples: one call for discovery, scoring, certificates.

A circuit is what is patched in it: edges, whose readers see a patch instead of what the writer writes, or
nodes, whose output is replaced as a whole. How many circuits and examples go through the network at once, at
which layer they start and which writers need not be computed is decided here.

Shapes as in `model.py`; K circuits, B examples.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from interpbench.circuits.graph import Graph
from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.fast.circuits import Circuits
from interpbench.transformer.fast.frozen_run import frozen_run
from interpbench.transformer.model import Transformer

NUMBERS_PER_CALL = 1 << 23
"""About how many numbers the inputs of one layer's heads have in one call; more leave the cache."""
LEAST_ROWS = 256
"""Rows that go through the network in one call, however large it is."""


class CleanRun(Protocol):
    """A run without patches: what writers wrote `[W, D, T, B]`, and the residual stream before each layer."""

    @property
    def stack(self) -> Tensor: ...  # noqa: D102
    @property
    def residuals(self) -> Sequence[Tensor]: ...  # noqa: D102


class SingleEdges:
    """Circuits that patch one edge each, as masks that are made when they are asked for.

    Args:
        graph: the network's.
        edges: `[K, 2]`, the reader and the writer of each.
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
    """Logits `[V, T, K', B']` of some circuits on some examples."""

    circuits: slice
    examples: slice
    logits: Tensor


def rows_per_call(cfg: TransformerConfig) -> int:
    """Returns about how many rows go through a network in one call."""
    return max(LEAST_ROWS, NUMBERS_PER_CALL // (cfg.d_model * cfg.n_ctx * 3 * cfg.n_heads))


@torch.no_grad()
def run_circuits(
    network: Transformer,
    clean: CleanRun,
    patch: Tensor,
    edges: np.ndarray | SingleEdges | None = None,
    nodes: np.ndarray | None = None,
    whole: bool = False,
) -> Iterator[CircuitLogits]:
    """Runs every circuit on every example, computing only what can differ from the clean run.

    Sums are rounded in another order where less is computed, which depends on the circuits of a call.

    Args:
        network: a network without parts of one's own.
        clean: its run on the examples.
        patch: `[W, D, T, B]`, what is patched in.
        edges: `[K, R, W]` bool, the edges that each circuit patches, or
        nodes: `[K, W]` bool, the nodes that each replaces.
        whole: compute everything, so that a circuit's logits are the same whatever others are run with it.

    Yields:
        The logits, circuits in their order, each with all examples where these fit into a call.

    Raises:
        TypeError: for a network with a part that has no fast way, or with hooks.
        ValueError: for edges and nodes at once, or neither.
    """
    given = edges if edges is not None else nodes
    if given is None or (edges is not None and nodes is not None):
        raise ValueError("circuits patch either edges or nodes; give one of the two")
    count, examples = len(given), patch.shape[-1]
    rows = rows_per_call(network.cfg)
    for circuits in _slices(count, max(1, rows // examples)):
        chosen = given[circuits]
        start, live = (0, None) if whole else computed(network.cfg.graph, chosen, edges is not None)
        some = torch.from_numpy(np.ascontiguousarray(chosen)).to(patch.device)
        masks, replaced = (some.to(patch.dtype), None) if edges is not None else (None, some)
        for part in _slices(examples, rows):
            every = part.stop - part.start == examples
            stack, given_patch, stream = (
                x if every else x[..., part] for x in (clean.stack, patch, clean.residuals[start])
            )
            ran = Circuits(masks, given_patch, stack, start, replaced, live)
            yield CircuitLogits(circuits, part, frozen_run(network, stream, ran))


def computed(graph: Graph, chosen: np.ndarray, by_edge: bool) -> tuple[int, list[bool]]:
    """Returns what has to be computed for some circuits.

    Args:
        graph: the network's.
        chosen: `[K, R, W]` or `[K, W]` bool, the patched edges or nodes.
        by_edge: which of the two.

    Returns:
        The first layer that any of them changes, and for each writer whether it has to be computed: what it
        writes may differ from the clean run, is not only replaced, and is seen by someone.
    """
    layers = np.array([node.layer for node in graph.nodes])
    steps = 2 * layers + np.array([node.head is None for node in graph.nodes])  # a layer's heads, its MLP
    if not by_edge:
        first = steps[chosen.any(0)].min(initial=2 * graph.n_layers)
        return max(0, int(first) // 2), (steps > first).tolist()
    reads = np.zeros(len(graph.nodes), bool)  # a patch, at some input
    reads[1:] = graph.merge(np.any(chosen, axis=(0, 2)), False)[:-1]
    first = steps[reads].min(initial=2 * graph.n_layers)
    seen = (graph.legal & ~chosen).any((0, 1))
    return int(first) // 2, ((reads | (steps > first)) & seen).tolist()


def _slices(count: int, each: int) -> Iterator[slice]:
    return (slice(first, min(first + each, count)) for first in range(0, count, each))
