"""Pools: causal scrubbing of hypotheses with too many paths to run them one by one.

Each claim has a *pool*, K scrubbed values of its node for each of N inputs, made once. A draw is an entry of
an input that agrees. Two paths to a claim may draw the same entry, so that their values are not independent:
of two draws from a class of c inputs, this is one in K c. So numbers are biased by the order of (pairs of
paths) / (K c), and intervals take samples that share entries for independent ones. Pools are not cut into
disjoint parts for different readers, which would remove the bias, as K is too small for that. If all of the
network takes what is unimportant from one datum (`global`), there are K such data; agreeing inputs, but not
entries of one input, are then drawn apart.

Shapes: D d_model, V outputs, T positions, N inputs, S samples, K entries for each input, R = K N entries.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial

import numpy as np
import torch
from torch import Tensor

from interpbench.core import seeds
from interpbench.scrubbing.claim_values import ClaimRows, ClaimValues
from interpbench.scrubbing.classes import Exchange
from interpbench.scrubbing.path_draws import PathDraws

ENTRIES = 8192
"""The number of entries of a pool, of all inputs together, if there are no more inputs."""


def pool_size(inputs: int) -> int:
    """Returns the number K of entries for each of some inputs."""
    return max(1, ENTRIES // inputs)


@dataclass(frozen=True, eq=False)
class PoolDraws:
    """The draws for one run. Entry e of a pool is of input e modulo N.

    Attributes:
        base: the draws of samples, whose seed, inputs and sampling are used.
        size: the number K of entries for each input.
        output: the name of the claim about the output, whose entries are the samples.
    """

    base: PathDraws
    size: int
    output: str

    @property
    def _count(self) -> int:
        return len(self.base.everything.ids)

    @cached_property
    def _entries(self) -> np.ndarray:
        """The input of each entry, `[R]`."""
        return np.tile(np.arange(self._count), self.size)

    def inputs(self, claim: str) -> np.ndarray:
        """Returns the input of each entry of a claim, `[R]`, or of each sample, `[S]`."""
        return self.base.root if claim == self.output else self._entries

    def _copies(self, claim: str) -> np.ndarray:
        """Returns which of the K entries of its input an entry of a claim is, `[R]`, or `[S]` of samples."""
        if claim == self.output:
            return np.arange(self.base.samples) % self.size
        return np.repeat(np.arange(self.size), self._count)

    def agreeing(self, claim: str, parent: str, classes: Exchange) -> np.ndarray:
        """Returns the entry of a parent that each entry of a claim reads, `[R]` or `[S]`.

        Args:
            claim: the claim that reads.
            parent: the claim that is read.
            classes: which inputs are exchanged: those on which the parent's claim has one value.
        """
        rng, own = seeds.generator(self.base.seed, "pools", claim, parent), self.inputs(claim)
        drawn = classes.pick(rng.random(len(own)), own)
        together = self.base.sampling == "global"
        copies = self._copies(claim) if together else rng.integers(self.size, size=len(own))
        return copies * self._count + drawn

    def other(self, claim: str, parent: str) -> np.ndarray:
        """Returns the inputs on which an unimportant parent takes its value, `[R]` or `[S]`.

        Args:
            claim: the claim that reads.
            parent: the parent.
        """
        own, sampling = self.inputs(claim), self.base.sampling
        if sampling == "exact":
            return own
        if sampling == "global":
            uniform = seeds.generator(self.base.seed, "pools", "global").random(self.size)
            return self.base.everything.pick(uniform[self._copies(claim)], own)
        names = (claim, "other", parent) if sampling == "edge" else (claim, "other")
        rng = seeds.generator(self.base.seed, "pools", *names)
        return self.base.everything.pick(rng.random(len(own)), own)


def scrub_pools(values: ClaimValues, draws: PoolDraws, classes: Mapping[str, Exchange], rows: int) -> Tensor:
    """Returns the logits of the scrubbed network on each sample, `[V, T, S]`.

    Args:
        values: what nodes write.
        draws: the draws.
        classes: which inputs are exchanged, by claim.
        rows: the number of entries that are made at once.
    """
    hypothesis, pools = values.hypothesis, dict[str, Tensor]()
    waiting = {claim: sum(parent == claim for parent, _ in hypothesis.edges) for claim in hypothesis.order}
    for claim in reversed(hypothesis.order):
        pools[claim] = _pool(claim, values, draws, classes, pools, rows)
        for parent in hypothesis.parents(claim):
            waiting[parent] -= 1
            if not waiting[parent]:
                del pools[parent]
    return pools[hypothesis.output].permute(1, 2, 0)


def _pool(
    claim: str,
    values: ClaimValues,
    draws: PoolDraws,
    classes: Mapping[str, Exchange],
    pools: Mapping[str, Tensor],
    rows: int,
) -> Tensor:
    """Returns the pool of a claim, `[R, D, T]`: in this order, entries are gathered fastest."""
    inputs, other = draws.inputs(claim), cache(partial(draws.other, claim))
    entries = {
        parent: draws.agreeing(claim, parent, classes[parent]) for parent in values.hypothesis.parents(claim)
    }

    def value(some: slice) -> Tensor:
        def read(parents: Sequence[str]) -> Tensor:
            drawn = ((pools[parent], torch.from_numpy(entries[parent][some])) for parent in parents)
            each = [pool.index_select(0, places.to(pool.device)) for pool, places in drawn]
            return sum(each[1:], each[0]).permute(1, 2, 0)

        return values(claim, ClaimRows(inputs[some], lambda parent: other(parent)[some], read))

    each = [value(slice(at, at + rows)).permute(2, 0, 1) for at in range(0, len(inputs), rows)]
    return torch.cat(each)
