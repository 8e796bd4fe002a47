"""Runs EAP-IG's own attribution on a problem; `benchmarks.published.eap_ig` starts it.

Their code reads strings and wants a GPU: here it gets token ids, and what it puts on `cuda` goes to the CPU.
All else is theirs. Of a metric they take the gradient of a scalar, which they then divide by the number of
examples; so it is the sum over examples.
"""

import theirs
import torch

BATCH = 20
"""The pairs that go through at once, by MIB's default."""


class Inputs:
    """A problem as their code takes it: batches, and our metrics as functions of logits.

    Args:
        network: the network.
        problem: what `problem.safetensors` holds.
        direction: for an output that is a number, `[B, T]`: 1 where the corrupted output is larger, -1 or 0.
    """

    def __init__(self, network, problem, direction=None):
        self.problem, self.summed = problem, False
        self.direction = None if direction is None else torch.tensor(direction, dtype=torch.float64)
        with torch.no_grad():
            self.clean = network(problem["clean"])

    def batches(self):
        """Returns (clean, corrupted, rows); they hand on the rows to the metric, as what they call labels."""
        rows = torch.arange(len(self.problem["clean"])).split(BATCH)
        return [(self.problem["clean"][some], self.problem["corrupted"][some], some) for some in rows]

    def logit_diff(self, logits, _other, _lengths, rows):
        """The corrupted answer's logit minus the clean answer's, or the number, towards the corrupted one."""
        if self.direction is not None:
            return self.mean(logits[..., 0] * self.direction[rows], rows)
        wrong, answer = (
            logits.gather(-1, self.problem[name][rows][..., None])[..., 0] for name in ("wrong", "answer")
        )
        return self.mean(wrong - answer, rows)

    def kl(self, logits, _other, _lengths, rows):
        """KL divergence from the clean output, or the squared difference from the clean number."""
        clean = self.clean[rows]
        if self.direction is not None:
            return self.mean((logits - clean)[..., 0] ** 2, rows)
        return self.mean((clean.softmax(-1) * (clean.log_softmax(-1) - logits.log_softmax(-1))).sum(-1), rows)

    def mean(self, values, rows):
        """Returns the mean over each example's scored positions, or of these the sum over examples."""
        scored = self.problem["scored"][rows]
        each = (values * scored).sum(1) / scored.sum(1).clamp(min=1)
        return each.sum() if self.summed else each


def take_tokens(*modules):
    """Has their modules take token ids for strings, none of them padding, and puts everything on the CPU."""

    def tokenized(_model, tokens, max_length=None):
        return tokens, torch.ones_like(tokens), torch.full((len(tokens),), tokens.shape[1]), tokens.shape[1]

    for module in modules:
        module.tokenize_plus = tokenized
    zeros = torch.zeros
    torch.zeros = lambda *sizes, **named: zeros(*sizes, **{**named, "device": "cpu"})


def start():
    """Returns the network in double precision, and the inputs."""
    network, problem = theirs.start()
    network.cfg.dtype = torch.float64
    return network.double(), problem


def main():
    network, problem = start()
    from eap import attribute, evaluate
    from eap.graph import Graph

    take_tokens(attribute, evaluate)

    def scores(method, metric, direction=None, steps=None):
        """Returns name to score of every edge."""
        inputs, graph = Inputs(network, problem, direction), Graph.from_model(network)
        inputs.summed = method != "exact"
        measured = getattr(inputs, metric)
        attribute.attribute(network, graph, inputs.batches(), measured, method, ig_steps=steps, quiet=True)
        return {name: float(edge.score) for name, edge in graph.edges.items()}

    theirs.serve({"scores": scores})


if __name__ == "__main__":
    main()
