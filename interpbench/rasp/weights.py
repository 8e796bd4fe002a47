"""The network that Tracr compiles a program to, as a `Transformer`.

A craft model consists of matrices between spaces whose directions have names. Given an index for every
direction of the residual stream, each matrix is a block of a weight. The network is the one that Tracr's
assembler makes: ReLU, no biases, no normalization, a constant 1 in every token's embedding, and no positional
embedding at BOS.
"""

from collections.abc import Sequence
from itertools import chain
from math import sqrt

import numpy as np
import torch
from tracr.craft import bases, transformers
from tracr.rasp import rasp

from interpbench.core.errors import TaskError
from interpbench.rasp.compile import BOS, PAD, Compiled
from interpbench.rasp.compiled_alignment import layers
from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.model import Transformer

Directions = Sequence[bases.BasisDirection]
Heads = dict[int, list[transformers.AttentionHead]]
Mlps = dict[int, transformers.MLP]
_ONE = bases.BasisDirection("one")


def compiled_network(compiled: Compiled) -> Transformer:
    """Returns the compiled network.

    Its inputs are token ids `[row, 1 + pos]`, BOS first. The id of a token is its index in the vocabulary;
    the next two are BOS and PAD. Its logits are the output classes of the causal model, in order, or the one
    number of a numerical output.
    """
    tokens, places, outputs = _ends(compiled)
    index = _residual(compiled).index_by_direction

    def at(directions: Directions) -> list[int]:
        return [index[direction] for direction in directions]

    heads, mlps = _half_layers(compiled)
    cfg, key_size = _shape(compiled, heads, mlps, len(index))
    network = Transformer(cfg)
    weights = {name: np.zeros(weight.shape) for name, weight in network.state_dict().items()}

    weights["embed.W_E"][range(len(tokens)), at(tokens)] = 1
    if _ONE in index:
        weights["embed.W_E"][:, index[_ONE]] = 1
    weights["pos_embed.W_pos"][range(1, 1 + len(places)), at(places)] = 1
    weights["unembed.W_U"][at(outputs), range(len(outputs))] = 1
    for layer, block in heads.items():
        query, key, value, output = (weights[f"blocks.{layer}.attn.W_{kind}"] for kind in "QKVO")
        for head, parts in enumerate(block):
            seen, moved = at(parts.w_qk.right_space.basis), at(parts.w_ov.output_space.basis)
            scores = parts.w_qk.matrix * sqrt(cfg.d_head / key_size)
            query[head][at(parts.w_qk.left_space.basis), : len(seen)] = scores
            key[head][seen, range(len(seen))] = 1
            value[head][at(parts.w_ov.input_space.basis), : len(moved)] = parts.w_ov.matrix
            output[head][range(len(moved)), moved] = 1
    for layer, block in mlps.items():
        width = block.fst.output_space.num_dims
        weights[f"blocks.{layer}.mlp.W_in"][at(block.fst.input_space.basis), :width] = block.fst.matrix
        weights[f"blocks.{layer}.mlp.W_out"][:width, at(block.snd.output_space.basis)] = block.snd.matrix
    network.load_state_dict({name: torch.from_numpy(weight) for name, weight in weights.items()})
    return network


def sizes(compiled: Compiled) -> tuple[int, int]:
    """Returns d_model of the compiled network, and the width of its heads' keys."""
    residual = _residual(compiled)
    return residual.num_dims, _shape(compiled, *_half_layers(compiled), residual.num_dims)[1]


def _ends(compiled: Compiled) -> tuple[Directions, Directions, Directions]:
    """Returns the directions of tokens, positions and outputs, each in order."""
    program = compiled.program
    tokens = [bases.BasisDirection(rasp.tokens.label, token) for token in (*program.vocab, BOS, PAD)]
    places = [bases.BasisDirection(rasp.indices.label, place) for place in range(program.length)]
    return tokens, places, _outputs(compiled)


def _residual(compiled: Compiled) -> bases.VectorSpaceWithBasis:
    """Returns the vector space of the residual stream."""
    spaces = map(bases.VectorSpaceWithBasis, map(list, _ends(compiled)))
    return bases.join_vector_spaces(compiled.craft.residual_space, *spaces)


def _outputs(compiled: Compiled) -> Directions:
    """Returns the directions of the outputs, in the order of their classes."""
    classes = compiled.program.causal_model.classes
    if classes is None:
        return compiled.output_basis
    directions: dict[object, bases.BasisDirection] = {d.value: d for d in compiled.output_basis}
    if directions.keys() != set(classes):
        raise TaskError(f"Tracr's classes {sorted(map(str, directions))} are not {sorted(map(str, classes))}")
    return [directions[value] for value in classes]


def _half_layers(compiled: Compiled) -> tuple[Heads, Mlps]:
    """Returns the heads and the MLP of each layer that has any."""
    blocks = compiled.craft.blocks
    heads, mlps = Heads(), Mlps()
    for block, layer in zip(blocks, layers(isinstance(block, transformers.MLP) for block in blocks)):
        if isinstance(block, transformers.MLP):
            mlps[layer] = block
        else:
            heads[layer] = list(block.as_multi().heads())
    return heads, mlps


def _shape(compiled: Compiled, heads: Heads, mlps: Mlps, d_model: int) -> tuple[TransformerConfig, int]:
    """Returns the network's configuration, and Tracr's key size, whose root divides attention scores.

    Tracr's heads are as wide as their keys; ours are also as wide as the widest value.
    """
    program, flat = compiled.program, list(chain(*heads.values()))
    key_size = max((max(head.w_qk.matrix.shape) for head in flat), default=1)
    value_size = max((head.w_ov.matrix.shape[1] for head in flat), default=1)
    cfg = TransformerConfig(
        n_layers=1 + max([*heads, *mlps]),
        n_heads=max(map(len, heads.values()), default=1),
        d_model=d_model,
        d_head=max(key_size, value_size),
        d_mlp=max((block.fst.output_space.num_dims for block in mlps.values()), default=1),
        d_vocab=len(program.vocab) + 2,
        d_out=len(compiled.output_basis),
        n_ctx=program.length + 1,
        activation="relu",
        attention="causal" if program.causal else "bidirectional",
        biases=False,
    )
    return cfg, key_size
