"""Attribution methods: a score for each feature, from the network and inputs, without knowing what is causal.

Letters of shapes: N inputs, F features.

Common arguments:
    network: the network, which a method may run and differentiate.
    inputs: the inputs, `[N, F]`.
    rng: the generator of whatever a method draws.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from interpbench.core.registry import Registry
from interpbench.decoys.hidden_layer import HiddenLayer

MethodFamily = Literal["baseline", "proxy", "causal"]
"""The kind of a method: one that looks at nothing, at something cheap, or at what a change of inputs does."""
FeatureScores = Callable[[HiddenLayer, np.ndarray, np.random.Generator], np.ndarray]
"""The type of methods: network, inputs `[N, F]` and a generator to the score of each feature, `[F]`."""
MIDPOINTS = 64
"""The number of points on the way from the baseline at which integrated gradients takes the gradient."""


class FeatureMethod(NamedTuple):
    """A method as registered.

    Attributes:
        scores: the method.
        family: its kind.
    """

    scores: FeatureScores
    family: MethodFamily


ATTRIBUTIONS: Registry[FeatureMethod] = Registry("attribution")
METHODS = ("random", "correlation", "gradient", "integrated_gradients", "patching")
"""The names of the package's own methods in the order in which tables list them."""


def attribution(name: str, family: MethodFamily = "causal") -> Callable[[FeatureScores], FeatureScores]:
    """Returns a decorator that registers a function as a method.

    Args:
        name: the name of the method.
        family: its kind.
    """

    def register(scores: FeatureScores) -> FeatureScores:
        ATTRIBUTIONS.add(name, FeatureMethod(scores, family))
        return scores

    return register


@attribution("random", "baseline")
def random_scores(network: HiddenLayer, inputs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Returns random numbers."""
    return rng.random(inputs.shape[1])


@attribution("correlation", "proxy")
def correlation(network: HiddenLayer, inputs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Returns |corr(feature, output)|, which is 0 for a feature that is constant."""
    centred = inputs - inputs.mean(0)
    outputs = network.outputs(inputs)
    outputs = outputs - outputs.mean()
    scale = np.sqrt((centred**2).sum(0) * (outputs**2).sum())
    return np.abs((centred * outputs[:, None]).sum(0)) / np.where(scale > 0, scale, 1)


@attribution("gradient", "proxy")
def gradient(network: HiddenLayer, inputs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Returns the mean of |∂output/∂feature| over the inputs."""
    return np.abs(network.gradients(inputs)).mean(0)


@attribution("integrated_gradients", "causal")
def integrated_gradients(network: HiddenLayer, inputs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Returns the mean of |attribution| by integrated gradients (Sundararajan et al. 2017) from zero."""
    return np.abs(path_attributions(network, inputs)).mean(0)


def path_attributions(network: HiddenLayer, inputs: np.ndarray, steps: int = MIDPOINTS) -> np.ndarray:
    """Returns the attributions of integrated gradients from zero, `[N, F]`.

    Their sum over features is the output minus that at zero, but for the error of the midpoint rule.

    Args:
        network: the network.
        inputs: the inputs, `[N, F]`.
        steps: the number of points on the straight way, at (i + ½) / steps.
    """
    total = np.zeros_like(inputs)
    for step in range(steps):
        total += network.gradients((step + 0.5) / steps * inputs)
    return inputs * total / steps


@attribution("patching", "causal")
def patching(network: HiddenLayer, inputs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Returns the mean of |change of the output| if one feature takes its value on another input.

    Which input that is comes from one permutation of the inputs for each feature.
    """
    outputs, scores = network.outputs(inputs), np.zeros(inputs.shape[1])
    for feature in range(len(scores)):
        patched = inputs.copy()
        patched[:, feature] = inputs[rng.permutation(len(inputs)), feature]
        scores[feature] = np.abs(network.outputs(patched) - outputs).mean()
    return scores
