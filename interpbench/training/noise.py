"""Noise: edges outside the circuit that move the logits, by a share of the margin, but never the answer.

Each forbidden edge into the logits is trained to vary as much as the task says. The loss is the mean squared
logarithm of how far the standard deviation of what its writer adds to the difference of two logits (the root
of the mean square over all pairs of classes) is from that. That answers stay right is another loss.

Shapes: D d_model, T positions with BOS, B rows, V outputs, N all rows of a step, those of the source world
first.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from interpbench.circuits.ground_truth import State, Truth
from interpbench.tasks.task import Task
from interpbench.transformer.model import Transformer

LEAST = 1e-4
"""The number that is added to standard deviations before their logarithm, so that the loss stays finite."""


class Noise:
    """The loss of what a network's forbidden edges into the logits bring.

    Args:
        task: the task, which says how much noise there should be.
        truth: the states of edges.
        device: the device of the network.
    """

    def __init__(self, task: Task, truth: Truth, device: torch.device):
        graph = truth.graph
        logits = graph.reader_index[graph.readers[-1]]
        self.writers = torch.from_numpy(np.flatnonzero(truth.qkv_edges[logits] == State.FORBIDDEN)).to(device)
        self.share, self.tolerance = task.noise, task.tolerance

    def loss(self, network: Transformer, written: Sequence[Tensor], logits: Tensor) -> Tensor:
        """Returns the loss.

        Args:
            network: the network.
            written: what nodes write, `[some nodes, D, T, B]` each, together all nodes, the embedding first.
            logits: the logits `[V, T, N]`.
        """
        outputs = torch.cat(list(written)).index_select(0, self.writers)
        moved = deviations(outputs, network.unembed.W_U)
        wanted = self.share * margin(logits[..., : outputs.shape[-1]], self.tolerance)
        return ((moved + LEAST).log() - (wanted + LEAST).log()).square().mean()


def margin(logits: Tensor, tolerance: float) -> Tensor:
    """Returns the mean lead of the likeliest class over the next one; the tolerance of a number.

    Args:
        logits: the logits `[V, T, N]`.
        tolerance: the task's tolerance of a number.
    """
    if len(logits) == 1:
        return logits.new_full((), tolerance)
    first, second = logits.detach()[:, 1:].topk(2, 0).values
    return (first - second).mean()


def deviations(outputs: Tensor, unembed: Tensor) -> Tensor:
    """Returns the standard deviation of what nodes add to the difference of two logits, or to a number.

    Args:
        outputs: what the nodes write, `[some nodes, D, T, B]`; position 0 is BOS.
        unembed: the matrix of the unembedding, `[D, V]`.
    """
    classes = unembed.shape[1]
    matrix = unembed - unembed.mean(1, keepdim=True) if classes > 1 else unembed
    added = matrix.T @ outputs[:, :, 1:].flatten(2)  # [node, V, T × B]
    pairs = 2 / (classes - 1) if classes > 1 else 1.0
    return (pairs * added.var(2, correction=0).sum(1) + LEAST**2).sqrt()
