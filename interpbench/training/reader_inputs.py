"""What readers see: the matrix and bias of each input of a network, and what is read without an effect.

Shapes: D d_model, F outputs of a reader's matrix, Z directions in which a node writes.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from interpbench.circuits.naming import Reader
from interpbench.training.imitation import SPREAD
from interpbench.transformer.layers import Attention, Block, Mlp
from interpbench.transformer.model import Transformer

BELOW = 8.0
"""How many standard deviations of what they read hidden units that nothing reads are biased down."""


def layer_parts(network: Transformer, layer: int) -> tuple[Attention, Mlp]:
    """Returns the attention and the MLP of a layer."""
    block = network.blocks[layer]
    assert isinstance(block, Block) and isinstance(block.mlp, Mlp)
    return block.attn, block.mlp


def input_map(network: Transformer, reader: Reader) -> tuple[Tensor, Tensor]:
    """Returns views of a reader's matrix `[D, F]` and bias `[F]`."""
    if reader.slot == "logits":
        return network.unembed.W_U, network.unembed.b_U
    attention, mlp = layer_parts(network, reader.layer)
    if reader.head is None:
        return mlp.W_in, mlp.b_in
    maps = {
        "q": (attention.W_Q, attention.b_Q),
        "k": (attention.W_K, attention.b_K),
        "v": (attention.W_V, attention.b_V),
    }
    weight, bias = maps[reader.slot]
    return weight[reader.head], bias[reader.head]


def set_input(network: Transformer, reader: Reader, read: Tensor, bias: Tensor, d_head: int) -> None:
    """Sets the first columns of a reader's matrix to `read [D, F]`, and its bias to `bias [F]`.

    Args:
        network: the network of the reader.
        reader: the reader.
        read: the columns.
        bias: the bias.
        d_head: the width of heads for which they are; queries are divided by its root.
    """
    new_weight, new_bias = input_map(network, reader)
    if reader.slot == "q":
        scale = (network.cfg.d_head / d_head) ** 0.5
        read, bias = read * scale, bias * scale
        new_weight.zero_()
    new_weight[:, : read.shape[1]] = read
    new_bias.zero_()
    new_bias[: len(bias)] = bias


def read_without_effect(
    network: Transformer,
    reader: Reader,
    others: Sequence[tuple[Tensor, Tensor]],
    sizes: Sequence[float],
    used: int,
    rng: np.random.Generator,
) -> None:
    """Makes a reader see nodes that it should not read, where that has no effect.

    Values and hidden units beyond those that were copied are written nowhere. Half of such queries and keys
    each meet zeros, and logits may move together. Hidden units are biased down, too, so that they are hardly
    ever active and get no gradient, should the network be trained.

    Args:
        network: the network of the reader.
        reader: the reader.
        others: the dimensions `[D, Z]` in which each of these nodes writes, and the mean `[Z]` of that.
        sizes: standard deviations of what readers of this kind see of a node, of which one is drawn for each.
        used: the number of outputs of its matrix that were copied.
        rng: the generator of what is drawn.
    """
    weight, bias = input_map(network, reader)
    width = weight.shape[1]
    if reader.slot == "logits":
        spare = torch.ones(1, width) / width**0.5 if width > 1 else torch.zeros(0, width)
    else:
        middle = (used + width) // 2
        first, last = {"q": (used, middle), "k": (middle, width)}.get(reader.slot, (used, width))
        spare = torch.eye(width)[first:last]
        weight[:, used:], bias[used:] = 0, 0
    surplus = torch.zeros_like(weight)
    for places, mean in others if len(spare) else ():
        drawn = torch.from_numpy(rng.normal(size=(places.shape[1], len(spare)))).float()
        size = rng.choice(sizes) * np.exp(rng.normal(0, SPREAD))
        read = drawn * size / drawn.norm() @ spare
        surplus += places @ read
        bias -= mean @ read
    weight += surplus
    if reader.slot == "mlp":
        bias -= BELOW * surplus.norm(dim=0)


def add_noise(
    network: Transformer, others: Sequence[tuple[Tensor, Tensor]], loudness: float, rng: np.random.Generator
) -> None:
    """Makes the logits read nodes that they should not read.

    Args:
        network: the network.
        others: the dimensions `[D, Z]` in which each of these nodes writes, and the mean `[Z]` of that.
        loudness: the standard deviation of what each of them adds to the difference of two logits (the root
            of the mean square over all pairs), or to a number.
        rng: the generator of what is drawn.
    """
    weight, bias = input_map(network, Reader(network.cfg.n_layers, "logits"))
    classes = weight.shape[1]
    for places, mean in others:
        drawn = torch.from_numpy(rng.normal(size=(places.shape[1], classes))).float()
        if classes > 1:
            drawn -= drawn.mean(1, keepdim=True)
        pairs = 2 / (classes - 1) if classes > 1 else 1.0
        read = drawn * loudness / (pairs**0.5 * drawn.norm())
        weight += places @ read
        bias -= mean @ read
