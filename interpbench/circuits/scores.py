"""What a discovery method returns: one finite number for each legal edge (and node)."""

from dataclasses import dataclass, field

import numpy as np

from interpbench.circuits.graph import Graph
from interpbench.circuits.ground_truth import Level
from interpbench.circuits.naming import Node


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


def edges_from_nodes(graph: Graph, nodes: np.ndarray) -> np.ndarray:
    """Returns `[R, W]`: a node method's scores of edges, NaN where there is no edge.

    An edge is in the circuit that some nodes span when both its ends are: it scores the lesser of the two.
    The logits are in every circuit.
    """
    ends = [graph.node_index.get(Node(reader.layer, reader.head)) for reader in graph.readers]
    own = np.array([np.inf if end is None else nodes[end] for end in ends])
    return np.where(graph.legal, np.minimum(own[:, None], nodes[None]), np.nan)
