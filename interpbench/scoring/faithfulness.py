"""The faithfulness curve with MIB's two areas (Mueller et al. 2025, section 3.2), and completeness.

f(C) = (m(C) − m(∅)) / (m(M) − m(∅)), means over pairs, for the circuits of the ten sizes. CPR is the area
under f, CMD that under |1 − f|, by straight lines from 0.1 % of the edges to all. Intervals: bootstrap of
pairs.
"""

from itertools import product

import numpy as np

from interpbench.circuits.scores import Scores
from interpbench.scoring.behaviour import SMALLEST_GAP, Behaviour, circuit_nodes
from interpbench.scoring.circuits_from_scores import SIZES, best_edges, connected, ties_at
from interpbench.scoring.intervals import bootstrap, percentiles, resampling
from interpbench.scoring.results import Completeness, Faithfulness

TIE_BREAKS = 4
"""Random orders of ties, where a size cuts through some; their f is averaged."""
MOST_NODES = 6
"""Up to so many nodes, every set of them is knocked out; of more, random sets."""
KNOCK_OUTS = 2**MOST_NODES


def faithfulness(behaviour: Behaviour, scores: Scores) -> Faithfulness:
    """Returns the curve and its areas, with intervals."""
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
    """Knocks sets of a circuit's nodes out of the circuit and of the network (Wang et al. 2023, section 4).

    A node is knocked out when everyone who reads it sees its corrupted output.
    """
    nodes = circuit_nodes(behaviour.graph, circuit)
    if len(nodes) <= MOST_NODES:
        knocked = np.array(list(product((False, True), repeat=len(nodes))), bool).reshape(
            2 ** len(nodes), len(nodes)
        )
    else:
        knocked = behaviour.generator("knock-outs").random((KNOCK_OUTS, len(nodes))) < 0.5
    sets = {bytes(row): row for row in knocked}
    for place in range(len(nodes)):  # each set with and without each node
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
    """Returns f of circuits from their m `[K, B]`: `[1, K]`, or `[draw, K]` of a bootstrap of pairs."""
    count = values.shape[1]
    weights = resampling(count, "pairs") / count if resampled else np.full((1, count), 1 / count)
    full, empty = weights @ behaviour.full, weights @ behaviour.empty
    gap = np.where(abs(full - empty) > SMALLEST_GAP, full - empty, np.nan)
    return (weights @ values.T - empty[:, None]) / gap[:, None]


def _area(curves: np.ndarray) -> np.ndarray:
    """Returns the area under each row, from the first size to the last."""
    return (np.diff(SIZES) * (curves[:, 1:] + curves[:, :-1]) / 2).sum(1)
