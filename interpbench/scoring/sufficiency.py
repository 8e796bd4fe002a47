"""Whether the circuit of the true size is sufficient and minimal, which methods aim for differently.

A method that keeps what is needed together (ACDC, learned masks) may return a sufficient circuit that is not
complete: where copies of a variable vote, it leaves out those without which the vote is the same. A method
that ranks by effects may hold every copy and miss an edge without which the answer is wrong.
"""

import numpy as np

from interpbench.circuits.ground_truth import State, Truth
from interpbench.circuits.order_arrays import orders_of
from interpbench.core.estimate import Estimate
from interpbench.scoring.behaviour import Behaviour
from interpbench.scoring.results import Sufficiency


def sufficiency(behaviour: Behaviour, truth: Truth, circuit: np.ndarray, tolerance: float) -> Sufficiency:
    """Returns whether a circuit is complete, gives the network's answers, and which of its edges that takes.

    Args:
        behaviour: runs the circuits.
        truth: the ground truth.
        circuit: the edges in the circuit, bool `[reader, writer]`.
        tolerance: how far numerical outputs may be from the network's.
    """
    edges = np.argwhere(circuit)
    circuits = np.repeat(circuit[None], len(edges) + 1, 0)
    circuits[np.arange(1, len(circuits)), *edges.T] = False
    whole, *without = behaviour.answers(list(circuits), tolerance)
    lost = [bool((whole & ~some).any()) for some in without]
    return Sufficiency(
        len(edges),
        held(truth, circuit),
        Estimate.share(int(whole.sum()), len(whole)),
        sum(lost) / len(lost) if whole.any() and lost else None,
    )


def held(truth: Truth, circuit: np.ndarray) -> float:
    """Returns the share of required edges, of any order, that a circuit has.

    Of the free edges of a required head edge, any one will do.

    Args:
        truth: the ground truth.
        circuit: the edges in the circuit, bool `[reader, writer]`.
    """
    required = orders_of(truth, "qkv_edge") >= 0
    free = truth.qkv_edges == State.FREE
    heads = truth.graph.merge(free, False) & (truth.head_edges == State.REQUIRED)
    found = int((circuit & required).sum()) + int((heads & truth.graph.merge(circuit & free, False)).sum())
    total = int(required.sum()) + int(heads.sum())
    return found / total if total else 1.0
