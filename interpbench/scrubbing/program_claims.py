"""The hypotheses that follow from a program: its variables are the claims, their nodes the images.

There are six levels, from the weakest to the strongest claim: four about whole nodes, one about each node at
each position (`positions`), and one also about the positions that heads attend to (`sources`).
"""

from typing import Literal

import numpy as np

from interpbench.alignment.alignment import Alignment
from interpbench.causal.model import Trace
from interpbench.circuits.graph import Graph
from interpbench.circuits.naming import EMBED, Node, Reader
from interpbench.scrubbing.hypothesis import Hypothesis, NodeClaim
from interpbench.scrubbing.residual import LOGITS

ProgramLevel = Literal["merged", "split", "merged features", "features"]
"""`merged`: which nodes read which. `split`: also through which inputs heads read. `merged features`: which
nodes read which, and of which variables their outputs are functions. `features`: all of this."""
PROGRAM_LEVELS: tuple[ProgramLevel, ...] = ("merged", "split", "merged features", "features")


def structure_hypothesis(graph: Graph, circuit: np.ndarray, split: bool) -> Hypothesis:
    """Returns the hypothesis that a circuit does the task, whatever its nodes compute.

    Args:
        graph: the network's graph.
        circuit: the edges of the circuit, bool `[R, W]`.
        split: whether heads read only through the inputs that the circuit says.
    """
    return _hypothesis(graph, circuit, split, {})


def program_hypothesis(
    alignment: Alignment, circuit: np.ndarray, trace: Trace, level: ProgramLevel
) -> Hypothesis:
    """Returns the hypothesis that a network does what a program does.

    Args:
        alignment: the nodes of the program's variables.
        circuit: the edges of the circuit, bool `[R, W]`.
        trace: the program's variables on the inputs, `[N, pos]` each.
        level: how much is claimed.
    """
    values: dict[Node, np.ndarray] = {}
    if level.endswith("features"):
        for node, names in alignment.aligned_nodes.items():
            values[node] = np.concatenate([trace[name].astype(np.float64) for name in names], 1)
    split = level in ("split", "features")
    return _hypothesis(alignment.graph, circuit, split, values)


def position_values(alignment: Alignment, trace: Trace) -> dict[str, np.ndarray]:
    """Returns the values of each node's variables at each position, `[N, pos, variable]`, by the node's name.

    Args:
        alignment: the nodes of the program's variables.
        trace: the program's variables on the inputs, `[N, pos]` each.
    """
    nodes = {EMBED: ("tokens",), **alignment.aligned_nodes}
    return {
        str(node): np.stack([trace[name].astype(np.float64) for name in names], 2)
        for node, names in nodes.items()
    }


def attended_sources(alignment: Alignment, trace: Trace) -> dict[str, np.ndarray]:
    """Returns the positions from which a head's queries need values, bool `[Q, T, N]`, by its input's name.

    They are those that the head's variables attend to, and BOS. Heads of which the program does not say where
    they attend are left out.

    Args:
        alignment: the nodes of the program's variables.
        trace: the program's variables on the inputs, `[N, pos]` each.
    """
    model, found = alignment.task.causal_model, dict[str, np.ndarray]()
    for node, names in alignment.aligned_nodes.items():
        if node.head is None or any(model.variables[name].attends is None for name in names):
            continue
        attended = np.any([model.attended(name, trace) for name in names], axis=0).transpose(1, 2, 0)
        queries, keys, count = attended.shape
        table = np.ones((queries + 1, keys + 1, count), bool)
        table[1:, 1:] = attended
        found[str(Reader(node.layer, "v", node.head))] = table
    return found


def _hypothesis(graph: Graph, circuit: np.ndarray, split: bool, values: dict[Node, np.ndarray]) -> Hypothesis:
    """Returns the hypothesis of a circuit's edges.

    Args:
        graph: the network's graph.
        circuit: the edges of the circuit, bool `[R, W]`.
        split: whether the inputs of heads are claims.
        values: the values of nodes on each input; all others may be functions of all of the input.
    """
    embed = str(EMBED)
    edges: dict[tuple[str, str], None] = {}
    inside = {LOGITS}
    for reader, writer in reversed(np.argwhere(circuit).tolist()):  # later readers first
        end, node = graph.readers[reader], graph.nodes[writer]
        child = str(end) if split and end.head is not None else end.destination
        owner = end.destination
        if owner in inside:
            inside.add(str(node))
            edges[str(node), child] = None
            if child != owner:
                edges[child, owner] = None
    images = {embed, *inside, *(child for _, child in edges)}
    known = {str(node): found for node, found in values.items()}
    claims = {image: NodeClaim(image, known.get(image)) for image in sorted(images)}
    return Hypothesis(claims, tuple(edges), embed, LOGITS)
