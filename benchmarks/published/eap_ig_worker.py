"""Runs EAP-IG's own attribution on a problem; `benchmarks.published.eap_ig` starts it.

Their code reads strings and needs a GPU. Here it is given token ids, and what it puts on `cuda` is put on the
CPU; everything else is their code. They compute the gradient of a metric that is a scalar, and divide it by
the number of examples; the scalar is therefore the sum over examples.

Letters of shapes: B pairs, T positions.
"""

import theirs
import torch

BATCH = 20
"""The number of pairs in a batch, MIB's default."""


class Inputs:
    """A problem in the form that their code needs: batches, and this project's metrics.

    Args:
        network: the network.
        problem: the tensors of `problem.safetensors`.
        direction: for a numerical output, the sign of its change by corruption, `[B, T]`; None for classes.
    """

    def __init__(self, network, problem, direction=None):
        self.problem, self.summed = problem, False
        self.direction = None if direction is None else torch.tensor(direction, dtype=torch.float64)
        with torch.no_grad():
            self.clean = network(problem["clean"])

    def batches(self):
        """Returns batches (clean, corrupted, rows); their code passes the rows to the metric, as labels."""
        rows = torch.arange(len(self.problem["clean"])).split(BATCH)
        return [(self.problem["clean"][some], self.problem["corrupted"][some], some) for some in rows]

    def logit_diff(self, logits, _other, _lengths, rows):
        """Returns the logit difference, corrupted minus clean answer, or the number with its sign."""
        if self.direction is not None:
            return self.mean(logits[..., 0] * self.direction[rows], rows)
        wrong, answer = (
            logits.gather(-1, self.problem[name][rows][..., None])[..., 0] for name in ("wrong", "answer")
        )
        return self.mean(wrong - answer, rows)

    def kl(self, logits, _other, _lengths, rows):
        """Returns the KL divergence from the clean output, or the squared difference of a numerical one."""
        clean = self.clean[rows]
        if self.direction is not None:
            return self.mean((logits - clean)[..., 0] ** 2, rows)
        return self.mean((clean.softmax(-1) * (clean.log_softmax(-1) - logits.log_softmax(-1))).sum(-1), rows)

    def mean(self, values, rows):
        """Returns the mean over scored positions of each example, or the sum of these means over examples."""
        scored = self.problem["scored"][rows]
        each = (values * scored).sum(1) / scored.sum(1).clamp(min=1)
        return each.sum() if self.summed else each


def take_tokens(*modules):
    """Changes their modules so that they read token ids, none of them padding, and use the CPU."""

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
