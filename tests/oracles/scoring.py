"""Scores of rankings and circuits as literal loops. No shared code but the transformer's own oracle."""

from itertools import pairwise, product

import numpy as np
import torch

from tests.oracles.transformer import run


def measure(made, circuit):
    """The logit of the clean answer minus the corrupted one's, for each pair, edges outside patched."""
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


def paths(graph, circuit):
    """The edges on a path from the embedding to the logits, by walking all paths."""
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
    """The exact two-sided p-value by trying every sign."""
    differences = [d for d in differences if d]
    sizes = [abs(d) for d in differences]
    ranks = [np.mean([i + 1 for i, x in enumerate(sorted(sizes)) if x == size]) for size in sizes]
    observed = sum(rank for rank, d in zip(ranks, differences) if d > 0)
    sums = [sum(r for r, s in zip(ranks, signs) if s) for signs in product((0, 1), repeat=len(ranks))]
    tail = min(np.mean([s <= observed for s in sums]), np.mean([s >= observed for s in sums]))
    return min(1.0, 2 * tail)


def mib_auroc(graph, circuit, scores, shares):
    """MIB's number without ties: each step looks at all edges, and loose ends are what is on no path."""
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
