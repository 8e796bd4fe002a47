"""Gradients, path integrals and patches equal what calculus says of them."""

import math

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm

from interpbench.core import seeds
from interpbench.core.errors import UnknownNameError
from interpbench.decoys.decoy_circuits import (
    GATES,
    HEIGHTS,
    ORDER,
    PLACE,
    PLANTED,
    STEEPNESS,
    TURN,
    DecoyCircuit,
    bumps,
    decoy_circuit,
)
from interpbench.decoys.expectations import EXPECTED, expected_scores
from interpbench.decoys.feature_methods import ATTRIBUTIONS, METHODS, path_attributions
from interpbench.decoys.hidden_layer import FEATURES, HiddenLayer, HiddenUnit

CONSTANTS = {"gradient": 0.6057, "integrated_gradients": 0.5560, "patching": 0.7237}
"""What a gate v tanh(x) has for each v: E[1 - tanh²], E|tanh x| and E|tanh x - tanh x'|."""


def error_of_completeness(network: HiddenLayer, inputs: np.ndarray, steps: int) -> float:
    change = network.outputs(inputs) - network.outputs(np.zeros_like(inputs))
    return float(np.abs(path_attributions(network, inputs, steps).sum(1) - change).max())


def with_bumps(place: float, steepness: float) -> DecoyCircuit:
    gates = [HiddenUnit({feature: 1.0}, 0.0, weight) for feature, weight in enumerate(GATES)]
    return DecoyCircuit("bumps", HiddenLayer((*gates, *bumps(place, steepness))))


@pytest.mark.parametrize("name", ORDER)
@pytest.mark.parametrize("strength", [1.0, 0.4])
def test_gradients_are_those_of_autograd(name: str, strength: float) -> None:
    circuit = decoy_circuit(name, strength)
    inputs = torch.tensor(circuit.draw(200, 3), requires_grad=True)
    bias = torch.tensor([unit.bias for unit in circuit.network.units], dtype=torch.float64)
    hidden = torch.tanh(inputs @ torch.tensor(circuit.network.weights).T + bias)
    outputs = hidden @ torch.tensor(circuit.network.output_weights)
    (gradients,) = torch.autograd.grad(outputs.sum(), inputs)
    given = inputs.detach().numpy()
    np.testing.assert_allclose(circuit.network.outputs(given), outputs.detach().numpy(), atol=1e-12)
    np.testing.assert_allclose(circuit.network.gradients(given), gradients.numpy(), atol=1e-11)


@pytest.mark.parametrize("method", CONSTANTS)
@pytest.mark.parametrize("name", ORDER)
def test_gates_have_the_constants_of_the_methods(method: str, name: str) -> None:
    scores = expected_scores(decoy_circuit(name), method)
    np.testing.assert_allclose(scores[:4], CONSTANTS[method] * np.array(GATES), atol=6e-5)
    assert (scores[[4, 5, 8, 9, 10, 11]] == 0).all()


def test_the_constants_are_integrals() -> None:
    def mean(function: object) -> float:
        return quad(lambda x: function(x) * norm.pdf(x), -10, 10, points=[0])[0]  # type: ignore[operator]

    assert mean(lambda x: 1 - math.tanh(x) ** 2) == pytest.approx(CONSTANTS["gradient"], abs=5e-5)
    assert mean(lambda x: abs(math.tanh(x))) == pytest.approx(CONSTANTS["integrated_gradients"], abs=5e-5)
    spread = quad(lambda x: 2 * norm.cdf(x) * norm.sf(x) * (1 - math.tanh(x) ** 2), -10, 10)[0]
    assert spread == pytest.approx(CONSTANTS["patching"], abs=5e-5)
    gradient, scores = CONSTANTS["gradient"], expected_scores(decoy_circuit("clean"), "correlation")
    sizes = math.sqrt((1 - gradient) * sum(weight**2 for weight in GATES))
    np.testing.assert_allclose(scores[:4], gradient * np.array(GATES) / sizes, atol=1e-4)


@pytest.mark.parametrize("method", EXPECTED)
@pytest.mark.parametrize("name", ORDER)
def test_scores_of_many_inputs_come_near_the_expected_ones(method: str, name: str) -> None:
    circuit = decoy_circuit(name)
    scores = [
        ATTRIBUTIONS[method].scores(circuit.network, circuit.draw(3000, seed), seeds.generator(seed, "t"))
        for seed in range(5)
    ]
    spread = np.std(scores, axis=0) / math.sqrt(len(scores))
    off = np.abs(np.mean(scores, axis=0) - expected_scores(circuit, method))
    noise = 0.03 if method == "correlation" else 0.006  # |r| of independent features is no smaller than noise
    assert (off < 5 * spread + noise).all()


def test_random_scores_have_no_limit() -> None:
    with pytest.raises(UnknownNameError, match="expected scores 'random'"):
        expected_scores(decoy_circuit("clean"), "random")
    assert {"random", *EXPECTED} == set(METHODS)


