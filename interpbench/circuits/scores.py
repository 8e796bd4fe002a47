"""The scores that a discovery method returns: a finite number for each edge, and perhaps for each node.

Letters of shapes: W writers (nodes), R readers.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from interpbench.circuits.graph import Graph
from interpbench.circuits.ground_truth import Level, level_names
from interpbench.circuits.naming import Node, edge_name
from interpbench.core.shown_values import data_frame


@dataclass
class Cost:
    """The cost of a method: calls of the network, and the number of examples in these calls.

    An example counts as one even if only the later layers are run on it.

    Attributes:
        forward_calls: the number of forward passes.
        forward_examples: the number of examples in forward passes.
        backward_calls: the number of backward passes.
        backward_examples: the number of examples in backward passes.
    """

    forward_calls: int = 0
    forward_examples: int = 0
    backward_calls: int = 0
    backward_examples: int = 0

    def count(self, examples: int, backward: bool = False) -> None:
        """Adds a forward pass with this many examples, and a backward pass if `backward`."""
        self.forward_calls += 1
        self.forward_examples += examples
        self.backward_calls += backward
        self.backward_examples += examples * backward


@dataclass(frozen=True)
class Scores:
    """The scores of a network's edges and nodes; larger means more important.

    A head edge has the maximum of the scores of its q, k and v edges. A node that the method does not score
    itself has the maximum of its outgoing edges, as it is in every circuit that one of them is in.

    Attributes:
        graph: the network's graph.
        edges: the scores of edges, `[R, W]`, NaN where the graph has no edge.
        own_nodes: the scores of nodes, `[W]`, if the method scores nodes itself; else None.
        cost: the cost of the method.
        circuits: the circuits of a method that returns circuits: from a threshold (or penalty, or target
            sparsity) to the edges of its circuit, bool `[R, W]`.

    Raises:
        ValueError: if scores have the wrong shape, or are not finite where they should be.
    """

    graph: Graph
    edges: np.ndarray
    own_nodes: np.ndarray | None = None
    cost: Cost = field(default_factory=Cost)
    circuits: dict[float, np.ndarray] = field(default_factory=dict[float, np.ndarray])

    def __post_init__(self) -> None:
        legal = self.graph.legal
        for name, values in (("edges", self.edges), ("own_nodes", self.own_nodes)):
            if values is not None and not isinstance(values, np.ndarray):  # pyright: ignore
                raise ValueError(f"{name} is a {type(values).__name__}, not a numpy array")
        if self.edges.shape != legal.shape:
            raise ValueError(
                f"the scores of edges have shape {self.edges.shape}; this graph needs {legal.shape}"
            )
        wrong = np.isfinite(self.edges) != legal
        if wrong.any():
            reader, writer = np.argwhere(wrong)[0]
            name = edge_name(self.graph.nodes[writer], self.graph.readers[reader])
            raise ValueError(
                f"the score of {name} is {self.edges[reader, writer]}; scores of edges must be finite where "
                "graph.legal is true, and NaN elsewhere"
            )
        if self.own_nodes is not None:
            if self.own_nodes.shape != (len(self.graph.nodes),):
                needed = (len(self.graph.nodes),)
                raise ValueError(
                    f"the scores of nodes have shape {self.own_nodes.shape}; this graph needs {needed}"
                )
            if not np.isfinite(self.own_nodes).all():
                node = self.graph.nodes[np.flatnonzero(~np.isfinite(self.own_nodes))[0]]
                raise ValueError(f"the score of {node} is not finite; scores of nodes must be finite numbers")

    def at(self, level: Level) -> np.ndarray:
        """Returns the scores at one level of detail; NaN where the graph has no edge."""
        if level == "qkv_edge":
            return self.edges
        if level == "head_edge":
            merged = self.graph.merge(np.nan_to_num(self.edges, nan=-np.inf), -np.inf)
            return np.where(self.graph.legal_head_edges, merged, np.nan)
        return self.own_nodes if self.own_nodes is not None else np.nanmax(self.edges, axis=0)

    def __repr__(self) -> str:
        lines = [f"  {score:.4g}  {name}" for name, score in self.top(5)]
        more = len(self.graph.edges) - len(lines)
        rest = [f"  and {more:,} more; top(n) and to_pandas() have them"] if more > 0 else []
        return "\n".join(
            [f"Scores of {len(self.graph.edges):,} q/k/v edges, the highest first", *lines, *rest]
        )

    def top(self, count: int = 10, level: Level = "qkv_edge") -> list[tuple[str, float]]:
        """Returns the nodes or edges with the highest scores, with their scores, the highest first.

        Args:
            count: the largest number of them; those with equal scores are in the order of the graph.
            level: the level of detail: nodes, head edges or q/k/v edges.
        """
        names, values = self._named(level)
        return [(names[place], float(values[place])) for place in np.argsort(-values, kind="stable")[:count]]

    def to_pandas(self, level: Level = "qkv_edge") -> Any:
        """Returns a `pandas.DataFrame` with the name and the score of each node or edge, the highest first.

        Raises:
            ImportError: if pandas is not installed.
        """
        ranked = self.top(self.edges.size, level)
        return data_frame({"name": [name for name, _ in ranked], "score": [score for _, score in ranked]})

    def _named(self, level: Level) -> tuple[list[str], np.ndarray]:
        """Returns the names of the nodes or edges at a level of detail, and their scores."""
        values = self.at(level)
        return level_names(self.graph, level, ~np.isnan(values)), values[~np.isnan(values)]


def edges_from_nodes(graph: Graph, nodes: np.ndarray) -> np.ndarray:
    """Returns scores of edges, given scores of nodes: the lower one of an edge's two nodes.

    So an edge ranks as the smallest circuit that holds both its nodes. The logits are in every circuit.

    Args:
        graph: the network's graph.
        nodes: the scores of nodes, `[W]`.

    Returns:
        The scores of edges, `[R, W]`, NaN where the graph has no edge.
    """
    ends = [graph.node_index.get(Node(reader.layer, reader.head)) for reader in graph.readers]
    own = np.array([np.inf if end is None else nodes[end] for end in ends])
    return np.where(graph.legal, np.minimum(own[:, None], nodes[None]), np.nan)
