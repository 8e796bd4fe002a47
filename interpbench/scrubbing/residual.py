"""Causal scrubbing of a transformer, exact, with one batched call for each component.

The inputs that are drawn are those of `computational_graph`. Hypotheses with too many paths are scrubbed by
`pools` instead.

The nodes of a transformer are `embed`, heads, MLPs and `logits`; if the hypothesis has claims about inputs of
heads, such as `a1.h0<q>`, these are nodes, too, which heads read and which read the other nodes.

Shapes: D d_model, V outputs, T positions, N inputs, S samples, J paths.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from interpbench.circuits.graph import Graph
from interpbench.circuits.naming import EMBED, SLOTS, Reader, is_head_input
from interpbench.scrubbing.claim_values import LOGITS, ClaimRows, ClaimValues
from interpbench.scrubbing.classes import Exchange
from interpbench.scrubbing.hypothesis import Hypothesis
from interpbench.scrubbing.path_draws import PATH, PathDraws
from interpbench.scrubbing.pools import PoolDraws, pool_size, scrub_pools
from interpbench.transformer.model import Transformer
from interpbench.transformer.recording import ActivationCache, record
from interpbench.transformer.tensors import Tokens

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
        self, hypothesis: Hypothesis, draws: PathDraws, classes: Mapping[str, Exchange] | None = None
    ) -> dict[str, ClaimPaths]:
        """Returns the paths to each claim, with the inputs that are drawn for them.

        Args:
            hypothesis: the hypothesis.
            draws: the draws.
            classes: which inputs are exchanged, by claim; None for those of the hypothesis.

        Raises:
            PathLimitError: if there are too many.
        """
        hypothesis.check_paths()
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

    def pool(self, hypothesis: Hypothesis) -> int | None:
        """Returns how many scrubbed values of each input a hypothesis draws from, if it has too many paths.

        None if all paths are run. How large the bias is of pools of so many is said in `pools`.
        """
        return pool_size(self.count) if hypothesis.many else None

    @torch.no_grad()
    def scrub(
        self, hypothesis: Hypothesis, draws: PathDraws, classes: Mapping[str, Exchange] | None = None
    ) -> Tensor:
        """Returns the logits of the scrubbed network on each sample, `[V, T, S]`.

        `draws.root` says of which input each sample is.

        Args:
            hypothesis: the hypothesis, about the nodes of `network_parents`.
            draws: the draws.
            classes: which inputs are exchanged, by claim; None for those of the hypothesis.

        Raises:
            TaskError: if the hypothesis is not about this network.
        """
        parents = network_parents(self.graph, is_split(hypothesis))
        hypothesis.check(parents, str(EMBED), LOGITS)
        known = classes or hypothesis.classes(self.count, draws.everything.ids)
        values = ClaimValues(self.network, self.cache, hypothesis, parents, draws.sampling)
        if size := self.pool(hypothesis):
            return scrub_pools(values, PoolDraws(draws, size, hypothesis.output), known, ROWS)
        run = _Run(values, draws, self.paths(hypothesis, draws, known))
        size = max(1, ROWS // max(len(of.names) for of in run.paths.values()))
        return torch.cat(
            [run.logits(slice(first, first + size)) for first in range(0, draws.samples, size)], -1
        )


@dataclass(frozen=True)
class _Run:
    """One run of a hypothesis: what nodes write on the paths to each claim, deepest first.

    Attributes:
        values: what nodes write.
        draws: the draws.
        paths: the paths to each claim.
    """

    values: ClaimValues
    draws: PathDraws
    paths: Mapping[str, ClaimPaths]
    _others: dict[tuple[str, str], np.ndarray] = field(default_factory=dict[tuple[str, str], np.ndarray])

    def logits(self, some: slice) -> Tensor:
        """Returns the logits `[V, T, S]` of some samples."""
        hypothesis, found = self.values.hypothesis, dict[str, Tensor]()
        for claim in reversed(hypothesis.order):
            rows = ClaimRows(
                self.paths[claim].inputs[:, some].reshape(-1),
                lambda parent, claim=claim: self._other(claim, parent)[:, some].reshape(-1),
                lambda parents, claim=claim: self._sum(parents, claim, found),
            )
            found[claim] = self.values(claim, rows)
        return found[hypothesis.output]

    def _other(self, claim: str, parent: str) -> np.ndarray:
        """Returns the inputs on which an unimportant parent takes its value, `[J, S]`, drawn once."""
        key = claim, parent if self.draws.sampling == "edge" else ""
        if key not in self._others:
            paths = self.paths[claim]
            drawn = [self.draws.other(*each, parent) for each in zip(paths.names, paths.inputs)]
            self._others[key] = np.stack(drawn)
        return self._others[key]

    def _sum(self, parents: Sequence[str], claim: str, values: Mapping[str, Tensor]) -> Tensor:
        """Returns the sum of parents' values on the paths through a claim, `[D, T, J × S]`."""
        found: list[Tensor] = []
        for parent in parents:
            paths = self.paths[parent]
            each = values[parent].shape[-1] // len(paths.names)
            first, count = paths.starts[claim], len(self.paths[claim].names)
            found.append(values[parent][..., first * each : (first + count) * each])
        return sum(found[1:], found[0])
