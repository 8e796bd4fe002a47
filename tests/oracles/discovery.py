"""Discovery methods as literal loops over rows, positions and edges."""

import numpy as np
import torch

from tests.oracles.transformer import run


def _biases(network, writers):
    """Returns the sum of the attention biases that are in the residual stream after these writers."""
    mlps = [name for name in writers if name.startswith("m")]
    return sum((network.blocks[int(name[1:])].attn.b_O for name in mlps), torch.tensor(0.0))


def importance(made):
    """Returns the importance of each edge in information flow routes, `[reader, writer]`."""
    graph, network = made.graph, made.network
    names = [str(node) for node in graph.nodes]
    total, count = np.zeros(graph.legal.shape), np.zeros(len(graph.readers))
    with torch.no_grad():
        for b, row in enumerate(made.clean.tolist()):
            _, outputs = run(network, row)
            for r, reader in enumerate(graph.readers):
                writers = names[: graph.writers_before(reader)]
                for t in range(len(row)):
                    if reader.slot == "logits" and not made.scored[t, b]:
                        continue
                    seen = sum(outputs[w][t] for w in writers) + _biases(network, writers)
                    if reader.slot == "mlp":
                        seen = seen + network.blocks[reader.layer].attn.b_O
                    near = [
                        max(0.0, float(seen.abs().sum() - (seen - outputs[w][t]).abs().sum()))
                        for w in writers
                    ]
                    count[r] += 1
                    if sum(near):
                        total[r, : len(writers)] += np.array(near) / sum(near)
    return np.where(graph.legal, total / count[:, None], np.nan)


def routes(graph, scores, threshold):
    """Returns the edges that are reached from the logits through edges that score at least `threshold`."""
    names = [str(node) for node in graph.nodes]
    kept, waiting, done = np.zeros(graph.legal.shape, bool), ["logits"], set()
    while waiting:
        target = waiting.pop()
        done.add(target)
        for r, reader in enumerate(graph.readers):
            for w, name in enumerate(names):
                if reader.destination == target and graph.legal[r, w] and scores[r, w] >= threshold:
                    kept[r, w] = True
                    if name not in done:
                        waiting.append(name)
    return kept


def path_effect(made, metric, r, w, frozen):
    """Returns the change of a metric when the paths from writer `w` to reader `r` are patched.

    Args:
        made: the discovery problem.
        metric: a function of logits.
        r: the index of the reader.
        w: the index of the writer.
        frozen: `all` if every other node keeps its clean output, so that only the direct edge is patched;
            else only heads keep theirs.
    """
    graph, network = made.graph, made.network
    names, reader = [str(node) for node in graph.nodes], graph.readers[r]
    held = [name for name in names if frozen == "all" or not name.startswith("m")]
    rows, plain = [], []
    with torch.no_grad():
        for clean, corrupted in zip(made.clean.tolist(), made.corrupted.tolist()):
            logits, outputs = run(network, clean)
            plain.append(torch.stack(logits))
            patch = {**outputs, names[w]: run(network, corrupted)[1][names[w]]}
            _, between = run(network, clean, (), {*held, names[w]}, patch)
            edges = {(name, str(reader)) for name in names[: graph.writers_before(reader)]}
            rows.append(torch.stack(run(network, clean, edges, (), between)[0]))
        values = [metric(torch.stack(some).permute(2, 1, 0)).mean() for some in (rows, plain)]
    return float(values[0] - values[1])
