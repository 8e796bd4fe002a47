"""Classes of inputs: those on which a claim has one value, among which causal scrubbing exchanges inputs."""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from interpbench.core.errors import TaskError

KINDS = "biufUS"
"""The kinds of values that can be compared, as numpy calls them: truth values, numbers and words."""


class Exchange(Protocol):
    """Which inputs are exchanged with which."""

    @property
    def alone(self) -> float:
        """How often an input is exchanged with no other."""
        ...

    @property
    def effective_size(self) -> float:
        """The effective number of inputs that one is exchanged with, itself included."""
        ...

    def pick(self, uniform: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        """Returns, for each input, one that it may be exchanged with, `[S]`.

        Args:
            uniform: numbers from 0 to 1, exclusive, `[S]`, which choose.
            inputs: the inputs, `[S]`.
        """
        ...


@dataclass(frozen=True, eq=False)
class Classes:
    """A partition of the inputs 0 to N - 1.

    Attributes:
        ids: the class of each input, `[N]`, numbered from 0 without gaps.
    """

    ids: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray | None, count: int, lengths: np.ndarray | None = None) -> "Classes":
        """Returns the classes of inputs with equal values; no value (NaN) is a value of its own.

        Args:
            values: the value on each input, `[N]` or `[N, ...]`; None if every input is alone.
            count: the number of inputs N.
            lengths: the length of each input, `[N]`, if they differ: inputs that agree have one length.

        Raises:
            TaskError: if there is not one value for each input, or values are no numbers, truth values or
                words.
        """
        if values is None:
            return cls(np.arange(count))
        try:
            table = np.asarray(values)
        except ValueError:
            raise TaskError("values have to be one array; those of some inputs have more parts") from None
        if table.dtype.kind not in KINDS:
            raise TaskError(f"values of type {table.dtype} are no numbers, truth values or words")
        if table.ndim == 0 or len(table) != count:
            raise TaskError(f"values of shape {list(table.shape)} are not one for each of {count} inputs")
        table = table.reshape(count, -1)
        if table.dtype.kind == "f" and (missing := np.isnan(table)).any():
            table = np.concatenate([np.where(missing, 0, table), missing], 1)
        if lengths is not None:
            table = np.concatenate([table, np.asarray(lengths).reshape(count, 1)], 1)
        return cls(np.unique(table, axis=0, return_inverse=True)[1].reshape(-1))

    @cached_property
    def sizes(self) -> np.ndarray:
        """The number of inputs in each class."""
        return np.bincount(self.ids)

    @cached_property
    def _sorted(self) -> tuple[np.ndarray, np.ndarray]:
        """The inputs sorted by class, and where each class starts among them."""
        return np.argsort(self.ids, kind="stable"), np.cumsum(self.sizes) - self.sizes

    def pick(self, uniform: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        """Returns, for each input, one of its class, itself included, `[S]`.

        Args:
            uniform: numbers from 0 to 1, exclusive, `[S]`, which choose.
            inputs: the inputs, `[S]`.
        """
        order, starts = self._sorted
        own = self.ids[inputs]
        return order[starts[own] + (uniform * self.sizes[own]).astype(np.int64)]

    def pick_outside(self, uniform: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        """Returns, for each input, one of another class, `[S]`; the input itself where there is only one.

        Args:
            uniform: numbers from 0 to 1, exclusive, `[S]`, which choose.
            inputs: the inputs, `[S]`.
        """
        order, starts = self._sorted
        own = self.ids[inputs]
        place = (uniform * (len(self.ids) - self.sizes[own])).astype(np.int64)
        place = np.where(place < starts[own], place, place + self.sizes[own])
        return np.where(self.sizes[own] == len(self.ids), inputs, order[np.minimum(place, len(order) - 1)])

    @property
    def alone(self) -> float:
        """The share of inputs with whom no other agrees."""
        return float((self.sizes[self.ids] == 1).mean())

    @property
    def effective_size(self) -> float:
        """The effective size of a class: exp of the entropy of an input minus that of its class, in nats."""
        shares = self.sizes / len(self.ids)
        entropy = -float((shares * np.log(shares)).sum())
        return float(np.exp(np.log(len(self.ids)) - entropy))

    def permuted(self, rng: np.random.Generator) -> "Classes":
        """Returns classes of the same sizes with other members."""
        return Classes(rng.permutation(self.ids))
