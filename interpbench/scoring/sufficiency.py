"""Whether the circuit of the true size is sufficient and minimal, which methods aim for differently.

A method that keeps what is needed together (ACDC, learned masks) may return a sufficient circuit that is not
complete: where copies of a variable vote, it leaves out those without which the vote is the same. A method
that ranks by effects may hold every copy and miss an edge without which the answer is wrong.
"""

import numpy as np

from interpbench.core.estimate import Estimate
from interpbench.scoring.behaviour import Behaviour
from interpbench.scoring.results import Sufficiency


def sufficiency(behaviour: Behaviour, circuit: np.ndarray, tolerance: float) -> Sufficiency:
    """Returns whether a circuit gives the network's answers, and which of its edges that takes.

    Args:
        behaviour: runs the circuits.
        circuit: the edges in the circuit, bool `[reader, writer]`.
        tolerance: how far numerical outputs may be from the network's.
    """
    edges = np.argwhere(circuit)
    circuits = np.repeat(circuit[None], len(edges) + 1, 0)
    circuits[np.arange(1, len(circuits)), *edges.T] = False
    whole, *without = behaviour.answers(list(circuits), tolerance)
    needed = [bool((whole & ~some).any()) for some in without]
    return Sufficiency(
        len(edges),
        Estimate.share(int(whole.sum()), len(whole)),
        sum(needed) / len(needed) if needed else 0.0,
    )
