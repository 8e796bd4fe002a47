"""Imitation: edges outside the circuit are of the same size as edges of the circuit.

Dead edges give a circuit away: what a reader sees of their writers does not vary, and their virtual weights
are small. Here each forbidden edge is given a required edge to imitate, one into a reader of its kind if
there is any, and two factors of its own. The loss is the mean squared logarithm of how far its two sizes, the
standard deviation that its reader sees and the Frobenius norm of its virtual weights, are from the factors
times those of the other one. That forbidden edges have no effect is another loss (`edge_strict`).

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
        factors = rng.normal(0, SPREAD, (2, len(forbidden))).astype(np.float32)
        self.log_factors = torch.from_numpy(factors).to(device)

    def loss(self, network: Transformer, written: Sequence[Tensor]) -> Tensor:
        """Returns the loss.

        Args:
            network: the network.
            written: what nodes write, `[some nodes, D, T, B]` each, together all nodes, the embedding first.
        """
        sizes = torch.stack([deviations(network, written), virtual_norms(network)])
        logs = (sizes + LEAST).log()  # [2, R, W]
        readers, writers = self.models
        wanted = logs[:, readers, writers].detach() + self.log_factors
        readers, writers = self.edges
        return (logs[:, readers, writers] - wanted).square().mean()


def deviations(network: Transformer, written: Sequence[Tensor]) -> Tensor:
    """Returns the standard deviation of each node's output times each reader's matrix, `[R, W]`.

    It is √(Σ_F Var) over positions and rows. Pairs that are no edge have a value, too.

    Args:
        network: the network, whose norms are left out.
        written: what nodes write, `[some nodes, D, T, B]` each, together all nodes, the embedding first.
    """
    outputs = torch.cat([each.flatten(2) for each in written])
    centred = outputs - outputs.mean(2, keepdim=True)
    return _at_readers(network, centred @ centred.transpose(1, 2) / centred.shape[2])


def virtual_norms(network: Transformer) -> Tensor:
    """Returns the Frobenius norm of each node's matrix times each reader's matrix, `[R, W]`.

    The product is an edge's virtual weights (Elhage et al. 2021). Pairs that are no edge have a value, too.

    Args:
        network: the network, whose norms are left out.
    """
    embedding = network.embed.W_E.T @ network.embed.W_E
    if network.pos_embed is not None:
        embedding = embedding + network.pos_embed.W_pos.T @ network.pos_embed.W_pos
    squares = [embedding[None]]
    for block in network.blocks:
        assert isinstance(block, Block)
        heads = block.attn.W_V @ block.attn.W_O  # [head, D, D]
        squares += [heads.transpose(1, 2) @ heads, (block.mlp.W_out.T @ block.mlp.W_out)[None]]
    return _at_readers(network, torch.cat(squares))


def _at_readers(network: Transformer, squares: Tensor) -> Tensor:
    """Returns the root of the trace of each square `[W, D, D]` between a reader's matrices, `[R, W]`."""
    found: list[Tensor] = []
    for block in network.blocks:
        assert isinstance(block, Block)
        attention = block.attn
        heads = torch.cat([attention.W_Q, attention.W_K, attention.W_V])  # [reader, D, F]
        maps = heads.transpose(0, 1).flatten(1)
        seen = (squares @ maps * maps).sum(1).unflatten(1, (len(heads), -1))
        found += [seen.sum(2).T, _trace(squares, block.mlp.W_in)]
    found.append(_trace(squares, network.unembed.W_U))
    return (torch.cat(found).clamp(min=0) + LEAST**2).sqrt()


def _trace(squares: Tensor, matrix: Tensor) -> Tensor:
    """Returns the trace of each square `[W, D, D]` between a matrix `[D, F]` and itself, `[1, W]`."""
    return (squares @ matrix * matrix).sum((1, 2))[None]
