"""Contextual decomposition as literal loops: one row, one position, one head; pairs (relevant, rest)."""

import torch

from tests.oracles.transformer import _activate, _norm, run

TOLERANCE = 1e-8


def _linear(pair, weight, bias):
    ours, rest = pair[0] @ weight, pair[1] @ weight
    total = ours.abs() + rest.abs() + TOLERANCE
    return ours + bias * ours.abs() / total, rest + bias * (1 - ours.abs() / total)


def _normed(model, name, pair):
    cfg = model.cfg
    if cfg.normalization is None:
        return pair
    whole = pair[0] + pair[1]
    scale = torch.sqrt(((whole - whole.mean()) ** 2).mean() + cfg.eps)
    state = dict(model.named_parameters())
    ours = (pair[0] - pair[0].mean()) / scale * state[f"{name}.w"]
    ours = ours + state[f"{name}.b"] * pair[0].abs() / (pair[0].abs() + pair[1].abs() + TOLERANCE)
    return ours, _norm(model, name, whole) - ours


def _settle(pair):
    ours, rest = pair[0].clone(), pair[1].clone()
    for i in range(len(ours)):
        if ours[i] * rest[i] < 0:
            winner = 0 if abs(ours[i]) >= abs(rest[i]) else 1
            whole = ours[i] + rest[i]
            ours[i], rest[i] = (whole, 0 * whole) if winner == 0 else (0 * whole, whole)
    return ours, rest


def _one_row(made, clean, corrupted, readers, writer):
    model, graph = made.network, made.graph
    p, cfg, length = dict(model.named_parameters()), model.cfg, len(clean)
    name = str(graph.nodes[writer])
    _, outputs = run(model, clean)
    source = [a - b for a, b in zip(outputs[name], run(model, corrupted)[1][name])]
    seen_by = {str(graph.readers[r]) for r in readers}
    relevant = [torch.zeros_like(x) for x in source]
    whole = [x.clone() for x in outputs["embed"]]

    def pair(reader, t):
        ours = relevant[t] + (source[t] if reader in seen_by else 0)
        return ours, whole[t] - ours

    for layer in range(cfg.n_layers):
        a, m = f"blocks.{layer}.attn.", f"blocks.{layer}.mlp."
        added = [torch.zeros_like(x) for x in source]
        for head in range(cfg.n_heads):
            totals = [_norm(model, f"blocks.{layer}.ln1", x) for x in whole]
            q, k = ([x @ p[f"{a}W_{s}"][head] + p[f"{a}b_{s}"][head] for x in totals] for s in "QK")
            reader = f"a{layer}.h{head}<v>"
            values = [
                _linear(
                    _normed(model, f"blocks.{layer}.ln1", pair(reader, t)),
                    p[f"{a}W_V"][head],
                    p[f"{a}b_V"][head],
                )[0]
                for t in range(length)
            ]
            for t in range(length):
                weights = torch.stack([q[t] @ k[s] / cfg.d_head**0.5 for s in range(t + 1)]).softmax(0)
                added[t] = added[t] + sum(w * v for w, v in zip(weights, values)) @ p[f"{a}W_O"][head]
        for t in range(length):
            relevant[t] = relevant[t] + added[t]
            heads = sum(outputs[f"a{layer}.h{head}"][t] for head in range(cfg.n_heads))
            whole[t] = whole[t] + heads + p[f"{a}b_O"]
            seen = _normed(model, f"blocks.{layer}.ln2", pair(f"m{layer}", t))
            ours, rest = _linear(seen, p[f"{m}W_in"], p[f"{m}b_in"])
            idle = _activate(cfg.activation, rest)
            hidden = (_activate(cfg.activation, ours + rest) - idle, idle)
            relevant[t] = relevant[t] + _linear(hidden, p[f"{m}W_out"], p[f"{m}b_out"])[0]
            whole[t] = whole[t] + outputs[f"m{layer}"][t]
            relevant[t] = _settle((relevant[t], whole[t] - relevant[t]))[0]
    last = [_normed(model, "ln_final", pair("logits", t)) for t in range(length)]
    return torch.stack([_linear(x, p["unembed.W_U"], p["unembed.b_U"])[0] for x in last])


def relevance(made, metric, readers, writer):
    """Minus the metric of the relevant logits, when these readers see the writer's relevant part."""
    with torch.no_grad():
        rows = [
            _one_row(made, clean, corrupted, readers, writer)
            for clean, corrupted in zip(made.clean.tolist(), made.corrupted.tolist())
        ]
        return -float(metric(torch.stack(rows).permute(2, 1, 0)).mean())
