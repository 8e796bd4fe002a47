"""The metrics of runs as plain loops over positions, examples and classes, in Python's own numbers."""

import math


def _probabilities(logits):
    total = sum(math.exp(value) for value in logits)
    return [math.exp(value) / total for value in logits]


def kl(clean, corrupted, run):
    if len(clean) == 1:
        return mse(clean, corrupted, run)
    pairs = zip(_probabilities(clean), _probabilities(run), strict=True)
    return sum(p * (math.log(p) - math.log(q)) for p, q in pairs)


def mse(clean, corrupted, run):
    return (run[0] - clean[0]) ** 2


def logit_diff(clean, corrupted, run):
    """Returns the logit of the corrupted answer minus that of the clean one.

    For a numerical output it is the output, with its sign changed if the corrupted output is smaller than the
    clean one.
    """
    if len(clean) == 1:
        return run[0] * math.copysign(1, corrupted[0] - clean[0])
    return run[corrupted.index(max(corrupted))] - run[clean.index(max(clean))]
