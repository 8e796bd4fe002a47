"""One step of uniform gradient sampling as literal loops over rows and edges (Li & Janson 2024)."""

import math

import torch

from tests.oracles.transformer import run


def _edges(graph):
    """Returns the names of writer, reader and the reader's node of each edge, in the graph's order."""
    return [
        (str(graph.nodes[w]), str(reader), reader.destination)
        for r, reader in enumerate(graph.readers)
        for w in range(len(graph.nodes))
        if graph.legal[r, w]
    ]


def _on_a_path(edges, masks):
    """Returns which edges are on a path from the embedding to the logits, along edges with a mask above 0."""
    open_ones = [edge for edge, mask in zip(edges, masks) if mask > 0]

    def reached(node):
        return node == "embed" or any(end == node and reached(start) for start, _, end in open_ones)

    def leads(node):
        return node == "logits" or any(start == node and leads(end) for start, _, end in open_ones)

    return [mask > 0 and reached(edge[0]) and leads(edge[2]) for edge, mask in zip(edges, masks)]


def gradients(made, theta, uniform, rows, constants, penalty, clip):
    """Returns the clipped gradients by θ of each of the E edges, and the gradients by each writer's constant.

    Args:
        made: the problem, scored at one position of each example.
        theta: the parameters θ of the edges, `[E]`.
        uniform: the uniform random numbers of the N sampled masks, `[N, E]`.
        rows: the index of the example on which each mask is run, `[N]`.
        constants: for each writer's name, the constant vector by which it is ablated.
        penalty: the weight λ of the penalties.
        clip: the largest norm of the gradients in each group of edges.
    """
    network, graph = made.network, made.graph
    edges, count = _edges(graph), len(rows)
    probability = [1 / (1 + math.exp(-value)) for value in theta.tolist()]
    learned = {name: value.clone().requires_grad_() for name, value in constants.items()}
    by_mask = [[0.0] * len(edges) for _ in range(count)]
    inside = [[False] * len(edges) for _ in range(count)]
    total = 0
    leaves = []
    for n, row in enumerate(rows):
        tokens, at = made.clean[row].tolist(), int(made.scored[:, row].int().argmax())
        logits, clean = run(network, tokens)
        drawn = []
        for e, p in enumerate(probability):
            mask = min(1.0, max(0.0, (p - float(uniform[n, e])) / (p * (1 - p)) + 0.5))
            inside[n][e] = 1e-3 < mask < 1 - 1e-3
            drawn.append(mask)
        useful = _on_a_path(edges, drawn)
        masks = [
            torch.tensor(mask if use else 0.0, dtype=torch.float64, requires_grad=True)
            for mask, use in zip(drawn, useful)
        ]
        patch = {name: [clean[name][0], *([value] * (len(tokens) - 1))] for name, value in learned.items()}

        def blend(mask):
            def seen(own, other):
                constant = other if mask.item() < 1e-3 else other.detach()
                return mask * own + (1 - mask) * constant

            return seen

        mixed = {edge[:2]: blend(mask) for edge, mask in zip(edges, masks)}
        found = run(network, tokens, patch=patch, mixed=mixed, first=True)[0][at].log_softmax(0)
        wanted = logits[at].log_softmax(0)
        total = total + (wanted.exp() * (wanted - found)).sum() / count
        leaves.append((masks, useful))
    total.backward()
    for n, (masks, useful) in enumerate(leaves):
        for e, (mask, use) in enumerate(zip(masks, useful)):
            by_mask[n][e] = float(mask.grad) if use and inside[n][e] else 0.0
    slopes = []
    for e in range(len(edges)):
        within = sum(inside[n][e] for n in range(count))
        slope = count * sum(by_mask[n][e] for n in range(count)) / within if within else 0.0
        slopes.append(slope * probability[e] * (1 - probability[e]))
    more = _penalties(graph, edges, probability, penalty)
    result = _clipped(graph, edges, [a + b for a, b in zip(slopes, more)], clip)
    return result, {name: value.grad for name, value in learned.items()}


def _heads(graph):
    return [str(node) for node in graph.nodes if node.head is not None]


def _penalties(graph, edges, probability, penalty):
    """Returns the gradients by θ of λ Σ π, and of the penalty on heads."""
    heads = _heads(graph)
    half = len(heads) / 2
    found = []
    for (start, _, end), own in zip(edges, probability):
        slope = penalty
        for head in heads:
            touching = sum(p for p, (a, _, b) in zip(probability, edges) if head in (a, b))
            if head in (start, end):
                slope += min(penalty / 2, 2e-4) * (1 - math.tanh(touching / half) ** 2)
        found.append(slope * own * (1 - own))
    return found


def _clipped(graph, edges, slopes, clip):
    """Returns the gradients clipped in each of four groups of edges: from heads or not, into heads or not."""
    heads, result, groups = _heads(graph), list(slopes), {}
    for e, (start, _, end) in enumerate(edges):
        groups.setdefault((start in heads, end in heads), []).append(e)
    for members in groups.values():
        norm = math.sqrt(sum(slopes[e] ** 2 for e in members))
        for e in members:
            result[e] *= min(1.0, clip / (norm + 1e-6))
    return result
