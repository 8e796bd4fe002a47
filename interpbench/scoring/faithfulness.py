"""The faithfulness curve with MIB's two areas (Mueller et al. 2025, section 3.2), and completeness.

The faithfulness of a circuit C of the network M is f(C) = (m(C) − m(∅)) / (m(M) − m(∅)), where m is a mean
over pairs of inputs (see `behaviour`). It is computed for circuits of ten sizes. CPR is the area under f, and
CMD the area under |1 − f|, with straight lines between the sizes, from 0.1 % of the edges to all edges.
Intervals are those of a bootstrap of pairs.

Letters of shapes: B pairs of inputs, K circuits.
"""

from itertools import product

import numpy as np

from interpbench.circuits.scores import Scores
from interpbench.scoring.behaviour import SMALLEST_GAP, Behaviour, circuit_nodes
from interpbench.scoring.circuits_from_scores import SIZES, best_edges, connected, ties_at
from interpbench.scoring.intervals import bootstrap, percentiles, resampling
from interpbench.scoring.results import Completeness, Faithfulness

TIE_BREAKS = 4
"""The number of random orders over which f is averaged if equal scores leave a choice between edges."""
MOST_NODES = 6
"""The largest number of nodes of which every subset is knocked out; of more nodes, random subsets are."""
KNOCK_OUTS = 2**MOST_NODES
"""The number of random subsets of nodes that are knocked out."""


def faithfulness(behaviour: Behaviour, scores: Scores) -> Faithfulness:
    """Returns the faithfulness curve of the circuits that scores define, and its areas, with intervals."""
    graph, edges = behaviour.graph, int(behaviour.graph.legal.sum())
    counts = [int(share * edges + 1e-9) for share in SIZES]
    circuits = [
        best_edges(graph, scores.edges, count, behaviour.generator("ties", draw))
        for count in counts
        for draw in range(TIE_BREAKS if ties_at(graph, scores.edges, count) else 1)
    ]
    place = np.repeat(
        range(len(counts)), [TIE_BREAKS if ties_at(graph, scores.edges, c) else 1 for c in counts]
    )
    pruned = [connected(graph, circuit) for circuit in circuits]
    averaged = (place == np.arange(len(counts))[:, None]) / np.bincount(place)[:, None]
    values = averaged @ behaviour.measure(pruned)
    kept = averaged @ np.array([circuit.sum() / edges for circuit in pruned])
    curve, drawn = _normalised(behaviour, values), _normalised(behaviour, values, resampled=True)
    ends = [percentiles(x) for x in drawn.T]
    return Faithfulness(
        sizes=SIZES,
        connected=tuple(kept.tolist()),
        curve=tuple(curve[0].tolist()),
        curve_low=tuple(low for low, _ in ends),
        curve_high=tuple(high for _, high in ends),
        cpr=bootstrap(_area(curve)[0], _area(drawn)),
        cmd=bootstrap(_area(abs(1 - curve))[0], _area(abs(1 - drawn))),
    )


def completeness(behaviour: Behaviour, circuit: np.ndarray) -> Completeness:
    """Returns the completeness of a circuit (Wang et al. 2023, section 4).

    Subsets of the circuit's nodes are knocked out of the circuit, and out of the whole network. Knocking out
    a node means to patch all its outgoing edges with its output on the corrupted input.

    Args:
        behaviour: runs the circuits.
        circuit: the edges in the circuit, bool `[reader, writer]`.
    """
    nodes = circuit_nodes(behaviour.graph, circuit)
    if len(nodes) <= MOST_NODES:
        knocked = np.array(list(product((False, True), repeat=len(nodes))), bool).reshape(
            2 ** len(nodes), len(nodes)
        )
    else:
        knocked = behaviour.generator("knock-outs").random((KNOCK_OUTS, len(nodes))) < 0.5
    sets = {bytes(row): row for row in knocked}
    for place in range(len(nodes)):  # each subset is needed with and without each node
        for value in (False, True):
            changed = knocked.copy()
            changed[:, place] = value
            sets.update({bytes(row): row for row in changed})
    every = np.stack(list(sets.values()))

    def without(base: np.ndarray) -> list[np.ndarray]:
        circuits = np.repeat(base[None], len(every), 0)
        for column, node in enumerate(nodes):
            circuits[every[:, column], :, node] = False
        return list(circuits)

    def where(rows: np.ndarray) -> list[int]:
        return [list(sets).index(bytes(row)) for row in rows]

    inside, whole = behaviour.measure(without(circuit)), behaviour.measure(without(behaviour.graph.legal))
    numbers: list[list[np.ndarray]] = []
    for resampled in (False, True):
        f = _normalised(behaviour, inside, resampled)
        gaps = abs(f - _normalised(behaviour, whole, resampled))[:, where(knocked)]
        effects: list[np.ndarray] = []
        for place in range(len(nodes)):
            out, kept = knocked.copy(), knocked.copy()
            out[:, place], kept[:, place] = True, False
            effects.append(abs(f[:, where(kept)] - f[:, where(out)]).max(1))
        least = np.min(effects, axis=0) if effects else np.zeros(len(f))
        numbers.append([gaps.max(1), gaps.mean(1), least])
    found = [bootstrap(one[0], drawn) for one, drawn in zip(*numbers)]
    return Completeness(len(nodes), len(knocked), *found)


def _normalised(behaviour: Behaviour, values: np.ndarray, resampled: bool = False) -> np.ndarray:
    """Returns the faithfulness f of circuits, `[1, K]`, from their measure m, `[K, B]`.

    With `resampled` it is `[draw, K]`, one row for each bootstrap sample of the pairs.
    """
    count = values.shape[1]
    weights = resampling(count, "pairs") / count if resampled else np.full((1, count), 1 / count)
    full, empty = weights @ behaviour.full, weights @ behaviour.empty
    gap = np.where(abs(full - empty) > SMALLEST_GAP, full - empty, np.nan)
    return (weights @ values.T - empty[:, None]) / gap[:, None]


def _area(curves: np.ndarray) -> np.ndarray:
    """Returns the area under each curve (row), from the first size to the last."""
    return (np.diff(SIZES) * (curves[:, 1:] + curves[:, :-1]) / 2).sum(1)
