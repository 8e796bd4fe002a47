"""ACDC as literal loops: one edge and one example at a time, each by a full forward pass."""

import torch

from tests.oracles import transformer


def kl(model, problem, removed, clean_outputs, patches):
    """Returns the mean KL divergence from the clean output to the output with `removed` edges patched.

    Args:
        model: the network.
        problem: the discovery problem.
        removed: set of (writer name, reader name).
        clean_outputs: for each example, the logits at each position.
        patches: for each example, the writers' outputs on the corrupted input.
    """
    total = 0.0
    for b in range(len(problem.clean)):
        logits, _ = transformer.run(model, problem.clean[b].tolist(), removed, (), patches[b])
        values = []
        for t in range(len(logits)):
            if problem.scored[t, b]:
                if model.cfg.d_out == 1:
                    values.append(((logits[t] - clean_outputs[b][t]) ** 2)[0])
                else:
                    clean = clean_outputs[b][t].log_softmax(0)
                    values.append((clean.exp() * (clean - logits[t].log_softmax(0))).sum())
        total += float(sum(values)) / max(1, len(values))
    return total / len(problem.clean)


def acdc(problem, threshold):
    """Returns the edges of the circuit, (writer name, reader name), and the number of forward passes."""
    model, graph = problem.network, problem.graph
    with torch.no_grad():
        clean = [transformer.run(model, row.tolist())[0] for row in problem.clean]
        patches = [transformer.run(model, row.tolist())[1] for row in problem.corrupted]
        removed, passes = set(), 0
        current = kl(model, problem, removed, clean, patches)
        edges = [(str(edge.source), str(edge.target)) for edge in graph.edges]
        for reader in reversed([str(reader) for reader in graph.readers]):
            incoming = [edge for edge in reversed(edges) if edge[1] == reader]
            node = reader.split("<")[0]
            if node != "logits" and all(edge in removed for edge in edges if edge[0] == node):
                removed |= set(incoming)
                continue
            for edge in incoming:
                value = kl(model, problem, removed | {edge}, clean, patches)
                passes += 1
                if value - current < threshold:
                    removed.add(edge)
                    current = value
    return {edge for edge in edges if edge not in removed}, passes
