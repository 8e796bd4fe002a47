"""Soft classes: inputs are exchanged the likelier the closer their values are, for values that seldom repeat.

With exact classes, a claim about a number that no two inputs share exchanges nothing. Here input i gets input
j with the probability K[i, j], a Gaussian kernel of the distance of their values that Sinkhorn's iteration
has made doubly stochastic (Sinkhorn 1964): rows sum to one as they are probabilities, columns so that drawn
inputs are distributed as the inputs are.

Shapes: N inputs, S samples.
"""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from interpbench.core.errors import TaskError
from interpbench.scrubbing.classes import Classes, Exchange
from interpbench.scrubbing.hypothesis import Hypothesis

STEPS, ENOUGH = 1000, 1e-9
"""The largest number of Sinkhorn's iterations, and how far sums may then be from one."""
MOST = 8192
"""The largest number of inputs, whose kernel has half a gibibyte."""


@dataclass(frozen=True, eq=False)
class SoftClasses:
    """The exchange of inputs with similar values.

    Attributes:
        kernel: the probability with which each input gets each other, `[N, N]`, doubly stochastic.
    """

    kernel: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, width: float, lengths: np.ndarray | None = None) -> "SoftClasses":
        """Returns the exchange by a Gaussian kernel.

        Args:
            values: the values, `[N]` or `[N, ...]`.
            width: the standard deviation of the kernel, as a share of that of the values.
            lengths: the length of each input, `[N]`, if they differ: others than of its length no input gets.

        Raises:
            TaskError: if values are not finite, the width is not positive, or there are too many inputs.
        """
        table = np.asarray(values, np.float64).reshape(len(values), -1)
        if not np.isfinite(table).all() or not width > 0:
            raise TaskError(f"soft classes need finite values and a positive width, not {width}")
        if len(table) > MOST:
            raise TaskError(f"soft classes are of at most {MOST:,} inputs, not {len(table):,}")
        scale = table.std(0)
        squares = np.zeros((len(table), len(table)))
        for column in (table / np.where(scale > 0, scale, 1) / width).T:
            squares += (column[:, None] - column) ** 2
        kernel = np.exp(-squares / 2)
        if lengths is not None:
            kernel = kernel * (lengths[:, None] == lengths)
        return cls(doubly_stochastic(kernel))

    @cached_property
    def _sums(self) -> np.ndarray:
        """The cumulative probabilities of each row, which end with 1."""
        sums = np.cumsum(self.kernel, 1)
        return sums / sums[:, -1:]

    def pick(self, uniform: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        """Returns, for each input, one with a similar value, `[S]`.

        Args:
            uniform: numbers from 0 to 1, exclusive, `[S]`, which choose.
            inputs: the inputs, `[S]`.
        """
        rows = self._sums[inputs]
        return np.minimum((rows <= uniform[:, None]).sum(1), len(self.kernel) - 1)

    @property
    def alone(self) -> float:
        """The mean probability with which an input stays as it is."""
        return float(np.diag(self.kernel).mean())

    @property
    def effective_size(self) -> float:
        """The effective number of inputs that one is exchanged with: exp of the mean entropy, in nats."""
        logs = np.log(np.where(self.kernel > 0, self.kernel, 1))
        return float(np.exp(-(self.kernel * logs).sum(1).mean()))


def doubly_stochastic(kernel: np.ndarray) -> np.ndarray:
    """Returns a symmetric kernel `[N, N]` scaled so that its rows and columns sum to one.

    Raises:
        TaskError: if that takes too many steps.
    """
    scale = np.ones(len(kernel))
    for _ in range(STEPS):
        scale = np.sqrt(scale / (kernel @ scale))  # the symmetric iteration (Knight, Ruiz and Uçar 2014)
        made = scale[:, None] * kernel * scale
        if np.abs(made.sum(1) - 1).max() < ENOUGH:
            return made
    raise TaskError(f"the kernel is not doubly stochastic after {STEPS} steps; try a larger width")


def softened(
    hypothesis: Hypothesis, numbers: Collection[str], width: float, lengths: Classes
) -> dict[str, Exchange]:
    """Returns which inputs are exchanged under a hypothesis, by claim, softly where it is about numbers.

    Args:
        hypothesis: the hypothesis.
        numbers: the names of the nodes whose values are numbers.
        width: the standard deviation of the kernel, as a share of that of the values.
        lengths: the classes of inputs of one length.

    Raises:
        TaskError: if there is no such claim.
    """
    classes = hypothesis.classes(len(lengths.ids), lengths.ids)
    soft: dict[str, Exchange] = {}
    for name in classes:
        claim = hypothesis.claims[name]
        if claim.image in numbers and claim.values is not None:
            soft[name] = SoftClasses.of(claim.values, width, lengths.ids)
    if not soft:
        raise TaskError("no claim is about numbers, of which inputs could be exchanged by similarity")
    return {**classes, **soft}
