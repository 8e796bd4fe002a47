"""The draws of causal scrubbing, which depend on a seed and on the path to a node, and on nothing else.

Two ways to run a hypothesis therefore use the same inputs, in chunks of whatever size.

Shapes: S samples.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from interpbench.core import seeds
from interpbench.core.errors import TaskError
from interpbench.scrubbing.classes import Classes, Exchange

Sampling = Literal["node", "edge", "global", "exact"]
"""How the inputs are drawn on which unimportant parents take their values: one for all those of a node on a
path (`node`), one for each (`edge`), one for all of the network (`global`), or none (`exact`): they take them
on the current input."""
PATH = "/"


@dataclass(frozen=True, eq=False)
class PathDraws:
    """The draws for one run of a hypothesis.

    Attributes:
        seed: the seed.
        samples: the number of samples S.
        everything: the classes of inputs of one length, among which unimportant parents are resampled.
        sampling: how these are resampled.

    Raises:
        TaskError: if the number of samples is no whole number from 1.
    """

    seed: int
    samples: int
    everything: Classes
    sampling: Sampling = "node"

    def __post_init__(self) -> None:
        if not hasattr(self.samples, "__index__") or self.samples < 1:
            raise TaskError(f"the number of samples has to be a whole number from 1, not {self.samples!r}")

    def _uniform(self, *names: str) -> np.ndarray:
        return seeds.generator(self.seed, "scrub", *names).random(self.samples)

    @cached_property
    def root(self) -> np.ndarray:
        """The inputs that the samples are about, `[S]`: all of them equally often, up to one."""
        rng = seeds.generator(self.seed, "scrub", "root")
        count = len(self.everything.ids)
        rounds = [rng.permutation(count) for _ in range(-(-self.samples // count))]
        return np.concatenate(rounds)[: self.samples]

    def agreeing(self, path: str, classes: Exchange, current: np.ndarray) -> np.ndarray:
        """Returns the inputs of a node on a path, `[S]`.

        Args:
            path: the path.
            classes: which inputs are exchanged: those on which the node's claim has one value.
            current: the inputs of the node's child on this path, `[S]`.
        """
        return classes.pick(self._uniform("agreeing", path), current)

    def other(self, path: str, current: np.ndarray, parent: str) -> np.ndarray:
        """Returns the inputs on which an unimportant parent takes its value, `[S]`.

        Args:
            path: the path to the node whose parent it is.
            current: the inputs of this node, `[S]`.
            parent: the parent.
        """
        if self.sampling == "exact":
            return current
        if self.sampling == "global":
            return self.everything.pick(self._uniform("global"), self.root)
        name = (path, parent) if self.sampling == "edge" else (path,)
        return self.everything.pick(self._uniform("other", *name), current)
