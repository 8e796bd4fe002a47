"""What a discovery method returns: one finite number for each legal edge (and node)."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from interpbench.circuits.graph import Graph
from interpbench.circuits.ground_truth import Level, level_names
from interpbench.circuits.naming import Node
from interpbench.core.shown_values import data_frame


@dataclass
class Cost:
    """What a method spent: calls of the model and examples that went through them.

    An example that starts at a later layer counts as one.
    """

    forward_calls: int = 0
    forward_examples: int = 0
    backward_calls: int = 0
    backward_examples: int = 0

    def count(self, examples: int, backward: bool = False) -> None:
        """Adds one call with that many examples, and its backward pass."""
        self.forward_calls += 1
        self.forward_examples += examples
        self.backward_calls += backward
        self.backward_examples += examples * backward


@dataclass(frozen=True)
class Scores:
    """Scores of edges `[reader, writer]`, larger meaning more important, NaN where no edge exists.

    A head edge scores the maximum of its q, k and v edges; a node, unless the method gives node
    scores of its own, the maximum of its outgoing edges: it is in every circuit that one of them is in.
    """

    graph: Graph
    edges: np.ndarray
    own_nodes: np.ndarray | None = None
    cost: Cost = field(default_factory=Cost)
    circuits: dict[float, np.ndarray] = field(default_factory=dict[float, np.ndarray])
    """For methods that return circuits: threshold to bool `[reader, writer]`."""

    def __post_init__(self) -> None:
        legal = self.graph.legal
        for name, values in (("edges", self.edges), ("own_nodes", self.own_nodes)):
            if values is not None and not isinstance(values, np.ndarray):  # pyright: ignore
                raise ValueError(f"{name} is a {type(values).__name__}, not a numpy array")
        if self.edges.shape != legal.shape:
            raise ValueError(f"scores have shape {self.edges.shape}, the graph {legal.shape}")
        if not np.isfinite(self.edges[legal]).all() or np.isfinite(self.edges[~legal]).any():
            raise ValueError("scores must be finite on every legal edge and NaN elsewhere")
        if self.own_nodes is not None:
            if self.own_nodes.shape != (len(self.graph.nodes),):
                raise ValueError(f"{len(self.graph.nodes)} nodes have scores of shape {self.own_nodes.shape}")
            if not np.isfinite(self.own_nodes).all():
                raise ValueError("scores of nodes must be finite")

    def at(self, level: Level) -> np.ndarray:
        """Returns the scores of one level, NaN where nothing is to be scored."""
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
        """Returns the best-scored nodes or edges with their scores, the highest first.

        Args:
            count: how many, at most; ties keep the order of the graph.
            level: whether nodes, head edges or q/k/v edges.
        """
        names, values = self._named(level)
        return [(names[place], float(values[place])) for place in np.argsort(-values, kind="stable")[:count]]

    def to_pandas(self, level: Level = "qkv_edge") -> Any:
        """Returns a `pandas.DataFrame` of a level: the name and the score of each node or edge, best first.

        Raises:
            ImportError: if pandas is not installed.
        """
        ranked = self.top(self.edges.size, level)
        return data_frame({"name": [name for name, _ in ranked], "score": [score for _, score in ranked]})

    def _named(self, level: Level) -> tuple[list[str], np.ndarray]:
        """Returns the names of what is scored at a level, and the scores."""
        values = self.at(level)
        return level_names(self.graph, level, ~np.isnan(values)), values[~np.isnan(values)]


def edges_from_nodes(graph: Graph, nodes: np.ndarray) -> np.ndarray:
    """Returns `[R, W]`: a node method's scores of edges, NaN where there is no edge.

    An edge is in the circuit that some nodes span when both its ends are: it scores the lesser of the two.
    The logits are in every circuit.
    """
    ends = [graph.node_index.get(Node(reader.layer, reader.head)) for reader in graph.readers]
    own = np.array([np.inf if end is None else nodes[end] for end in ends])
    return np.where(graph.legal, np.minimum(own[:, None], nodes[None]), np.nan)
