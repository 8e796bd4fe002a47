"""Contextual decomposition as literal loops over rows, source nodes, positions and heads.

A pair is (relevant part, rest): two vectors that add up to an activation. `_settle` and the maps are those of
section 3.2 and the appendix of the paper, entry by entry.
"""

import math

import torch

from tests.oracles.transformer import _activate, run

TINY = 1e-8


def _bias(pair, sizes, bias):
    """Returns a pair with a bias added, split between the parts in proportion to the sizes of two vectors."""
    ours, rest = (x.clone() for x in pair)
    for i in range(len(ours)):
        a, b = abs(sizes[0][i]), abs(sizes[1][i])
        ours[i] = ours[i] + bias[i] * a / (a + b + TINY)
        rest[i] = rest[i] + bias[i] * (1 - a / (a + b + TINY))
    return ours, rest


def _linear(pair, weight, bias):
    mapped = pair[0] @ weight, pair[1] @ weight
    return _bias(mapped, mapped, bias)


def _normed(model, name, pair):
    cfg, state = model.cfg, dict(model.named_parameters())
    if cfg.normalization is None:
        return pair
    whole = pair[0] + pair[1]
    scale = math.sqrt(float(((whole - whole.mean()) ** 2).mean()) + cfg.eps)
    scaled = tuple((x - x.mean()) / scale for x in pair)
    if cfg.normalization == "LNPre":
        return scaled
    return _bias(tuple(x * state[f"{name}.w"] for x in scaled), pair, state[f"{name}.b"])


def _settle(pair):
    """Returns the pair with the whole in the larger part, and 0 in the other, where their signs differ."""
    ours, rest = pair[0].clone(), pair[1].clone()
    for i in range(len(ours)):
        if ours[i] * rest[i] < 0:
            whole = ours[i] + rest[i]
            ours[i], rest[i] = (whole, 0 * whole) if abs(ours[i]) >= abs(rest[i]) else (0 * whole, whole)
    return ours, rest


def _softmax(scores):
    sizes = [math.exp(float(x) - max(map(float, scores))) for x in scores]
    return [size / sum(sizes) for size in sizes]


def _sum(*pairs):
    return sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)


