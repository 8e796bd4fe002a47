"""What nodes and edges show without answers or gradients: sizes of weights and activations.

Training leaves the truth written on the weights: what a network needs grows, and the rest is pressed towards
zero. A method that finds no more than these numbers say has found no circuit.

W writers, R readers, D d_model, T positions, B examples.
"""

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from interpbench.circuits.graph import Graph
from interpbench.transformer.layers import Block, Norm
from interpbench.transformer.model import Transformer


@dataclass(frozen=True)
class Sides:
    """What nodes write with and readers read with, as square matrices of the same singular values.

    Attributes:
        writes: `[W, D, D]`: a head's W_V W_O, an MLP's W_out, the embedding's W_E over W_pos. Rows are what
            comes in, columns the residual stream; but for heads, rows are reduced to D.
        reads: `[R, D, D]`: W_Q, W_K or W_V of a head, an MLP's W_in, W_U, each after the LayerNorm's centring
            and weights. Rows are the residual stream.
    """

    writes: Tensor
    reads: Tensor

    def virtual(self) -> Tensor:
        """Returns `[R, W]`: the largest singular value of each edge's virtual weights (Elhage et al. 2021).

        That is of the writer's matrix times the reader's, where there is an edge or not.
        """
        return torch.stack([spectral(self.writes @ read) for read in self.reads])


@torch.no_grad()
def sides(network: Transformer) -> Sides:
    """Returns the matrices of all nodes and readers."""
    embedding = network.embed.W_E
    if network.pos_embed is not None:
        embedding = torch.cat([embedding, network.pos_embed.W_pos])
    writes, reads = [_rows(embedding)], list[Tensor]()
    for block in (cast(Block, block) for block in network.blocks):
        attention, width = block.attn, network.cfg.d_model
        writes += list(torch.bmm(attention.W_V, attention.W_O))
        writes.append(_rows(block.mlp.W_out))
        heads = torch.cat([attention.W_Q, attention.W_K, attention.W_V])
        heads = torch.nn.functional.pad(_seen(block.ln1, heads), (0, max(0, width - heads.shape[2])))
        reads += list(heads[:, :, :width]) if heads.shape[2] == width else [_rows(head.T).T for head in heads]
        reads.append(_rows(_seen(block.ln2, block.mlp.W_in).T).T)
    reads.append(_rows(_seen(network.ln_final, network.unembed.W_U).T).T)
    return Sides(torch.stack(writes), torch.stack(reads))


def spectral(matrices: Tensor) -> Tensor:
    """Returns the largest singular value of matrices `[..., m, n]`."""
    return torch.linalg.svdvals(matrices)[..., 0]


def _rows(matrix: Tensor) -> Tensor:
    """Returns `[D, D]` with the same product with its own transpose from the left as `matrix [n, D]`."""
    width = matrix.shape[1]
    if len(matrix) < width:
        return torch.nn.functional.pad(matrix, (0, 0, 0, width - len(matrix)))
    return torch.linalg.qr(matrix, mode="r").R


def _seen(norm: torch.nn.Module, weight: Tensor) -> Tensor:
    """Returns what multiplies a normalised residual stream, `[..., D, n]`, up to the norm's scale."""
    if isinstance(norm, torch.nn.Identity):
        return weight
    own = weight * norm.w[:, None] if hasattr(norm, "w") else weight  # type: ignore[index]
    return own - own.mean(-2, keepdim=True) if isinstance(norm, Norm) else own


def spread(values: Tensor) -> Tensor:
    """Returns `[...]`: the standard deviation of vectors `[..., D, T, B]` over positions and examples.

    It is the root of the variances' sum over D.
    """
    return values.flatten(-2).var(-1, correction=0).sum(-1).sqrt()


def by_edge(graph: Graph, reads: Tensor, written: Tensor) -> Tensor:
    """Returns `[R, W]`: the spread of what each reader's matrix makes of what each node writes.

    Args:
        graph: the network's.
        reads: `[R, D, D]`, as `Sides` has them.
        written: `[W, D, T, B]`.
    """
    flat = written.flatten(2)
    centred = flat - flat.mean(2, keepdim=True)
    covariance = centred @ centred.transpose(1, 2) / flat.shape[2]
    seen = torch.einsum("rde,wdf,rfe->rw", reads, covariance, reads)
    return seen.clamp(min=0).sqrt()
