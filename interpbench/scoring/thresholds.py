"""How well thresholds are set that do not know the truth: by the method itself, or by what its circuit does.

A ranking says which edges come first, not where to stop. Scores of circuits of the true size, and AUROC,
leave that open; whoever reads a network of unknown circuit has to decide it.

Letters of shapes: R readers, W writers (nodes), E edges.
"""

import numpy as np

from interpbench.circuits.ground_truth import State, Truth
from interpbench.circuits.scores import Scores
from interpbench.scoring.behaviour import Behaviour
from interpbench.scoring.circuits_from_scores import first_edges
from interpbench.scoring.results import Chosen
from interpbench.scoring.sufficiency import held

GROWTH = 1.25
"""The ratio of the sizes that are tried before the search goes on between two of them."""


def chosen(truth: Truth, circuit: np.ndarray) -> Chosen:
    """Returns the size of a circuit, and how much of it is right.

    The free edges of a required head edge count as one, as they do in the true size (`true_size`).

    Args:
        truth: the ground truth.
        circuit: the edges in the circuit, bool `[R, W]`.
    """
    right = int((circuit & truth.circuit).sum())
    wrong = int((circuit & (truth.qkv_edges == State.FORBIDDEN)).sum())
    precision = right / (right + wrong) if right + wrong else None
    free = circuit & (truth.qkv_edges == State.FREE)
    size = int((circuit & ~free).sum()) + int(truth.graph.merge(free, False).sum())
    return Chosen(size, precision, held(truth, circuit))


def own_circuits(truth: Truth, scores: Scores) -> dict[str, Chosen]:
    """Returns the circuits that a method itself returns, by its threshold; few methods return any.

    Args:
        truth: the ground truth.
        scores: what the method returned.
    """
    return {f"{threshold:.12g}": chosen(truth, each) for threshold, each in sorted(scores.circuits.items())}


def smallest_right(behaviour: Behaviour, order: np.ndarray, tolerance: float) -> int:
    """Returns how many of the best edges it takes to give the network's answers to all pairs.

    Sizes are tried that grow by a quarter; between the first that will do and the one before, the size is
    found by bisection. Where adding an edge can spoil answers, a smaller circuit may do as well.

    Args:
        behaviour: runs the circuits.
        order: all edges from the best to the worst, as reader and writer, `[E, 2]`.
        tolerance: how far numerical outputs may be from the network's.
    """

    def right(sizes: list[int]) -> list[bool]:
        circuits = [first_edges(behaviour.graph, order, size) for size in sizes]
        return [bool(each.all()) for each in behaviour.answers(circuits, tolerance)]

    sizes = [0]
    while sizes[-1] < len(order):
        sizes.append(min(len(order), max(sizes[-1] + 1, int(sizes[-1] * GROWTH))))
    high = [*right(sizes[:-1]), True].index(True)  # all edges together are the network
    if not high:
        return 0
    low, size = sizes[high - 1], sizes[high]
    while size - low > 1:
        middle = (low + size) // 2
        low, size = (low, middle) if right([middle])[0] else (middle, size)
    return size
