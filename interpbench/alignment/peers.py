"""The peers of a circuit: nodes and edges that compute copies of the output, among bystanders."""

import numpy as np

from interpbench.alignment.alignment import align
from interpbench.alignment.structure import structural_reads
from interpbench.circuits.graph import Graph
from interpbench.core.errors import TaskError
from interpbench.tasks.regimes.bystanders import copies_of
from interpbench.tasks.task import Task


def peers(task: Task, graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """Returns which nodes and q/k/v edges compute the output or a copy of it.

    Training treats all copies alike but for the unembedding, which reads one of them. So edges into the
    logits are left out, and so is all that leads to no copy of the output.

    Args:
        task: a task among bystanders, such as `hist[regime=alive]`.
        graph: the graph of its network.

    Returns:
        bool `[W]` (nodes) and `[R, W]` (readers and nodes).

    Raises:
        TaskError: if the task has no bystanders.
    """
    if task.crowd is None:
        raise TaskError(f"task {task.name} has no copies of its circuit; regime=alive makes them")
    alignment, variables = align(task.crowd, graph), task.crowd.causal_model.variables
    found, left = set[str](), copies_of(task.causal_model.output, variables)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += [read.parent for read in variables[name].reads]
    nodes, edges = np.zeros(len(graph.nodes), bool), np.zeros((len(graph.readers), len(graph.nodes)), bool)
    nodes[[graph.node_index[alignment.nodes[name]] for name in sorted(found)]] = True
    for place, reads in structural_reads(alignment).items():
        edges[place] = any(child in found for child, _ in reads)
    return nodes, edges
