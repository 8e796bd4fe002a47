"""The graph of a transformer: its writers (nodes), its readers, and the edges between them.

Writers are in the order embedding, then for each layer its heads and its MLP. Readers are in the order: for
each layer the q inputs of all heads, the k inputs, the v inputs, the MLP input; the logits last. An edge is
*legal* (it exists) if its writer comes before its reader in the network.

Letters of shapes: W writers, R readers, D destinations (readers, with q, k and v of a head merged).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from interpbench.circuits.naming import EMBED, SLOTS, Edge, Node, Reader


@dataclass(frozen=True)
class Graph:
    """All writers, readers and edges of a transformer.

    Attributes:
        n_layers: the number of layers.
        n_heads: the number of heads in each layer.
    """

    n_layers: int
    n_heads: int

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """The writers, in order."""
        heads = range(self.n_heads)
        layers = range(self.n_layers)
        return (EMBED, *(n for x in layers for n in (*(Node(x, head) for head in heads), Node(x))))

    @cached_property
    def readers(self) -> tuple[Reader, ...]:
        """The readers, in order."""
        readers: list[Reader] = []
        for layer in range(self.n_layers):
            readers += [Reader(layer, slot, head) for slot in SLOTS for head in range(self.n_heads)]
            readers.append(Reader(layer, "mlp"))
        return (*readers, Reader(self.n_layers, "logits"))

    @cached_property
    def destinations(self) -> tuple[str, ...]:
        """The names of the readers with q, k and v merged, in order."""
        return tuple(dict.fromkeys(reader.destination for reader in self.readers))

    @cached_property
    def node_index(self) -> dict[Node, int]:
        """The index of each writer in `nodes`."""
        return {node: index for index, node in enumerate(self.nodes)}

    @cached_property
    def reader_index(self) -> dict[Reader, int]:
        """The index of each reader in `readers`."""
        return {reader: index for index, reader in enumerate(self.readers)}

    @cached_property
    def reader_destination(self) -> np.ndarray:
        """The index of each reader's destination in `destinations`, `[R]`."""
        place = {name: index for index, name in enumerate(self.destinations)}
        return np.array([place[reader.destination] for reader in self.readers])

    def writers_before(self, reader: Reader) -> int:
        """Returns how many writers, the first ones of `nodes`, a reader reads."""
        before = 1 + reader.layer * (self.n_heads + 1)
        return before + (self.n_heads if reader.slot == "mlp" else 0)

    def readers_of_layer(self, layer: int) -> slice:
        """Returns the indices of a layer's q, k and v readers; its MLP's reader is the next one."""
        first = layer * (3 * self.n_heads + 1)
        return slice(first, first + 3 * self.n_heads)

    @cached_property
    def legal(self) -> np.ndarray:
        """Which edges exist, bool `[R, W]`."""
        counts = np.array([self.writers_before(reader) for reader in self.readers])
        return np.arange(len(self.nodes))[None] < counts[:, None]

    @cached_property
    def legal_head_edges(self) -> np.ndarray:
        """Which head edges exist (q, k and v merged), bool `[D, W]`."""
        return self.merge(self.legal, False)

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        """All edges, sorted by reader, then by writer."""
        return tuple(Edge(self.nodes[w], self.readers[r]) for r, w in np.argwhere(self.legal))

    def merge(self, per_reader: np.ndarray, empty: float | bool) -> np.ndarray:
        """Merges the q, k and v readers of each head by taking the maximum.

        Args:
            per_reader: the values of readers, `[R, ...]`.
            empty: the value to start from, below all others.

        Returns:
            The values of destinations, `[D, ...]`.
        """
        merged = np.full((len(self.destinations), *per_reader.shape[1:]), empty, per_reader.dtype)
        np.maximum.at(merged, self.reader_destination, per_reader)
        return merged
