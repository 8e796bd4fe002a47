"""A transformer as a graph of functions, one for each component: slow, and open to any rewrite.

`residual` scrubs the same network with a call for each component; this is for hypotheses about parts that it
does not know, and shows what it has to give.

Shapes: D d_model, V outputs, T positions, S samples.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from interpbench.circuits.naming import EMBED, SLOTS, Node, Reader
from interpbench.scrubbing.computational_graph import ComputationalGraph, Operation
from interpbench.scrubbing.residual import LOGITS, network_parents
from interpbench.transformer.layers import Block
from interpbench.transformer.model import Transformer


def network_graph(network: Transformer, split: bool = False) -> ComputationalGraph:
    """Returns a network as a graph of functions of `[S, T, D]`; its input is token ids `[S, T]`.

    Args:
        network: the network.
        split: whether the inputs of heads are nodes.
    """
    graph = network.cfg.graph
    parents = network_parents(graph, split)
    operations: dict[str, Operation] = {}
    for node in graph.nodes:
        if split and node.head is not None:
            for slot in SLOTS:
                name = str(Reader(node.layer, slot, node.head))
                operations[name] = Operation(parents[name], _sum(network, node.layer))
        operations[str(node)] = Operation(parents[str(node)], _function(network, node, split))
    end = _sum(network, network.cfg.n_layers)

    def logits(*read: Tensor) -> Tensor:
        return _turned(network.unembed(network.ln_final(_turned(end(*read)))))

    operations[LOGITS] = Operation(parents[LOGITS], logits)
    return ComputationalGraph(operations, LOGITS)


def _turned(values: Tensor) -> Tensor:
    """Returns `[S, T, D]` as `[D, T, S]`, and the reverse."""
    return values.permute(2, 1, 0)


def _sum(network: Transformer, layers: int) -> Callable[..., Tensor]:
    """Returns the function that sums what nodes write, and the biases of the first layers' attention."""
    blocks: list[Block] = list(network.blocks)[:layers]  # type: ignore[arg-type]

    def total(*read: Tensor) -> Tensor:
        summed = read[0].clone()
        for each in (*read[1:], *(block.attn.b_O for block in blocks)):
            summed = summed + each
        return summed

    return total


def _function(network: Transformer, node: Node, split: bool) -> Callable[..., Tensor]:
    """Returns the function of a node."""
    if node == EMBED:
        return lambda tokens: _turned(network.embedding(tokens))
    block: Block = network.blocks[node.layer]  # type: ignore[assignment]
    head = node.head
    if head is None:
        summed = _sum(network, node.layer + 1)
        return lambda *read: _turned(block.mlp(block.ln2(_turned(summed(*read)))))
    before = _sum(network, node.layer)

    def attention(*read: Tensor) -> Tensor:
        inputs = read if split else (before(*read),) * 3
        normed = block.ln1(torch.stack([_turned(each) for each in inputs]))
        q, k, v = block.attn.project_each(normed, block.attn.maps(heads=[head]))
        return _turned(block.attn.write(block.attn.mix(block.attn.pattern(q, k), v), [head])[0])

    return attention