@pytest.mark.parametrize("place", [PLACE, 0.0, -1.2])
def test_the_slope_of_a_bump_is_twice_its_height_times_the_density(place: float) -> None:
    """It is the same for every steepness k at fixed k w, while all that is causal falls like 1 / k."""
    found: dict[str, list[float]] = {method: [] for method in CONSTANTS}
    for steepness in (12.0, 24.0, 48.0):
        circuit = with_bumps(place, steepness)
        middle = place + TURN / steepness / 2
        for feature, readout in zip(PLANTED, HEIGHTS):
            height = 2 * readout * math.tanh(TURN / 2)
            slope = expected_scores(circuit, "gradient")[feature]
            assert slope == pytest.approx(2 * height * norm.pdf(middle), rel=0.012)
        for method, values in found.items():
            values.append(expected_scores(circuit, method)[PLANTED[0]])
    first, second, third = found["gradient"]
    assert second / first == pytest.approx(1, abs=0.08) and third / second == pytest.approx(1, abs=0.04)
    first, second, third = found["patching"]
    assert first / second == pytest.approx(2, abs=0.2) and second / third == pytest.approx(2, abs=0.1)
    first, second, _ = found["integrated_gradients"]  # a steepness of 48 takes more midpoints
    assert first / second == pytest.approx(2 if place else 1, abs=0.15)


@pytest.mark.parametrize(("steps", "error", "near"), [(64, 0.036, 0.006), (128, 0.0013, 0.0003)])
def test_integrated_gradients_are_complete_but_for_the_midpoints(
    steps: int, error: float, near: float
) -> None:
    """The largest error of 512 inputs, with bumps of steepness 24 at 0.8; it is smaller with those of 12."""
    steep = with_bumps(PLACE, 24.0)
    assert error_of_completeness(steep.network, steep.draw(512, 0), steps) == pytest.approx(error, abs=near)
    assert error_of_completeness(with_bumps(PLACE, STEEPNESS).network, steep.draw(512, 0), steps) < 0.004


@pytest.mark.parametrize("name", ORDER)
def test_integrated_gradients_are_complete_in_every_circuit(name: str) -> None:
    circuit = decoy_circuit(name)
    assert error_of_completeness(circuit.network, circuit.draw(300, 1), 4000) < 1e-5


def test_patches_of_a_permuted_column_are_what_a_loop_says() -> None:
    circuit = decoy_circuit("off_manifold")
    inputs, rng = circuit.draw(40, 2), seeds.generator(2, "loop")
    wanted = np.zeros(FEATURES)
    for feature in range(FEATURES):
        order = rng.permutation(40)
        for row in range(40):
            patched = inputs[row].copy()
            patched[feature] = inputs[order[row], feature]
            after, before = (circuit.network.outputs(one[None])[0] for one in (patched, inputs[row]))
            wanted[feature] += abs(after - before) / 40
    found = ATTRIBUTIONS["patching"].scores(circuit.network, inputs, seeds.generator(2, "loop"))
    np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_correlations_are_those_of_numpy_and_zero_for_a_constant() -> None:
    circuit = decoy_circuit("interaction")
    inputs = circuit.draw(300, 4)
    found = ATTRIBUTIONS["correlation"].scores(circuit.network, inputs, seeds.generator(0, "t"))
    outputs = circuit.network.outputs(inputs)
    moving = [feature for feature in range(FEATURES) if feature != 7]
    wanted = [abs(np.corrcoef(inputs[:, feature], outputs)[0, 1]) for feature in moving]
    np.testing.assert_allclose(found[moving], wanted, atol=1e-12)
    assert found[7] == 0


def test_what_is_planted_is_what_the_circuit_says() -> None:
    confounded = decoy_circuit("confounded")
    inputs = confounded.draw(100_000, 0)
    outputs = confounded.network.outputs(inputs)
    assert (confounded.network.weights[:, list(PLANTED)] == 0).all()
    for feature, r in zip(PLANTED, (0.95, 0.97)):
        assert np.corrcoef(inputs[:, feature], outputs)[0, 1] == pytest.approx(r, abs=0.002)
        assert inputs[:, feature].std() == pytest.approx(1, abs=0.01)
    same = decoy_circuit("off_manifold").draw(100, 0)
    assert (same[:, 6] == same[:, 7]).all()
    assert (decoy_circuit("off_manifold").network.gradients(same)[:, 6:8] == 0).all()
    joint = decoy_circuit("interaction")
    fixed = joint.draw(100, 0)
    assert (fixed[:, 7] == 1).all()
    for feature in PLANTED:  # the gate is closed where either is 0
        closed = fixed.copy()
        closed[:, feature] = 0
        np.testing.assert_allclose(
            joint.network.outputs(closed), decoy_circuit("clean").network.outputs(closed), atol=1e-12
        )
    assert np.abs(joint.network.outputs(fixed) - decoy_circuit("clean").network.outputs(fixed)).mean() > 0.5


@pytest.mark.parametrize("name", ["suppressor", "baseline"])
def test_bumps_matter_to_the_output_and_less_than_the_weakest_gate(name: str) -> None:
    scores = expected_scores(decoy_circuit(name), "patching")
    assert 0 < scores[list(PLANTED)].max() < 0.6 * scores[:4].min()


def test_circuits_share_all_inputs_that_they_do_not_change() -> None:
    clean = decoy_circuit("clean").draw(50, 9)
    for name in ORDER:
        drawn = decoy_circuit(name).draw(50, 9)
        rest = [feature for feature in range(FEATURES) if feature not in PLANTED]
        assert (drawn[:, rest] == clean[:, rest]).all()
    assert (decoy_circuit("clean").draw(50, 10) != clean).all()
