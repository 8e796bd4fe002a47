"""What a claim's node writes on rows, each of which says what the node reads.

All terms of a reader's input that a hypothesis leaves unimportant take their values on one input. So they are
one gather from the residual stream of the clean run, less the important nodes, in whose place come their
scrubbed values. The scale of a norm sees the mixed input.

Shapes: D d_model, V outputs, T positions, N inputs, R rows, W nodes.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from interpbench.circuits.graph import Graph
from interpbench.circuits.naming import EMBED, SLOTS, Node, Reader, is_head_input
from interpbench.scrubbing.hypothesis import Hypothesis
from interpbench.scrubbing.path_draws import Sampling
from interpbench.transformer.layers import Block
from interpbench.transformer.model import Transformer
from interpbench.transformer.recording import ActivationCache

LOGITS = "logits"
NodeOrReader = TypeVar("NodeOrReader", Node, Reader)


@dataclass(frozen=True)
class ClaimRows:
    """What a claim's node reads on some rows, one for each path and sample, or for each entry of a pool.

    Attributes:
        inputs: the node's input on each row, `[R]`.
        others: the inputs on which an unimportant parent takes its value, `[R]`, by the parent's name; any
            name will do if unimportant parents share them.
        read: the sum of the values of important parents, `[D, T, R]`, given the names of their claims.
    """

    inputs: np.ndarray
    others: Callable[[str], np.ndarray]
    read: Callable[[Sequence[str]], Tensor]


@dataclass(frozen=True)
class ClaimValues:
    """What nodes of a network write.

    Attributes:
        network: the network.
        cache: its clean run, on N inputs.
        hypothesis: the hypothesis.
        parents: what each node of the network reads.
        sampling: how unimportant parents are resampled.
    """

    network: Transformer
    cache: ActivationCache
    hypothesis: Hypothesis
    parents: Mapping[str, Sequence[str]]
    sampling: Sampling

    def __call__(self, claim: str, rows: ClaimRows) -> Tensor:
        """Returns what a claim's node writes, or what an input of a head is, `[D, T, R]`, or logits."""
        image, network = self.hypothesis.claims[claim].image, self.network
        graph = network.cfg.graph
        if image == str(EMBED):
            return gathered(self.cache.stack[0], rows.inputs)
        if image == LOGITS:
            return network.unembed(network.ln_final(self._input(claim, graph.readers[-1], rows)))
        if is_head_input(image):
            return self._input(claim, named(graph.readers, image), rows)
        node = named(graph.nodes, image)
        block: Block = network.blocks[node.layer]  # type: ignore[assignment]
        if node.head is None:
            return block.mlp(block.ln2(self._input(claim, Reader(node.layer, "mlp"), rows)))
        return _head(block, node, self._head_inputs(claim, node, rows))

    def _head_inputs(self, claim: str, node: Node, rows: ClaimRows) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the q, k and v inputs of a head, `[D, T, R]` each."""
        readers = [Reader(node.layer, slot, node.head) for slot in SLOTS]
        if tuple(self.parents[str(node)]) != tuple(map(str, readers)):
            read = self._input(claim, readers[0], rows)
            return read, read, read
        important = self._important(claim)
        q, k, v = (
            rows.read([important[name]])
            if (name := str(reader)) in important
            else gathered(stream_before(self.cache, reader), rows.others(name))
            for reader in readers
        )
        return q, k, v

    def _important(self, claim: str) -> dict[str, str]:
        """Returns the parents of a claim by what they are about."""
        return {self.hypothesis.claims[parent].image: parent for parent in self.hypothesis.parents(claim)}

    def _input(self, claim: str, reader: Reader, rows: ClaimRows) -> Tensor:
        """Returns what a claim's node reads from the residual stream, `[D, T, R]`."""
        graph, important = self.network.cfg.graph, self._important(claim)
        if self.sampling == "edge":
            names = self.parents[self.hypothesis.claims[claim].image]
            stream, stack = stream_before(self.cache, reader), self.cache.stack[: len(names)]
            constant = stream[..., :1] - stack[..., :1].sum(0)
            total = constant.expand(-1, -1, len(rows.inputs)).clone()
            for place, name in enumerate(names):
                if name not in important:
                    total += gathered(stack[place], rows.others(name))
        else:
            total = unimportant(self.cache, graph, reader, important, rows.others(""))
        return total + rows.read(list(important.values())) if important else total


def named(choices: Sequence[NodeOrReader], name: str) -> NodeOrReader:
    """Returns the node or reader that has a name."""
    return next(one for one in choices if str(one) == name)


def stream_before(cache: ActivationCache, reader: Reader) -> Tensor:
    """Returns the residual stream of the clean run before a reader, `[D, T, N]`."""
    return cache.middles[reader.layer] if reader.slot == "mlp" else cache.residuals[reader.layer]


def unimportant(
    cache: ActivationCache,
    graph: Graph,
    reader: Reader,
    important: Collection[str],
    inputs: np.ndarray | None = None,
) -> Tensor:
    """Returns the residual stream before a reader less what important nodes write.

    Args:
        cache: the clean run.
        graph: the network's graph.
        reader: the reader.
        important: the names of the important nodes, all of which the reader reads.
        inputs: the inputs on which it is wanted, `[R]`; None for each once.

    Returns:
        `[D, T, R]`, or `[D, T, N]`.
    """
    stream = stream_before(cache, reader)
    parts = [cache.stack[graph.node_index[named(graph.nodes, name)]] for name in important]
    few = inputs is not None and len(inputs) < stream.shape[-1]
    if inputs is not None and few:
        stream, parts = gathered(stream, inputs), [gathered(part, inputs) for part in parts]
    rest = stream - sum(parts)
    return rest if inputs is None or few else gathered(rest, inputs)


def gathered(values: Tensor, inputs: np.ndarray) -> Tensor:
    """Returns values `[D, T, N]` on some inputs `[R]`, `[D, T, R]`."""
    chosen = torch.from_numpy(inputs).to(values.device)
    # Of a matrix, torch selects columns up to 25 times as fast as of an array with three axes.
    return values.flatten(0, 1).index_select(1, chosen).unflatten(0, values.shape[:2])


def _head(block: Block, node: Node, inputs: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    """Returns what a head writes, `[D, T, R]`, given its q, k and v inputs."""
    assert node.head is not None
    attention, heads = block.attn, [node.head]
    maps = attention.maps(heads=heads)
    q, k, v = attention.project_each(block.ln1(torch.stack(inputs)), maps)
    return attention.write(attention.mix(attention.pattern(q, k), v), heads)[0]
