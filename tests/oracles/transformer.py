"""A transformer as literal loops over rows, positions, heads and edges, which uses no code of the project."""

import math

import torch


def _norm(model, name, x):
    cfg = model.cfg
    if cfg.normalization is None:
        return x
    if cfg.normalization in ("LN", "LNPre"):
        x = x - x.mean()
    x = x / torch.sqrt((x * x).mean() + cfg.eps)
    state = dict(model.named_parameters())
    if cfg.normalization in ("LN", "RMS"):
        x = x * state[f"{name}.w"]
    return x + state[f"{name}.b"] if cfg.normalization == "LN" else x


def _turn(model, x, position):
    """Returns a query or key with each pair of features rotated by an angle proportional to its position."""
    if model.cfg.positions == "learned":
        return x
    turned = list(x)
    for i in range(0, len(x), 2):
        angle = position * 10000.0 ** (-i / len(x))
        turned[i] = x[i] * math.cos(angle) - x[i + 1] * math.sin(angle)
        turned[i + 1] = x[i + 1] * math.cos(angle) + x[i] * math.sin(angle)
    return torch.stack(turned)


def _activate(kind, x):
    if kind == "relu":
        return torch.clamp(x, min=0)
    if kind == "gelu":
        return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))
    if kind == "silu":
        return x / (1 + torch.exp(-x))
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _mlp(cfg, p, m, x):
    if cfg.mlp == "gated":
        return (_activate(cfg.activation, x @ p[f"{m}W_gate"]) * (x @ p[f"{m}W_in"])) @ p[f"{m}W_out"]
    hidden = _activate(cfg.activation, x @ p[f"{m}W_in"] + p[f"{m}b_in"])
    return hidden @ p[f"{m}W_out"] + p[f"{m}b_out"]


def _seen(edge, vectors, patch, position, patched_edges, mixed, routes):
    """Returns the vector that the reader of an edge reads from its writer at a position; see `run`."""
    if routes is not None:
        other = routes.get((*edge, position))
        return vectors[position] if other is None else other[edge[0]][position]
    if mixed is not None:
        return mixed[edge](vectors[position], patch[edge[0]][position])
    return patch[edge[0]][position] if edge in patched_edges else vectors[position]


def run(
    model,
    tokens,
    patched_edges=(),
    patched_nodes=(),
    patch=None,
    mixed=None,
    first=False,
    routes=None,
    parts=None,
):
    """Runs one row of token ids.

    Args:
        model: the network whose weights are used.
        tokens: the token ids.
        patched_edges: the edges, (writer name, reader name), whose reader reads `patch[writer]`.
        patched_nodes: the names of the writers whose output is replaced by `patch[writer]`.
        patch: for each writer's name, a list of vectors, one for each position.
        mixed: for each edge, (writer name, reader name), a function from the output and the patch to the
            vector that is read.
        first: whether the output of every writer at the first position is replaced by its patch.
        routes: for (writer name, reader name, position), the outputs of another run, which are read instead.
        parts: for (head name, "q", "k", "v" or "pattern"), the values, one for each position, that replace
            those of the head.

    Returns:
        The logits, a list of vectors, one for each position; and for each writer's name, its outputs, a list
        of vectors, one for each position.
    """
    p, parts = dict(model.named_parameters()), parts or {}
    cfg, length = model.cfg, len(tokens)
    outputs, biases = {}, [torch.zeros(cfg.d_model, dtype=p["embed.W_E"].dtype) for _ in range(1)]

    def write(name, vectors):
        outputs[name] = [patch[name][t] for t in range(length)] if name in patched_nodes else list(vectors)
        if first:
            outputs[name][0] = patch[name][0]

    def read(reader, position):
        total = sum(biases)
        for name, vectors in outputs.items():
            total = total + _seen((name, reader), vectors, patch, position, patched_edges, mixed, routes)
        return total

    places = p.get("pos_embed.W_pos", torch.zeros(length, cfg.d_model, dtype=p["embed.W_E"].dtype))
    write("embed", [p["embed.W_E"][tokens[t]] + places[t] for t in range(length)])
    for layer in range(cfg.n_layers):
        a = f"blocks.{layer}.attn."
        written = {}
        for head in range(cfg.n_heads):

            def project(kind, t, head=head, a=a, layer=layer):
                x = _norm(model, f"blocks.{layer}.ln1", read(f"a{layer}.h{head}<{kind.lower()}>", t))
                made = x @ p[f"{a}W_{kind}"][head] + p[f"{a}b_{kind}"][head]
                made = parts.get((f"a{layer}.h{head}", kind.lower()), {t: made})[t]
                return made if kind == "V" else _turn(model, made, t)

            q, k, v = ([project(kind, t) for t in range(length)] for kind in "QKV")
            out = []
            for t in range(length):
                seen = range(t + 1) if cfg.attention == "causal" else range(length)
                weights = torch.stack([q[t] @ k[s] / math.sqrt(cfg.d_head) for s in seen]).softmax(0)
                weights = parts.get((f"a{layer}.h{head}", "pattern"), {t: weights})[t][: len(seen)]
                z = sum(w * v[s] for w, s in zip(weights, seen))
                out.append(z @ p[f"{a}W_O"][head])
            written[f"a{layer}.h{head}"] = out
        for name, out in written.items():
            write(name, out)
        biases.append(p[f"{a}b_O"])
        m = f"blocks.{layer}.mlp."
        out = []
        for t in range(length):
            x = _norm(model, f"blocks.{layer}.ln2", read(f"m{layer}", t))
            out.append(_mlp(cfg, p, m, x))
        write(f"m{layer}", out)
    logits = []
    for t in range(length):
        x = _norm(model, "ln_final", read("logits", t))
        logits.append(x @ p["unembed.W_U"] + p["unembed.b_U"])
    return logits, outputs
