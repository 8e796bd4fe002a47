"""The vocabulary of circuits: nodes, readers, edges, their names, graphs, truth, scores."""

from interpbench.circuits.graph import Graph
from interpbench.circuits.ground_truth import LEVELS, Level, State, Truth
from interpbench.circuits.naming import EMBED, Edge, Node, Reader
from interpbench.circuits.scores import Scores

__all__ = ["EMBED", "LEVELS", "Edge", "Graph", "Level", "Node", "Reader", "Scores", "State", "Truth"]
