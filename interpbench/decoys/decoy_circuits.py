"""The circuits: networks in which some features are causal by construction, and the inputs that they are for.

All have the same four causal features f0 to f3, each through a gate v_i tanh(x_i), and inputs of twelve
independent standard normal features. `clean` is nothing else. Every other circuit plants something in f6 and
f7.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from interpbench.core import seeds
from interpbench.core.errors import ConfigError
from interpbench.core.registry import Registry
from interpbench.decoys.hidden_layer import FEATURES, HiddenLayer, HiddenUnit

GATES = (0.78, 1.10, 0.70, 0.97)
"""The weights v of the gates v tanh(x) of the causal features f0 to f3."""
PLANTED = (6, 7)
"""The features in which every circuit but the clean one plants something."""
CORRELATIONS = (0.95, 0.97)
"""The correlation of each decoy with the output in `confounded`."""
HEIGHTS = (1.10, 1.30)
"""The output weight a of each decoy's bump a [tanh(k(x - c)) - tanh(k(x - c - w))], where w is its width."""
TURN = 2.88
"""The product k w of steepness and width, which is the same for all bumps, and with it their height."""
STEEPNESS, PLACE = 12.0, 0.8
"""The steepness k and the place c of the bumps of `suppressor`."""
STEEPNESS_AT_ZERO = 24.0
"""The steepness k of the bumps of `baseline`, which are narrower, as more inputs lie at 0 than at `PLACE`."""
CURVATURE = 1.0
"""The bias b of the even function tanh(s - b) + tanh(-s - b), which is flat at 0 and rises on both sides."""
ASIDE = 1.6
"""The output weight of what `off_manifold` has for inputs whose f6 and f7 differ."""


@dataclass(frozen=True)
class DecoyCircuit:
    """A circuit: a network, the law of its inputs, and which of their features are causal.

    A feature is causal if it matters to the output on the inputs that the circuit is for. The features of
    inputs are independent and standard normal, but for those that the law changes, in this order: some are
    correlated with the output, some are constant, and some are copied.

    Attributes:
        name: the name of the circuit.
        network: the network.
        causal: the causal features.
        correlated: the r of features that are r z + √(1 - r²) x, with z the standardised output.
        constant: the values of features that have one value in the data.
        copied: for features that equal another one, which one.
    """

    name: str
    network: HiddenLayer
    causal: tuple[int, ...] = (0, 1, 2, 3)
    correlated: Mapping[int, float] = field(default_factory=dict[int, float])
    constant: Mapping[int, float] = field(default_factory=dict[int, float])
    copied: Mapping[int, int] = field(default_factory=dict[int, int])

    @property
    def labels(self) -> np.ndarray:
        """Whether each feature is causal, bool `[F]`."""
        return np.isin(np.arange(FEATURES), self.causal)

    def on_data(self, inputs: np.ndarray) -> np.ndarray:
        """Returns inputs `[N, F]` with constant and copied features set to what they are in the data."""
        made = inputs.copy()
        for feature, value in self.constant.items():
            made[:, feature] = value
        for feature, source in self.copied.items():
            made[:, feature] = made[:, source]
        return made

    def draw(self, samples: int, seed: int) -> np.ndarray:
        """Returns inputs, `[samples, F]`; what is not planted is the same in every circuit."""
        inputs = seeds.generator(seed, "decoys", "inputs").standard_normal((samples, FEATURES))
        if self.correlated:
            outputs = self.network.outputs(inputs)
            standard = (outputs - outputs.mean()) / outputs.std()
            for feature, r in self.correlated.items():
                inputs[:, feature] = r * standard + math.sqrt(1 - r * r) * inputs[:, feature]
        return self.on_data(inputs)


Made = Callable[[float], DecoyCircuit]
"""The type of functions from the strength of decoys, above 0 and at most 1, to a circuit."""
DECOY_CIRCUITS: Registry[Made] = Registry("circuit")
ORDER = ("clean", "confounded", "suppressor", "baseline", "interaction", "off_manifold")
"""The names of the circuits in the order in which tables list them: the published ones first."""


