"""Scores of rankings and circuits as literal loops, which use no code of the project."""

from itertools import combinations, pairwise, permutations, product

import numpy as np
import torch

from tests.oracles.transformer import run


def measure(made, circuit):
    """Returns a circuit's logit difference (clean answer minus corrupted answer) for each pair of inputs."""
    graph, network = made.graph, made.network
    removed = {(str(graph.nodes[w]), str(graph.readers[r])) for r, w in np.argwhere(graph.legal & ~circuit)}
    values = []
    with torch.no_grad():
        for b, (clean, corrupted) in enumerate(zip(made.clean.tolist(), made.corrupted.tolist())):
            full, _ = run(network, clean)
            empty, patch = run(network, corrupted)
            kept, _ = run(network, clean, removed, (), patch)
            at = [t for t in range(len(clean)) if made.scored[t, b]]
            answers = [(int(full[t].argmax()), int(empty[t].argmax())) for t in at]
            values.append(np.mean([float(kept[t][a] - kept[t][c]) for t, (a, c) in zip(at, answers)]))
    return np.array(values)


def answers(made, circuit, tolerance):
    """Returns for each pair whether a circuit gives the network's answer at every scored position."""
    graph, network = made.graph, made.network
    removed = {(str(graph.nodes[w]), str(graph.readers[r])) for r, w in np.argwhere(graph.legal & ~circuit)}
    same = []
    with torch.no_grad():
        for b, (clean, corrupted) in enumerate(zip(made.clean.tolist(), made.corrupted.tolist())):
            full, _ = run(network, clean)
            kept, _ = run(network, clean, removed, (), run(network, corrupted)[1])
            at = [t for t in range(len(clean)) if made.scored[t, b]]
            if len(full[0]) == 1:
                same.append(all(abs(float(kept[t][0] - full[t][0])) <= tolerance for t in at))
            else:
                same.append(all(int(kept[t].argmax()) == int(full[t].argmax()) for t in at))
    return np.array(same)


def paths(graph, circuit):
    """Returns the edges of a circuit on a path from the embedding to the logits, by walking all paths."""
    kept = np.zeros_like(circuit)

    def walk(node, trail):
        for r, w in np.argwhere(circuit):
            if w != node:
                continue
            reader = graph.readers[r]
            if reader.slot == "logits":
                for edge in [*trail, (r, w)]:
                    kept[edge] = True
            else:
                walk([str(n) for n in graph.nodes].index(reader.destination), [*trail, (r, w)])

    walk(0, [])
    return kept


def signed_rank(differences):
    """Returns the exact two-sided p-value of the signed-rank test, by trying every choice of signs."""
    differences = [d for d in differences if d]
    sizes = [abs(d) for d in differences]
    ranks = [np.mean([i + 1 for i, x in enumerate(sorted(sizes)) if x == size]) for size in sizes]
    observed = sum(rank for rank, d in zip(ranks, differences) if d > 0)
    sums = [sum(r for r, s in zip(ranks, signs) if s) for signs in product((0, 1), repeat=len(ranks))]
    tail = min(np.mean([s <= observed for s in sums]), np.mean([s >= observed for s in sums]))
    return min(1.0, 2 * tail)


def mib_auroc(graph, circuit, scores, shares):
    """Returns MIB's AUROC of scores without ties, looking at all edges in each step of the greedy search."""
    edges = [tuple(place) for place in np.argwhere(graph.legal)]
    points = []
    for share in shares:
        kept, reached, left = np.zeros_like(circuit), {"logits"}, share * len(edges)
        while left > 0:
            left -= 1
            beside = [e for e in edges if not kept[e] and graph.readers[e[0]].destination in reached]
            best = max(beside, key=lambda edge: scores[edge])
            kept[best] = True
            reached.add(str(graph.nodes[best[1]]))
        kept = paths(graph, kept)
        hits = sum(circuit[e] for e in edges if kept[e])
        wrong = sum(not circuit[e] for e in edges if kept[e])
        positives = sum(circuit[e] for e in edges)
        points.append((wrong / (len(edges) - positives), hits / positives))
    return sum((x1 - x0) * (y0 + y1) / 2 for (x0, y0), (x1, y1) in pairwise(points))


# Metrics of rankings. `truth` is 1 for required items and 0 for forbidden ones; larger scores rank higher.


def auroc(truth, scores):
    """Returns the share of pairs whose required item ranks above the forbidden one; ties count half."""
    items = list(zip(truth, scores))
    pairs = [(x, y) for (a, x), (b, y) in product(items, items) if a and not b]
    return sum(1.0 if x > y else 0.5 if x == y else 0.0 for x, y in pairs) / len(pairs)


