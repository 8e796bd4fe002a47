"""Sizes of weights and activations, from which baselines score nodes and edges without answers or gradients.

Training can reveal the circuit in the size of weights: what the network needs grows, and the rest shrinks
towards zero. A method that ranks edges no better than these sizes has found no circuit.

Letters of shapes: W writers, R readers, D features of the residual stream, T positions, B examples.
"""

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from interpbench.transformer.layers import Block, Norm
from interpbench.transformer.model import Transformer


@dataclass(frozen=True)
class WeightMatrices:
    """The weight matrices with which nodes write and readers read, reduced to square ones.

    The square matrices have the same singular values as the originals, also in products of a writer's and a
    reader's.

    Attributes:
        writes: the writers' matrices `[W, D, D]`: a head's W_V W_O, an MLP's W_out, the embedding's W_E and
            W_pos, one below the other. Columns are features of the residual stream.
        reads: the readers' matrices `[R, D, D]`: a head's W_Q, W_K or W_V, an MLP's W_in, and W_U, each with
            the LayerNorm's centring and weights folded in. Rows are features of the residual stream.
    """

    writes: Tensor
    reads: Tensor

    def virtual(self) -> Tensor:
        """Returns the largest singular value of each edge's virtual weights (Elhage et al. 2021), `[R, W]`.

        Virtual weights are the writer's matrix times the reader's. Pairs that are no edge have a value too.
        """
        return torch.stack([spectral(self.writes @ read) for read in self.reads])


@torch.no_grad()
def weight_matrices(network: Transformer) -> WeightMatrices:
    """Returns the square weight matrices of all writers and readers of a network."""
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
    return WeightMatrices(torch.stack(writes), torch.stack(reads))


def spectral(matrices: Tensor) -> Tensor:
    """Returns the largest singular value of matrices `[..., m, n]`."""
    return torch.linalg.svdvals(matrices)[..., 0]


def _rows(matrix: Tensor) -> Tensor:
    """Returns a matrix R, `[D, D]`, with RᵀR = AᵀA for a `matrix` A, `[n, D]`."""
    width = matrix.shape[1]
    if len(matrix) < width:
        return torch.nn.functional.pad(matrix, (0, 0, 0, width - len(matrix)))
    return torch.linalg.qr(matrix, mode="r").R


def _seen(norm: torch.nn.Module, weight: Tensor) -> Tensor:
    """Returns a reader's weights `[..., D, n]` with the LayerNorm's centring and weights folded in."""
    if isinstance(norm, torch.nn.Identity):
        return weight
    own = weight * norm.w[:, None] if hasattr(norm, "w") else weight  # type: ignore[index]
    return own - own.mean(-2, keepdim=True) if isinstance(norm, Norm) else own


def standard_deviation(values: Tensor) -> Tensor:
    """Returns the standard deviation of vectors over positions and examples.

    It is √(Σ_d Var), the variances being summed over features.

    Args:
        values: the vectors, `[..., D, T, B]`.

    Returns:
        The standard deviations, `[...]`.
    """
    return values.flatten(-2).var(-1, correction=0).sum(-1).sqrt()


def deviation_at_readers(reads: Tensor, written: Tensor) -> Tensor:
    """Returns the standard deviation of each writer's output times each reader's matrix, `[R, W]`.

    Args:
        reads: the readers' matrices `[R, D, D]`, as in `WeightMatrices.reads`.
        written: the writers' outputs, `[W, D, T, B]`.
    """
    flat = written.flatten(2)
    centred = flat - flat.mean(2, keepdim=True)
    covariance = centred @ centred.transpose(1, 2) / flat.shape[2]
    seen = torch.einsum("rde,wdf,rfe->rw", reads, covariance, reads)
    return seen.clamp(min=0).sqrt()
