"""The peers of a circuit: other copies of it among bystanders, of which any might have been the circuit."""

import numpy as np

from interpbench.alignment.alignment import align
from interpbench.alignment.structure import structural_reads
from interpbench.causal.model import CausalModel, Read
from interpbench.circuits.ground_truth import Truth
from interpbench.circuits.naming import EMBED
from interpbench.core.errors import TaskError
from interpbench.tasks.regimes.bystanders import base_name, copies_of
from interpbench.tasks.task import Task


def copies_of_circuit(task: Task, truth: Truth) -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns the nodes and q/k/v edges of each copy of the output and of what it reads, the circuit first.

    Which copy is the circuit was drawn last, uniformly, and training treats all alike but for the
    unembedding, which reads one of them. So edges into the logits are left out, and so is what leads to no
    copy of the output. What the program does not need is left out of all copies.

    Args:
        task: a task among bystanders, such as `hist[regime=alive]`.
        truth: the truth of its network.

    Returns:
        bool `[W]` (nodes) and `[R, W]` (readers and nodes) of each copy.

    Raises:
        TaskError: if the task has no bystanders.
    """
    if task.crowd is None:
        raise TaskError(f"task {task.name} has no copies of its circuit; regime=alive makes them")
    graph, model = truth.graph, task.crowd.causal_model
    alignment = align(task.crowd, graph)
    reads = structural_reads(alignment)
    ends = copies_of(task.causal_model.output, model.variables)
    closures = [_closure(model, end) for end in sorted(ends, key=lambda end: end != task.causal_model.output)]
    needed = {
        _base(key)
        for place, keys in reads.items()
        for key in keys
        if truth.circuit[place] and key[0] in closures[0]
    }
    found: list[tuple[np.ndarray, np.ndarray]] = []
    for closure in closures:
        nodes, edges = np.zeros(len(graph.nodes), bool), np.zeros(truth.circuit.shape, bool)
        for place, keys in reads.items():
            for key in keys:
                if key[0] in closure and _base(key) in needed:
                    edges[place] = nodes[graph.node_index[alignment.nodes[key[0]]]] = nodes[place[1]] = True
        nodes[graph.node_index[EMBED]] = False
        found.append((nodes, edges))
    return found


def _closure(model: CausalModel, end: str) -> set[str]:
    """Returns a variable and all that it reads, directly or not."""
    found, left = set[str](), [end]
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += [read.parent for read in model.variables[name].reads]
    return found


def _base(key: tuple[str, Read]) -> tuple[str, str, str | None]:
    """Returns of which read of the program a read is a copy: child, parent and slot."""
    child, read = key
    return base_name(child), base_name(read.parent), read.slot