def average_precision(truth, scores):
    """Returns the sum of the precisions at all thresholds, each weighted by the recall that it adds."""
    total, recall = 0.0, 0.0
    for cut in sorted(set(scores), reverse=True):
        taken = [a for a, x in zip(truth, scores) if x >= cut]
        found = sum(taken) / sum(truth)
        total, recall = total + (found - recall) * sum(taken) / len(taken), found
    return total


def precision_at_size(truth, scores):
    """Returns the precision of the best items, as many as are required, as a mean over all orders of ties."""
    size = sum(truth)
    orders = [sorted(order, key=lambda item: -item[1]) for order in permutations(zip(truth, scores))]
    return float(np.mean([sum(a for a, _ in order[:size]) / size for order in orders]))


def best_f1(truth, scores):
    """Returns the largest harmonic mean of precision and recall over all thresholds."""
    found = []
    for cut in scores:
        taken = [a for a, x in zip(truth, scores) if x >= cut]
        precision, recall = sum(taken) / len(taken), sum(taken) / sum(truth)
        found.append(2 * precision * recall / (precision + recall) if sum(taken) else 0.0)
    return max(found)


def staircase(truth, scores):
    """Returns the mean share of forbidden items below a required item; ties count as above it."""
    forbidden = [x for a, x in zip(truth, scores) if not a]
    shares = [sum(y < x for y in forbidden) / len(forbidden) for a, x in zip(truth, scores) if a]
    return sum(shares) / len(shares)


RANKING = {
    one.__name__: one for one in (auroc, average_precision, precision_at_size, best_f1, staircase, mib_auroc)
}
"""The oracles of the metrics of rankings, by the metrics' names."""


# The behaviour of circuits: areas under curves, and knocked-out sets of nodes.


def cpr(curve, sizes):
    return sum((b - a) * (x + y) / 2 for a, b, x, y in zip(sizes, sizes[1:], curve, curve[1:]))


def cmd(curve, sizes):
    return cpr([abs(1 - x) for x in curve], sizes)


def without(measured, circuit, writers):
    """Returns the measure of a circuit from which all edges out of some writers are removed."""
    changed = circuit.copy()
    changed[:, list(writers)] = False
    return measured(changed)


def gap(measured, circuit, whole, sets):
    """Returns the largest difference of a circuit and the network with one of `sets` knocked out of both."""
    return max(abs(without(measured, circuit, out) - without(measured, whole, out)) for out in sets)


def least_effect(measured, circuit, sets, nodes):
    """Returns the smallest effect of a node, which is the largest change by knocking it out besides a set."""
    return min(
        max(
            abs(without(measured, circuit, out) - without(measured, circuit, (*out, node)))
            for out in sets
            if node not in out
        )
        for node in nodes
    )


# Stability: each run is a list of scores of the same items, no two of which are equal.


def jaccard(runs, size):
    """Returns the mean, over pairs of runs, of the Jaccard index of their `size` best items."""
    tops = [set(sorted(range(len(run)), key=lambda place: -run[place])[:size]) for run in runs]
    return float(np.mean([len(a & b) / len(a | b) for a, b in combinations(tops, 2)]))


def rank_correlation(runs):
    """Returns the mean, over pairs of runs, of 1 - 6 Σ d² / (n³ - n), where d are differences of ranks."""
    ranks = [[sum(other < value for other in run) for value in run] for run in runs]
    n = len(runs[0])
    found = [1 - 6 * sum((x - y) ** 2 for x, y in zip(a, b)) / (n**3 - n) for a, b in combinations(ranks, 2)]
    return float(np.mean(found))


def auroc_deviation(truth, runs):
    """Returns the sample standard deviation of the AUROC of the runs."""
    values = [auroc(truth, run) for run in runs]
    mean = sum(values) / len(values)
    return (sum((value - mean) ** 2 for value in values) / (len(values) - 1)) ** 0.5


def recovered(scrubbed, network, shuffled):
    """Returns the percentage of the loss that is recovered, given the losses of samples, three lists."""
    lost, least, most = (sum(losses) / len(losses) for losses in (scrubbed, network, shuffled))
    return 100 * (lost - most) / (least - most)


ROW = {
    one.__name__: one
    for one in (cpr, cmd, recovered, gap, least_effect, jaccard, rank_correlation, auroc_deviation)
} | {"jaccard_over_seeds": jaccard}
"""The oracles of the other metrics of methods, by the metrics' names."""