class _Row:
    """The decomposition of the activations of one row by one source node.

    If `blind` names a reader, that reader counts what the source node itself writes as rest.
    """

    def __init__(self, model, clean, corrupted, source, blind=None):
        self.model, self.source, self.blind = model, source, blind
        self.p, self.length = dict(model.named_parameters()), len(clean)
        outputs, other = run(model, clean)[1], run(model, corrupted)[1]
        self.written = [(a - b, b) for a, b in zip(outputs[source], other[source])]
        zero = torch.zeros(model.cfg.d_model, dtype=torch.float64)
        self.stream = [(zero, x) for x in outputs["embed"]]
        self.direct = [zero] * self.length
        """The part of the relevant part at each position that the source node itself has written."""
        self.passed = {}
        """The pairs that each head gathers, and that each MLP writes, at each position."""
        if source == "embed":
            self.stream, self.direct = list(self.written), [pair[0] for pair in self.written]

    def seen(self, reader, t):
        ours, rest = self.stream[t]
        if reader == self.blind:
            return ours - self.direct[t], rest + self.direct[t]
        return ours, rest

    def head(self, layer, head, t):
        """Returns the pair that a head gathers at one position."""
        cfg, a = self.model.cfg, f"blocks.{layer}.attn."

        def part(kind, at):
            pair = _normed(
                self.model, f"blocks.{layer}.ln1", self.seen(f"a{layer}.h{head}<{kind.lower()}>", at)
            )
            return _linear(pair, self.p[f"{a}W_{kind}"][head], self.p[f"{a}b_{kind}"][head])

        places = range(t + 1) if cfg.attention == "causal" else range(self.length)
        query, keys, values = part("Q", t), [part("K", s) for s in places], [part("V", s) for s in places]
        size = math.sqrt(cfg.d_head)
        relevant = _softmax([query[0] @ key[0] / size for key in keys])
        whole = _softmax([sum(query) @ sum(key) / size for key in keys])
        ours = sum(w * value[0] for w, value in zip(relevant, values))
        return ours, sum(w * sum(value) for w, value in zip(whole, values)) - ours

    def mlp(self, layer, pair):
        """Returns the pair that an MLP writes, given the pair in the residual stream."""
        m = f"blocks.{layer}.mlp."
        pair = _normed(self.model, f"blocks.{layer}.ln2", pair)
        ours, rest = _settle(_linear(pair, self.p[f"{m}W_in"], self.p[f"{m}b_in"]))
        kind = self.model.cfg.activation
        idle = _activate(kind, rest)
        active = _activate(kind, ours + rest) - idle, idle
        return _settle(_linear(active, self.p[f"{m}W_out"], self.p[f"{m}b_out"]))

    def layer(self, layer):
        cfg, a = self.model.cfg, f"blocks.{layer}.attn."
        names = [f"a{layer}.h{head}" for head in range(cfg.n_heads)]
        for head, name in enumerate(names):
            self.passed[name] = [self.head(layer, head, t) for t in range(self.length)]
        before = list(self.stream)
        for t in range(self.length):
            each = [
                self.written[t]
                if name == self.source
                else tuple(x @ self.p[f"{a}W_O"][head] for x in self.passed[name][t])
                for head, name in enumerate(names)
            ]
            summed = _sum(*each)
            summed = _bias(summed, summed, self.p[f"{a}b_O"])
            if self.source in names:
                self.direct[t] = summed[0]
            self.stream[t] = _sum(before[t], summed)
        self.passed[f"m{layer}"] = [self.mlp(layer, self.seen(f"m{layer}", t)) for t in range(self.length)]
        for t in range(self.length):
            own = self.source == f"m{layer}"
            if own:
                self.direct[t] = self.written[t][0]
            self.stream[t] = _sum(self.stream[t], self.written[t] if own else self.passed[f"m{layer}"][t])
            settled = _settle(self.stream[t])
            direct = self.direct[t].clone()
            for i in range(len(direct)):
                if settled[0][i] != self.stream[t][0][i]:
                    direct[i] = direct[i] * settled[0][i] / self.stream[t][0][i]
            self.stream[t], self.direct[t] = settled, direct

    def logits(self):
        for layer in range(self.model.cfg.n_layers):
            self.layer(layer)
        last = [_normed(self.model, "ln_final", self.seen("logits", t)) for t in range(self.length)]
        return torch.stack([_linear(x, self.p["unembed.W_U"], self.p["unembed.b_U"])[0] for x in last])


def relevance(made, metric, writer, blind=None):
    """Returns minus the metric of a writer's relevant logits, and the relevant share of each later node.

    Args:
        made: the discovery problem.
        metric: a function of logits.
        writer: the index of the writer.
        blind: the index of a reader that counts what the writer itself writes as rest; None for none.
    """
    graph = made.graph
    node, reader = graph.nodes[writer], None if blind is None else str(graph.readers[blind])
    with torch.no_grad():
        rows = [
            _Row(made.network, clean, corrupted, str(node), reader)
            for clean, corrupted in zip(made.clean.tolist(), made.corrupted.tolist())
        ]
        value = -float(metric(torch.stack([row.logits() for row in rows]).permute(2, 1, 0)).mean())
    shares = {}
    for index, other in enumerate(graph.nodes):
        if (other.layer, other.head is None) > (node.layer, node.head is None):
            places = [[row.passed[str(other)][t] for row in rows] for t in range(rows[0].length)]
            each = [[sum(float(pair[i].abs().mean()) for pair in place) for i in (0, 1)] for place in places]
            shares[index] = sum(ours / (ours + rest + TINY) for ours, rest in each) / len(each)
    return value, shares


def reached(relevance, shares, threshold):
    """Returns the indices of the targets: nodes that are relevant to the logits, or to a later target."""
    found = {node for node, value in enumerate(relevance) if value >= threshold}
    while True:
        more = {
            node
            for node, targets in enumerate(shares)
            if any(share >= threshold for target, share in targets.items() if target in found)
        }
        if more <= found:
            return found
        found |= more
