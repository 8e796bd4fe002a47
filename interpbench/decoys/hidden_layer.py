"""Networks with one hidden layer whose weights are set by hand: y = v · tanh(W x + b).

Sums are taken in a fixed order, of products that are rounded first, and not by a library of linear algebra,
so that results are the same to the bit with any number of threads. Letters of shapes: N inputs, F features,
U hidden units.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

FEATURES = 12
"""The number of features of an input, with which two decoys above four causal ones are AUROC 0.75."""


class HiddenUnit(NamedTuple):
    """A hidden unit.

    Attributes:
        reads: the weight of each feature that it reads.
        bias: its bias.
        output_weight: its weight in the output.
    """

    reads: Mapping[int, float]
    bias: float
    output_weight: float


@dataclass(frozen=True)
class HiddenLayer:
    """A network with one hidden layer and one output.

    Attributes:
        units: the hidden units.
    """

    units: Sequence[HiddenUnit]

    @property
    def weights(self) -> np.ndarray:
        """The weights W of the hidden units, `[U, F]`, for methods that look at weights."""
        made = np.zeros((len(self.units), FEATURES))
        for row, unit in zip(made, self.units):
            for feature, weight in unit.reads.items():
                row[feature] = weight
        return made

    @property
    def output_weights(self) -> np.ndarray:
        """The weights of the output, `[U]`."""
        return np.array([unit.output_weight for unit in self.units])

    def hidden(self, inputs: np.ndarray) -> np.ndarray:
        """Returns the activations of the hidden units, `[N, U]`, on inputs `[N, F]`."""
        return np.tanh(np.stack([self._preactivation(unit, inputs) for unit in self.units], axis=-1))

    @staticmethod
    def _preactivation(unit: HiddenUnit, inputs: np.ndarray) -> np.ndarray:
        total = np.zeros(len(inputs))
        for feature, weight in unit.reads.items():
            total += weight * inputs[:, feature]
        return total + unit.bias

    def outputs(self, inputs: np.ndarray) -> np.ndarray:
        """Returns the output, `[N]`, on inputs `[N, F]`."""
        return (self.hidden(inputs) * self.output_weights).sum(-1)

    def gradients(self, inputs: np.ndarray) -> np.ndarray:
        """Returns the derivative of the output by each feature, `[N, F]`, at inputs `[N, F]`."""
        slopes = (1 - self.hidden(inputs) ** 2) * self.output_weights
        found = np.zeros_like(inputs)
        for slope, unit in zip(slopes.T, self.units):
            for feature, weight in unit.reads.items():
                found[:, feature] += weight * slope
        return found
