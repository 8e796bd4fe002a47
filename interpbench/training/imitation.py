"""Imitation: edges outside the circuit bring their readers as much that varies as edges of the circuit do.

Dead edges give a circuit away, as what a reader sees of their writers does not vary. Here each forbidden edge
is given a required edge to imitate, one into a reader of its kind if there is any, and a factor of its own.
The loss is the mean squared logarithm of how far the standard deviation that its reader sees is from the
factor times that of the other one. That forbidden edges have no effect is another loss (`edge_strict`).

Shapes: D d_model, T positions with BOS, B rows, E forbidden edges, R readers, W nodes, F outputs of a map.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from interpbench.circuits.ground_truth import State, Truth
from interpbench.core import seeds
from interpbench.transformer.layers import Block
from interpbench.transformer.model import Transformer

SPREAD = 0.5
"""The standard deviation of the logarithm of the factors."""
LEAST = 1e-4
"""The number that is added to standard deviations before their logarithm, so that the loss stays finite."""


class Imitation:
    """The loss of a network's forbidden edges.

    Args:
        truth: the states of edges.
        seed: the seed of which edge imitates which, and of the factors.
        device: the device of the network.
    """

    def __init__(self, truth: Truth, seed: int, device: torch.device):
        rng = seeds.generator(seed, "imitation")
        forbidden = np.argwhere(truth.qkv_edges == State.FORBIDDEN)
        required = np.argwhere(truth.circuit)
        slots = np.array([reader.slot for reader in truth.graph.readers])
        chosen: list[int] = []
        for reader, _ in forbidden:
            alike = np.flatnonzero(slots[required[:, 0]] == slots[reader])
            chosen.append(int(rng.choice(alike if len(alike) else len(required))))
        models = required[chosen]
        self.edges, self.models = (
            tuple(torch.from_numpy(side).to(device) for side in pairs.T) for pairs in (forbidden, models)
        )
        factors = rng.normal(0, SPREAD, len(forbidden)).astype(np.float32)
        self.log_factors = torch.from_numpy(factors).to(device)

    def loss(self, network: Transformer, written: Sequence[Tensor]) -> Tensor:
        """Returns the loss.

        Args:
            network: the network.
            written: what nodes write, `[some nodes, D, T, B]` each, together all nodes, the embedding first.
        """
        logs = (deviations(network, written) + LEAST).log()
        wanted = logs[self.models].detach() + self.log_factors
        return (logs[self.edges] - wanted).square().mean()


def deviations(network: Transformer, written: Sequence[Tensor]) -> Tensor:
    """Returns the standard deviation of each node's output times each reader's matrix, `[R, W]`.

    It is √(Σ_F Var) over positions and rows. Pairs that are no edge have a value, too.

    Args:
        network: the network, whose norms are left out.
        written: what nodes write, `[some nodes, D, T, B]` each, together all nodes, the embedding first.
    """
    outputs = torch.cat([each.flatten(2) for each in written])
    centred = outputs - outputs.mean(2, keepdim=True)
    covariance = centred @ centred.transpose(1, 2) / centred.shape[2]  # [W, D, D]
    variances: list[Tensor] = []
    for block in network.blocks:
        assert isinstance(block, Block)
        attention = block.attn
        heads = torch.cat([attention.W_Q, attention.W_K, attention.W_V])  # [reader, D, F]
        maps = heads.transpose(0, 1).flatten(1)
        seen = (covariance @ maps * maps).sum(1).unflatten(1, (len(heads), -1))
        variances += [seen.sum(2).T, _variance(covariance, block.mlp.W_in)]
    variances.append(_variance(covariance, network.unembed.W_U))
    return (torch.cat(variances).clamp(min=0) + LEAST**2).sqrt()


def _variance(covariance: Tensor, matrix: Tensor) -> Tensor:
    """Returns the variance of nodes' outputs times a matrix `[D, F]`, `[1, W]`, given their covariances."""
    return (covariance @ matrix * matrix).sum((1, 2))[None]
