"""Causal scrubbing of a transformer, exact, with one batched call for each component.

All terms of a reader's input that a hypothesis leaves unimportant take their values on one input. So they are
one gather from the residual stream of the clean run, less the important nodes, in whose place come their
values on the paths below. The scale of a norm sees the mixed input. The inputs that are drawn are those of
`computational_graph`.

The nodes of a transformer are `embed`, heads, MLPs and `logits`; if the hypothesis has claims about inputs of
heads, such as `a1.h0<q>`, these are nodes, too, which heads read and which read the other nodes.

Shapes: D d_model, V outputs, T positions, N inputs, S samples, J paths, W nodes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from interpbench.circuits.graph import Graph
from interpbench.circuits.naming import EMBED, SLOTS, Node, Reader, is_head_input
from interpbench.scrubbing.classes import Classes
from interpbench.scrubbing.hypothesis import Hypothesis
from interpbench.scrubbing.path_draws import PATH, PathDraws
from interpbench.transformer.layers import Block
from interpbench.transformer.model import Transformer
from interpbench.transformer.recording import ActivationCache, record
from interpbench.transformer.tensors import Tokens

LOGITS = "logits"
ROWS = 4096
"""The number of rows that a component is run on at once."""


def is_split(hypothesis: Hypothesis) -> bool:
    """Returns whether a hypothesis has claims about inputs of heads."""
    return any(is_head_input(claim.image) for claim in hypothesis.claims.values())


def network_parents(graph: Graph, split: bool) -> dict[str, tuple[str, ...]]:
    """Returns what each node of a transformer reads, by name.

    Args:
        graph: the network's graph.
        split: whether the inputs of heads are nodes.
    """
    parents: dict[str, tuple[str, ...]] = {}
    for node in graph.nodes:
        if node == EMBED:
            parents[str(node)] = ()
        elif node.head is None:
            parents[str(node)] = _before(graph, Reader(node.layer, "mlp"))
        else:
            inputs = [Reader(node.layer, slot, node.head) for slot in SLOTS]
            if split:
                parents.update({str(reader): _before(graph, reader) for reader in inputs})
            parents[str(node)] = tuple(map(str, inputs)) if split else _before(graph, inputs[0])
    parents[LOGITS] = _before(graph, graph.readers[-1])
    return parents


def _before(graph: Graph, reader: Reader) -> tuple[str, ...]:
    return tuple(map(str, graph.nodes[: graph.writers_before(reader)]))


@dataclass(frozen=True)
class ClaimPaths:
    """The paths to a claim, those through its first child first.

    Attributes:
        names: the path of each, J of them.
        inputs: the input of the claim's node on each path, `[J, S]`.
        starts: where the paths through each child begin, by child.
    """

    names: list[str]
    inputs: np.ndarray
    starts: dict[str, int]


class ScrubbedNetwork:
    """A network, ready to be scrubbed on some inputs.

    Args:
        network: the network.
        tokens: the inputs, `[N, T]`.
    """

    def __init__(self, network: Transformer, tokens: Tokens):
        self.network, self.graph, self.count = network, network.cfg.graph, len(tokens)
        with torch.no_grad():
            parts = [record(network, tokens[first : first + ROWS]) for first in range(0, len(tokens), ROWS)]
        self.logits = torch.cat([logits for logits, _ in parts], -1)
        caches = [cache for _, cache in parts]
        self.cache = ActivationCache(
            torch.cat([cache.stack for cache in caches], -1),
            [torch.cat(layer, -1) for layer in zip(*(cache.residuals for cache in caches))],
            [torch.cat(layer, -1) for layer in zip(*(cache.middles for cache in caches))],
        )

    def paths(
        self, hypothesis: Hypothesis, draws: PathDraws, classes: Mapping[str, Classes] | None = None
    ) -> dict[str, ClaimPaths]:
        """Returns the paths to each claim, with the inputs that are drawn for them.

        Args:
            hypothesis: the hypothesis.
            draws: the draws.
            classes: the classes of inputs by claim; None for those of the hypothesis.
        """
        known = classes or hypothesis.classes(self.count, draws.everything.ids)
        found: dict[str, ClaimPaths] = {}
        for claim in hypothesis.order:
            if claim == hypothesis.output:
                found[claim] = ClaimPaths([claim], draws.root[None], {})
                continue
            names: list[str] = []
            inputs: list[np.ndarray] = []
            starts: dict[str, int] = {}
            for child in found:
                if claim in hypothesis.parents(child):
                    starts[child] = len(names)
                    for above, current in zip(found[child].names, found[child].inputs):
                        names.append(f"{above}{PATH}{claim}")
                        inputs.append(draws.agreeing(names[-1], known[claim], current))
            found[claim] = ClaimPaths(names, np.stack(inputs), starts)
        return found

    @torch.no_grad()
    def scrub(
        self, hypothesis: Hypothesis, draws: PathDraws, classes: Mapping[str, Classes] | None = None
    ) -> Tensor:
        """Returns the logits of the scrubbed network on each sample, `[V, T, S]`.

        `draws.root` says of which input each sample is.

        Args:
            hypothesis: the hypothesis, about the nodes of `network_parents`.
            draws: the draws.
            classes: the classes of inputs by claim; None for those of the hypothesis.

        Raises:
            TaskError: if the hypothesis is not about this network.
        """
        split = is_split(hypothesis)
        parents = network_parents(self.graph, split)
        hypothesis.check(parents, str(EMBED), LOGITS)
        paths = self.paths(hypothesis, draws, classes)
        most = max(len(of.names) for of in paths.values())
        size = max(1, ROWS // most)
        run = _Run(self, hypothesis, draws, paths, parents)
        chunks = [slice(first, first + size) for first in range(0, draws.samples, size)]
        return torch.cat([run.logits(chunk) for chunk in chunks], -1)


@dataclass(frozen=True)
class _Run:
    """One run of a hypothesis: what nodes write on the paths to each claim, deepest first.

    Attributes:
        base: the network and its clean run.
        hypothesis: the hypothesis.
        draws: the draws.
        paths: the paths to each claim.
        parents: what each node of the network reads.
    """

    base: ScrubbedNetwork
    hypothesis: Hypothesis
    draws: PathDraws
    paths: Mapping[str, ClaimPaths]
    parents: Mapping[str, tuple[str, ...]]

    def logits(self, some: slice) -> Tensor:
        """Returns the logits `[V, T, S]` of some samples."""
        values: dict[str, Tensor] = {}
        for claim in reversed(self.hypothesis.order):
            values[claim] = self._value(claim, values, some)
        return values[self.hypothesis.output]

    def _value(self, claim: str, values: Mapping[str, Tensor], some: slice) -> Tensor:
        """Returns what a claim's node writes on all paths to it, or what an input is, `[D, T, J × S]`."""
        image, network = self.hypothesis.claims[claim].image, self.base.network
        if image == str(EMBED):
            return self._gather(self.base.cache.stack[0], self.paths[claim].inputs[:, some])
        if image == LOGITS:
            read = self._input(claim, self.base.graph.readers[-1], values, some)
            return network.unembed(network.ln_final(read))
        if is_head_input(image):
            reader = next(one for one in self.base.graph.readers if str(one) == image)
            return self._input(claim, reader, values, some)
        node = next(one for one in self.base.graph.nodes if str(one) == image)
        block: Block = network.blocks[node.layer]  # type: ignore[assignment]
        if node.head is None:
            return block.mlp(block.ln2(self._input(claim, Reader(node.layer, "mlp"), values, some)))
        return _head(block, node, self._inputs(claim, node, values, some))

    def _inputs(
        self, claim: str, node: Node, values: Mapping[str, Tensor], some: slice
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the q, k and v inputs of a head on all paths, `[D, T, J × S]` each."""
        readers = [Reader(node.layer, slot, node.head) for slot in SLOTS]
        if self.parents[str(node)] != tuple(map(str, readers)):
            read = self._input(claim, readers[0], values, some)
            return read, read, read
        q, k, v = (self._seen(claim, reader, values, some) for reader in readers)
        return q, k, v

    def _seen(self, claim: str, reader: Reader, values: Mapping[str, Tensor], some: slice) -> Tensor:
        """Returns one input of a head: that of its own claim, or on an input that is drawn."""
        for parent in self.hypothesis.parents(claim):
            if self.hypothesis.claims[parent].image == str(reader):
                return self._from(parent, claim, values)
        return self._gather(self._stream(reader), self._others(claim, str(reader), some))

    def _input(self, claim: str, reader: Reader, values: Mapping[str, Tensor], some: slice) -> Tensor:
        """Returns what a claim's node reads from the residual stream on all paths, `[D, T, J × S]`."""
        graph, stack = self.base.graph, self.base.cache.stack
        index = {str(node): place for place, node in enumerate(graph.nodes)}
        important = {
            self.hypothesis.claims[parent].image: parent for parent in self.hypothesis.parents(claim)
        }
        stream = self._stream(reader)
        if self.draws.sampling == "edge":
            names = self.parents[self.hypothesis.claims[claim].image]
            constant = stream[..., :1] - stack[: len(names), ..., :1].sum(0)
            total = constant.expand(-1, -1, self.paths[claim].inputs[:, some].size).clone()
            for name in names:
                if name not in important:
                    total += self._gather(stack[index[name]], self._others(claim, name, some))
        else:
            unimportant = stream - sum(stack[index[name]] for name in important)
            total = self._gather(unimportant, self._others(claim, "", some))
        for parent in important.values():
            total += self._from(parent, claim, values)
        return total

    def _stream(self, reader: Reader) -> Tensor:
        """Returns the residual stream of the clean run before a reader, `[D, T, N]`."""
        cache = self.base.cache
        return cache.middles[reader.layer] if reader.slot == "mlp" else cache.residuals[reader.layer]

    def _others(self, claim: str, parent: str, some: slice) -> np.ndarray:
        """Returns the inputs on which an unimportant parent takes its value, `[J, S]`."""
        paths = self.paths[claim]
        drawn = [self.draws.other(name, current, parent) for name, current in zip(paths.names, paths.inputs)]
        return np.stack(drawn)[:, some]

    def _from(self, parent: str, claim: str, values: Mapping[str, Tensor]) -> Tensor:
        """Returns the values of a parent on the paths through a claim, `[D, T, J × S]`."""
        paths = self.paths[parent]
        each = values[parent].shape[-1] // len(paths.names)
        first, count = paths.starts[claim], len(self.paths[claim].names)
        return values[parent][..., first * each : (first + count) * each]

    def _gather(self, values: Tensor, inputs: np.ndarray) -> Tensor:
        """Returns values `[D, T, N]` on some inputs `[J, S]`, `[D, T, J × S]`."""
        return values.index_select(-1, torch.from_numpy(inputs.reshape(-1)).to(values.device))


def _head(block: Block, node: Node, inputs: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    """Returns what a head writes, `[D, T, rows]`, given its q, k and v inputs."""
    assert node.head is not None
    attention, heads = block.attn, [node.head]
    maps = attention.maps(heads=heads)
    q, k, v = attention.project_each(block.ln1(torch.stack(inputs)), maps)
    return attention.write(attention.mix(attention.pattern(q, k), v), heads)[0]
