"""Causal scrubbing with a claim for each node at each position.

A head's output at a position is a function of its query there and of keys and values at all positions, and
each of these is exchanged on its own. There are far too many paths to run one by one. So each claim has a
*pool*: what its node writes at each position if the input is each of N, scrubbed once. A draw is the entry of
an input that agrees. Two paths may draw the same entry, so that their outputs are not independent; of two
draws from a pool of N this is one in N.

Shapes: D d_model, V outputs, T positions, Q positions of queries, N inputs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from interpbench.circuits.naming import EMBED, SLOTS, Node, Reader, is_head_input
from interpbench.core import seeds
from interpbench.core.errors import TaskError
from interpbench.scrubbing.claim_values import LOGITS, named, unimportant
from interpbench.scrubbing.classes import Classes
from interpbench.scrubbing.hypothesis import Hypothesis
from interpbench.scrubbing.path_draws import Sampling
from interpbench.scrubbing.residual import ScrubbedNetwork, network_parents
from interpbench.transformer.layers import Block


@dataclass(frozen=True, eq=False)
class PositionDraws:
    """The draws for one run, which depend on the seed and on names alone.

    Attributes:
        seed: the seed.
        count: the number of inputs N.
        length: the number of positions T.
        everything: the classes of inputs of one length, among which unimportant parents are resampled.
        sampling: how these are resampled: one input for all those of a node at a position (`node`), or the
            input itself (`exact`).
        sources: bool `[Q, T, N]` by claim, the positions from which a query of the input needs what the claim
            reads; at others any input of the same length will do. Without a claim, all are needed.

    Raises:
        TaskError: if unimportant parents are to be resampled in another way.
    """

    seed: int
    count: int
    length: int
    everything: Classes
    sampling: Sampling = "node"
    sources: Mapping[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])

    def __post_init__(self) -> None:
        if self.sampling not in ("node", "exact"):
            raise TaskError(f"by position, the sampling can be node or exact, not {self.sampling!r}")

    def agreeing(self, claim: str, parent: str, classes: list[Classes], queries: bool) -> np.ndarray:
        """Returns the inputs of a parent at each position, `[T, N]`, or for each query, `[Q, T, N]`.

        Args:
            claim: the claim that reads.
            parent: the claim that is read.
            classes: the classes of inputs by position, `T` of them.
            queries: whether a query at each position has inputs of its own.
        """
        shape = (self.length if queries else 1, self.length, self.count)
        uniform = seeds.generator(self.seed, "positions", claim, parent).random(shape)
        own = np.tile(np.arange(self.count), shape[0])

        def picked(classes: list[Classes]) -> np.ndarray:
            each = [classes[s].pick(uniform[:, s].reshape(-1), own) for s in range(self.length)]
            return np.stack(each).reshape(self.length, shape[0], self.count).swapaxes(0, 1)

        found = picked(classes)
        if queries and claim in self.sources and self.sampling != "exact":
            found = np.where(self.sources[claim], found, picked([self.everything] * self.length))
        return found if queries else found[0]

    def other(self, claim: str) -> np.ndarray:
        """Returns the inputs on which the unimportant parents of a claim take their values, `[T, N]`."""
        own = np.tile(np.arange(self.count), (self.length, 1))
        if self.sampling == "exact":
            return own
        uniform = seeds.generator(self.seed, "positions", claim, "other").random(own.shape)
        return np.stack([self.everything.pick(some, mine) for some, mine in zip(uniform, own)])


def position_classes(
    values: Mapping[str, np.ndarray], length: int, lengths: np.ndarray | None = None
) -> dict[str, list[Classes]]:
    """Returns the classes of inputs by claim and position; all of one length agree at BOS.

    Args:
        values: the values by claim, `[N, pos, ...]` with T - 1 positions.
        length: the number of positions T.
        lengths: the length of each input, `[N]`, if they differ.

    Raises:
        TaskError: if there are values at another number of positions.
    """
    found: dict[str, list[Classes]] = {}
    for name, table in values.items():
        if table.shape[1] != length - 1:
            raise TaskError(f"claim {name!r} has values at {table.shape[1]} positions, not {length - 1}")
        bos = Classes.of(np.zeros(len(table)), len(table), lengths)
        found[name] = [bos, *(Classes.of(table[:, at], len(table), lengths) for at in range(length - 1))]
    return found


@torch.no_grad()
def scrub_positions(
    scrubbed: ScrubbedNetwork,
    hypothesis: Hypothesis,
    classes: Mapping[str, list[Classes]],
    draws: PositionDraws,
) -> Tensor:
    """Returns the logits of the scrubbed network on each input, `[V, T, N]`.

    Args:
        scrubbed: the network.
        hypothesis: the hypothesis, whose claims are called as what they are about; those about inputs of
            heads only say what these read.
        classes: the classes of inputs of each node's claim, by position.
        draws: the draws.

    Raises:
        TaskError: if the hypothesis is not about this network.
    """
    hypothesis.check(network_parents(scrubbed.graph, True), str(EMBED), LOGITS)
    pools: dict[str, Tensor] = {}
    for claim in reversed(hypothesis.order):
        image = hypothesis.claims[claim].image
        if image == str(EMBED):
            pools[claim] = scrubbed.cache.stack[0]
        elif not is_head_input(image):
            pools[claim] = _Pool(scrubbed, hypothesis, classes, draws, pools, claim).value()
    return pools[hypothesis.output]


@dataclass(frozen=True)
class _Pool:
    """What a claim's node writes at each position, given the pools of what it reads.

    Attributes:
        base: the network and its clean run.
        hypothesis: the hypothesis.
        classes: the classes of inputs of each node's claim, by position.
        draws: the draws.
        pools: the pools of earlier claims, `[D, T, N]`.
        claim: the claim.
    """

    base: ScrubbedNetwork
    hypothesis: Hypothesis
    classes: Mapping[str, list[Classes]]
    draws: PositionDraws
    pools: Mapping[str, Tensor]
    claim: str

    def value(self) -> Tensor:
        """Returns the pool, `[D, T, N]`, or logits `[V, T, N]`."""
        image, network = self.hypothesis.claims[self.claim].image, self.base.network
        if image == LOGITS:
            return network.unembed(network.ln_final(self._here(self.claim, self.base.graph.readers[-1])))
        node = named(self.base.graph.nodes, image)
        block: Block = network.blocks[node.layer]  # type: ignore[assignment]
        if node.head is None:
            return block.mlp(block.ln2(self._here(self.claim, Reader(node.layer, "mlp"))))
        return self._attend(node, block)

    def _attend(self, node: Node, block: Block) -> Tensor:
        """Returns the pool of a head, one query after the other."""
        assert node.head is not None
        attention, heads = block.attn, [node.head]
        readers = [Reader(node.layer, slot, node.head) for slot in SLOTS]
        own = {self.hypothesis.claims[p].image: p for p in self.hypothesis.parents(self.claim)}
        names = [own.get(str(reader), f"{self.claim}/{reader}") for reader in readers]
        queries = self._here(names[0], readers[0])
        keys, values = (self._for_queries(name, reader) for name, reader in zip(names[1:], readers[1:]))
        maps = attention.maps(heads=heads)
        rows = queries.shape[-1]
        written: list[Tensor] = []
        for at in range(queries.shape[1]):
            inputs = torch.stack([queries, keys(at), values(at)])
            q, k, v = attention.project_each(block.ln1(inputs), maps)
            place = torch.full((rows,), at, device=q.device)
            pattern = attention.pattern(q[:, :, at : at + 1], k, place)
            written.append(attention.write(attention.mix(pattern, v), heads)[0])
        return torch.cat(written, 1)

    def _parts(self, name: str, reader: Reader) -> tuple[dict[str, Tensor], Tensor]:
        """Returns the pools that a reader reads, by claim, and the rest of its clean input, `[D, T, N]`."""
        parents = self.hypothesis.parents(name) if name in self.hypothesis.claims else ()
        images = [self.hypothesis.claims[parent].image for parent in parents]
        rest = unimportant(self.base.cache, self.base.graph, reader, images)
        return {parent: self.pools[parent] for parent in parents}, rest

    def _here(self, name: str, reader: Reader) -> Tensor:
        """Returns what a reader reads at each position, `[D, T, N]`."""
        pools, rest = self._parts(name, reader)
        total = _at(rest, self.draws.other(name))
        for parent, pool in pools.items():
            total = total + _at(pool, self.draws.agreeing(name, parent, self.classes[parent], False))
        return total

    def _for_queries(self, name: str, reader: Reader) -> Callable[[int], Tensor]:
        """Returns what a reader of keys or values reads, `[D, T, N]`, as a function of the query's place."""
        pools, rest = self._parts(name, reader)
        other = self.draws.other(name)
        drawn = {parent: self.draws.agreeing(name, parent, self.classes[parent], True) for parent in pools}

        def read(at: int) -> Tensor:
            total = _at(rest, np.broadcast_to(other[at], other.shape))
            for parent, pool in pools.items():
                total = total + _at(pool, drawn[parent][at])
            return total

        return read


def _at(values: Tensor, inputs: np.ndarray) -> Tensor:
    """Returns values `[D, T, N]` on the inputs `[T, N]` of each position."""
    index = torch.from_numpy(np.ascontiguousarray(inputs)).to(values.device)
    return values.gather(2, index.expand(len(values), -1, -1))
