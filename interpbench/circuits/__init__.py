"""Circuits as values: nodes, readers, edges and their names; graphs, ground truth, scores, certificates."""

from typing import TYPE_CHECKING

from interpbench.core.exports import exports

if TYPE_CHECKING:
    from interpbench.circuits.certificate import Certificate, Rate
    from interpbench.circuits.grades import GRADES, Grade, Standard, Verdict, grade
    from interpbench.circuits.graph import Graph
    from interpbench.circuits.ground_truth import LEVELS, Level, State, Truth
    from interpbench.circuits.io.score_files import read_scores, write_scores
    from interpbench.circuits.naming import EMBED, Edge, Node, Reader, parse_edges, parse_node
    from interpbench.circuits.scores import Cost, Scores

__all__ = [
    "EMBED",
    "GRADES",
    "LEVELS",
    "Certificate",
    "Cost",
    "Edge",
    "Grade",
    "Graph",
    "Level",
    "Node",
    "Rate",
    "Reader",
    "Scores",
    "Standard",
    "State",
    "Truth",
    "Verdict",
    "grade",
    "parse_edges",
    "parse_node",
    "read_scores",
    "write_scores",
]

__getattr__, __dir__ = exports(
    __name__,
    {
        **dict.fromkeys(("Certificate", "Rate"), "interpbench.circuits.certificate"),
        **dict.fromkeys(("GRADES", "Grade", "Standard", "Verdict", "grade"), "interpbench.circuits.grades"),
        "Graph": "interpbench.circuits.graph",
        **dict.fromkeys(("LEVELS", "Level", "State", "Truth"), "interpbench.circuits.ground_truth"),
        **dict.fromkeys(("read_scores", "write_scores"), "interpbench.circuits.io.score_files"),
        **dict.fromkeys(
            ("EMBED", "Edge", "Node", "Reader", "parse_edges", "parse_node"), "interpbench.circuits.naming"
        ),
        **dict.fromkeys(("Cost", "Scores"), "interpbench.circuits.scores"),
    },
)
