"""The structure of a circuit: its edges, each with what of the program it stands for, and pairs of inputs."""

import numpy as np

from interpbench.alignment.alignment import Alignment
from interpbench.causal.model import Read
from interpbench.circuits.naming import EMBED, Node, Reader
from interpbench.core import seeds
from interpbench.tasks.task import Task


def structural_edges(alignment: Alignment) -> dict[tuple[Reader, Node], list[tuple[str, Read]]]:
    """Returns the edges of the circuit, each with the reads of variables (child, read) that use it."""
    edges: dict[tuple[Reader, Node], list[tuple[str, Read]]] = {}
    for name, variable in alignment.task.causal_model.variables.items():
        for read in variable.reads:
            for reader in alignment.readers(name, read):
                edges.setdefault((reader, alignment.nodes[read.parent]), []).append((name, read))
    return edges | {edge: [] for edge in ends_of(alignment)}


def ends_of(alignment: Alignment) -> dict[tuple[Reader, Node], Node]:
    """Returns edges that are no variable's read, each with the node whose patch acts like the edge's.

    These are the edges into relay nodes, and from the node of the output (and those of other ends) to the
    logits.
    """
    into = {(Reader(node.layer, "mlp"), EMBED): node for node in alignment.relay_nodes}
    ends = [alignment.nodes[name] for name in alignment.task.causal_model.ends]
    return {**into, **{(alignment.logits, node): node for node in ends}}


def structural_ends(alignment: Alignment) -> dict[tuple[int, int], Node]:
    """Returns `ends_of` by the indices (reader, node) of the edges."""
    graph = alignment.graph
    ends = ends_of(alignment).items()
    return {(graph.reader_index[reader], graph.node_index[node]): end for (reader, node), end in ends}


def structural_reads(alignment: Alignment) -> dict[tuple[int, int], list[tuple[str, Read]]]:
    """Returns the circuit's edges by their indices (reader, node), with their reads (child, read)."""
    graph = alignment.graph
    return {
        (graph.reader_index[reader], graph.node_index[node]): reads
        for (reader, node), reads in structural_edges(alignment).items()
    }


def draw_pairs_of(task: Task, pairs: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the pairs of inputs on which truth is found, bases and sources `[pair, pos]`.

    These are all pairs if there are few, and else so many that are always the same.

    Args:
        task: the task.
        pairs: the number of pairs that are drawn; up to four times as many are enumerated.
    """
    domain, rng = task.domain, seeds.generator(0, "truth", task.name)
    if domain.size**2 <= pairs * 4:
        everything = domain.all()
        return everything.repeat(len(everything), 0), np.tile(everything, (len(everything), 1))
    base = domain.eventful(rng, domain.draw(rng, pairs))
    return base, domain.sources(rng, base)
