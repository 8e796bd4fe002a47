"""The graph of a transformer: its writers, its readers, and which edges exist.

Order of writers: embedding, then for each layer its heads and its MLP. Order of readers: for each
layer the q inputs of all heads, the k inputs, the v inputs, the MLP input; the logits last.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from interpbench.circuits.naming import EMBED, SLOTS, Edge, Node, Reader


@dataclass(frozen=True)
class Graph:
    """Every writer, reader and legal edge of a transformer with `n_layers` × `n_heads` heads."""

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
        """The position of each node."""
        return {node: index for index, node in enumerate(self.nodes)}

    @cached_property
    def reader_index(self) -> dict[Reader, int]:
        """The position of each reader."""
        return {reader: index for index, reader in enumerate(self.readers)}

    @cached_property
    def reader_destination(self) -> np.ndarray:
        """`[reader]`: the index of each reader's destination."""
        place = {name: index for index, name in enumerate(self.destinations)}
        return np.array([place[reader.destination] for reader in self.readers])

    def writers_before(self, reader: Reader) -> int:
        """Returns how many writers (a prefix of `nodes`) `reader` can read."""
        before = 1 + reader.layer * (self.n_heads + 1)
        return before + (self.n_heads if reader.slot == "mlp" else 0)

    def readers_of_layer(self, layer: int) -> slice:
        """Returns the q, k and v readers of one layer."""
        first = layer * (3 * self.n_heads + 1)
        return slice(first, first + 3 * self.n_heads)

    @cached_property
    def legal(self) -> np.ndarray:
        """`[reader, writer]` bool: the edges that exist."""
        counts = np.array([self.writers_before(reader) for reader in self.readers])
        return np.arange(len(self.nodes))[None] < counts[:, None]

    @cached_property
    def legal_head_edges(self) -> np.ndarray:
        """`[destination, writer]` bool: the edges that exist when q, k and v are merged."""
        return self.merge(self.legal, False)

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        """All legal edges, by reader, then by writer."""
        return tuple(Edge(self.nodes[w], self.readers[r]) for r, w in np.argwhere(self.legal))

    def merge(self, per_reader: np.ndarray, empty: float | bool) -> np.ndarray:
        """Takes the maximum over q, k and v: `[reader, ...]` to `[destination, ...]`."""
        merged = np.full((len(self.destinations), *per_reader.shape[1:]), empty, per_reader.dtype)
        np.maximum.at(merged, self.reader_destination, per_reader)
        return merged
