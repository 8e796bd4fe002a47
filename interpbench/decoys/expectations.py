"""What methods say of infinitely many inputs, as integrals over a normal density (closed forms).

Every circuit is a sum of functions of single features and of the planted pair, so that each integral has one
dimension. For a gate v tanh(x) they are E|∂y/∂x| = v E[1 - tanh²] = 0.6057 v for gradients, E|v tanh(x)| =
0.5560 v for integrated gradients, and E|v tanh(x) - v tanh(x')| = 0.7237 v for patching. For a narrow bump of
height h = 2a tanh(kw/2) at c, with steepness k and width w, the slope is about 2hφ(c) (once up, once down),
which does not depend on k at fixed kw, while integrated gradients and patching fall like 1/k.
"""

from collections.abc import Callable

import numpy as np

from interpbench.core.errors import UnknownNameError
from interpbench.decoys.decoy_circuits import DecoyCircuit
from interpbench.decoys.feature_methods import path_attributions
from interpbench.decoys.hidden_layer import FEATURES

REACH, RESOLUTION = 8, 128
"""The largest value of a feature in an integral, in standard deviations, and the number of points in each."""


def expected_scores(circuit: DecoyCircuit, method: str) -> np.ndarray:
    """Returns the scores of all features that a method has in the limit of infinitely many inputs, `[F]`.

    Args:
        circuit: the circuit.
        method: the name of a method of this package that draws nothing at random.

    Raises:
        UnknownNameError: if the method has no such limit, or there is none of this name.
    """
    if method not in EXPECTED:
        raise UnknownNameError("attribution with expected scores", method, EXPECTED)
    return EXPECTED[method](circuit)


def normal(deviation: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Returns points of the real line and the weight of each under a normal density, `[T]` both."""
    points = np.arange(-REACH * RESOLUTION, REACH * RESOLUTION + 1) / RESOLUTION
    weights = np.exp(-(points**2) / 2) / (np.sqrt(2 * np.pi) * RESOLUTION)
    return deviation * points, weights


def _along(circuit: DecoyCircuit, points: np.ndarray, feature: int) -> np.ndarray:
    """Returns the output, `[T]`, where one feature moves and others stay at 0 or what the data have."""
    inputs = np.zeros((len(points), FEATURES))
    inputs[:, feature] = points
    return circuit.network.outputs(circuit.on_data(inputs))


def _correlation(circuit: DecoyCircuit) -> np.ndarray:
    points, weights = normal()
    covariances, variance = np.zeros(FEATURES), 0.0
    for feature in range(FEATURES):
        response = _along(circuit, points, feature)
        response = response - (weights * response).sum()
        covariances[feature] = (weights * points * response).sum()
        variance += (weights * response**2).sum()
    scores = np.abs(covariances) / np.sqrt(variance)
    for feature, r in circuit.correlated.items():
        scores[feature] = abs(r)
    return scores


def _gradient(circuit: DecoyCircuit) -> np.ndarray:
    points, weights = normal()
    inputs = circuit.on_data(np.repeat(points[:, None], FEATURES, axis=1))
    return (weights[:, None] * np.abs(circuit.network.gradients(inputs))).sum(0)


def _integrated_gradients(circuit: DecoyCircuit) -> np.ndarray:
    points, weights = normal()
    inputs = circuit.on_data(np.repeat(points[:, None], FEATURES, axis=1))
    return (weights[:, None] * np.abs(path_attributions(circuit.network, inputs))).sum(0)


def _patching(circuit: DecoyCircuit) -> np.ndarray:
    points, weights = normal()
    pairs = {*circuit.copied, *circuit.copied.values()}
    scores = [
        _apart(circuit, feature)
        if feature in pairs
        else _mean_difference(_along(circuit, points, feature), weights)
        for feature in range(FEATURES)
    ]
    return np.array(scores)


def _mean_difference(values: np.ndarray, weights: np.ndarray) -> float:
    """Returns E|U - U'| of two independent draws, which is 2 ∫ G(u) (1 - G(u)) du with G their distribution.

    Args:
        values: the values, `[T]`.
        weights: the probability of each, `[T]`.
    """
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights[order])[:-1]
    return float(2 * (below * (1 - below) * np.diff(values[order])).sum())


def _apart(circuit: DecoyCircuit, feature: int) -> float:
    """Returns the expected effect of patching one of two equal features, of whose difference the output is a
    function: the difference of two independent values has a variance of 2.
    """  # noqa: D205
    points, weights = normal(float(np.sqrt(2)))
    inputs = np.zeros((len(points), FEATURES))
    inputs[:, feature] = points
    outputs = circuit.network.outputs(inputs)
    return float((weights * np.abs(outputs - outputs[len(points) // 2])).sum())


EXPECTED: dict[str, Callable[[DecoyCircuit], np.ndarray]] = {
    "correlation": _correlation,
    "gradient": _gradient,
    "integrated_gradients": _integrated_gradients,
    "patching": _patching,
}
"""The integrals by the name of the method; random scores have none."""