def decoy_circuit(name: str, strength: float = 1.0) -> DecoyCircuit:
    """Returns a circuit.

    Args:
        name: its name.
        strength: the strength of what is planted, above 0 and at most 1. Correlations and output weights are
            multiplied by it. All that is published and tabulated is of strength 1.

    Raises:
        UnknownNameError: if there is no such circuit.
        ConfigError: if there is no such strength.
    """
    if not 0 < strength <= 1:
        raise ConfigError(f"strength {strength} is not a number above 0 and at most 1")
    return DECOY_CIRCUITS[name](strength)


def summary(name: str) -> str:
    """Returns what a circuit plants, in a line."""
    return (DECOY_CIRCUITS[name].__doc__ or "").partition("\n")[0]


def _network(*planted: HiddenUnit) -> HiddenLayer:
    gates = [HiddenUnit({feature: 1.0}, 0.0, weight) for feature, weight in enumerate(GATES)]
    return HiddenLayer((*gates, *planted))


def bumps(place: float, steepness: float, strength: float = 1.0) -> list[HiddenUnit]:
    """Returns the two units of each decoy's bump.

    Args:
        place: where bumps begin.
        steepness: their steepness k; they are TURN / k wide.
        strength: what their output weights are multiplied by.
    """
    made: list[HiddenUnit] = []
    for feature, height in zip(PLANTED, HEIGHTS):
        made.append(HiddenUnit({feature: steepness}, -steepness * place, strength * height))
        made.append(HiddenUnit({feature: steepness}, -steepness * place - TURN, -strength * height))
    return made


def _even(first: float, second: float, output_weight: float) -> list[HiddenUnit]:
    """Returns the two units of an even function of s = first · x6 + second · x7."""
    six, seven = PLANTED
    signs = (1.0, -1.0)
    return [
        HiddenUnit({six: sign * first, seven: sign * second}, -CURVATURE, output_weight) for sign in signs
    ]


@DECOY_CIRCUITS.register("clean")
def clean(strength: float) -> DecoyCircuit:
    """Nothing is planted: the control."""
    return DecoyCircuit("clean", _network())


@DECOY_CIRCUITS.register("confounded")
def confounded(strength: float) -> DecoyCircuit:
    """f6 and f7 follow the output, and the network does not read them."""
    correlated = {feature: strength * r for feature, r in zip(PLANTED, CORRELATIONS)}
    return DecoyCircuit("confounded", _network(), correlated=correlated)


@DECOY_CIRCUITS.register("suppressor")
def suppressor(strength: float) -> DecoyCircuit:
    """f6 and f7 have steep and narrow bumps: large slopes that go up and down again at once."""
    return DecoyCircuit("suppressor", _network(*bumps(PLACE, STEEPNESS, strength)))


@DECOY_CIRCUITS.register("baseline")
def baseline(strength: float) -> DecoyCircuit:
    """f6 and f7 have such bumps where the baseline of integrated gradients lies, at 0."""
    return DecoyCircuit("baseline", _network(*bumps(0.0, STEEPNESS_AT_ZERO, strength)))


@DECOY_CIRCUITS.register("interaction")
def interaction(strength: float) -> DecoyCircuit:
    """f6 and f7 act together and are causal, but f7 has the same value in all of the data."""
    gate = [*_even(1.0, 1.0, strength), *_even(1.0, -1.0, -strength)]
    return DecoyCircuit("interaction", _network(*gate), (0, 1, 2, 3, *PLANTED), constant={PLANTED[1]: 1.0})


@DECOY_CIRCUITS.register("off_manifold")
def off_manifold(strength: float) -> DecoyCircuit:
    """f7 equals f6, and the network reacts where they differ, which no input of the data does."""
    network = _network(*_even(1.0, -1.0, strength * ASIDE))
    return DecoyCircuit("off_manifold", network, copied={PLANTED[1]: PLANTED[0]})
