"""What can be read of a node without patching anything: its answer probe, entropy, kurtosis and spectrum.

Letters of shapes: W writers, D features of the residual stream, T positions, N rows, V outputs, H heads.
"""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from interpbench.discovery.features import spectral, weight_matrices
from interpbench.tasks.problem import Problem
from interpbench.transformer.recording import AttentionPatterns, record

RIDGE = 1e-3
"""The penalty of the probe's weights, as a share of the mean square of what a node writes."""
READINGS = (
    "decodability of the answer",
    "attention entropy",
    "kurtosis of what it writes",
    "share of its largest singular value",
)
"""The names of what is read of each node."""


@torch.no_grad()
def readings(problem: Problem) -> Mapping[str, np.ndarray]:
    """Returns each of `READINGS` for every node, `[W]`; NaN where it has none (MLPs do not attend).

    The *decodability of the answer* is the share of the variance of the network's own answers, at scored
    positions of clean inputs, that a linear probe of what the node writes explains on the half of inputs
    which the probe has not seen (ridge regression to one-hot classes, or to the number). The *entropy* is
    that of attention in nats, as a mean over queries after BOS and inputs. The *kurtosis* is the mean over
    the dimensions of the residual stream that vary, over the same positions (3 for a normal distribution).
    The *share* is that of the largest singular value of the matrix that the node writes with in its squared
    Frobenius norm.
    """
    logits, cache = record(problem.network, problem.clean)
    patterns = AttentionPatterns()
    problem.network.run(problem.network.embedding(problem.clean), patterns)
    written = _scored(cache.stack, problem.scored)
    answers = _answers(logits, problem)
    half = int(problem.scored[:, : problem.scored.shape[1] // 2].sum())
    writes = weight_matrices(problem.network).writes.double()
    squares = writes.square().sum((1, 2)).clamp(min=1e-30)
    found = (
        _decodability(written, answers, half),
        _entropies(patterns.each, problem),
        _kurtosis(written),
        spectral(writes).square() / squares,
    )
    return {name: values.cpu().numpy() for name, values in zip(READINGS, found)}


def _scored(values: Tensor, scored: Tensor) -> Tensor:
    """Returns values `[..., D, T, N]` at scored positions, input by input, `[..., M, D]`."""
    return values.transpose(-1, -2)[..., scored.T].transpose(-1, -2).double()


def _answers(logits: Tensor, problem: Problem) -> Tensor:
    """Returns the network's answers at scored positions, `[M, V]`: one-hot classes, or a number."""
    there = _scored(logits, problem.scored)
    if problem.numerical:
        return there
    return torch.nn.functional.one_hot(there.argmax(1), there.shape[1]).double()


def _decodability(written: Tensor, answers: Tensor, half: int) -> Tensor:
    """Returns the share of held-out variance of answers `[M, V]` that outputs `[W, M, D]` explain, `[W]`.

    Args:
        written: what nodes write.
        answers: what is to be read.
        half: how many of the M the probe is fitted to.
    """
    mean, target = written[:, :half].mean(1, keepdim=True), answers[:half].mean(0)
    inputs = written - mean
    size = inputs[:, :half].square().mean((1, 2)).clamp(min=1e-12)
    unit = torch.eye(inputs.shape[2], dtype=inputs.dtype, device=inputs.device)
    seen = inputs[:, :half].transpose(1, 2)
    gram = seen @ inputs[:, :half] / half + RIDGE * size[:, None, None] * unit
    weights = torch.linalg.solve(gram, seen @ (answers[:half] - target) / half)
    missed = (inputs[:, half:] @ weights + target - answers[half:]).square().sum((1, 2))
    constant = (answers[half:] - target).square().sum()
    return torch.where(constant > 0, 1 - missed / constant.clamp(min=1e-30), torch.zeros_like(missed))


def _entropies(patterns: list[Tensor], problem: Problem) -> Tensor:
    """Returns the entropy of each head's attention; NaN for what is no head, `[W]`."""
    graph, each = problem.graph, torch.cat(patterns)[:, 1:].double()  # queries after BOS, [H, Q, K, N]
    entropy = -torch.special.xlogy(each, each).sum(2).mean((1, 2))
    heads = [place for place, node in enumerate(graph.nodes) if node.head is not None]
    found = torch.full((len(graph.nodes),), torch.nan, dtype=entropy.dtype, device=entropy.device)
    found[heads] = entropy
    return found


def _kurtosis(written: Tensor) -> Tensor:
    """Returns the mean kurtosis of the dimensions of outputs `[W, M, D]` that vary, `[W]`; 0 if none does."""
    centred = written - written.mean(1, keepdim=True)
    variance = centred.square().mean(1)
    varies = variance > 1e-12 * variance.amax(1, keepdim=True).clamp(min=1e-30)
    each = centred.square().square().mean(1) / variance.square().clamp(min=1e-60)
    return torch.where(varies, each, 0).sum(1) / varies.sum(1).clamp(min=1)
