"""Uniform gradient sampling: a step equals literal loops, and the budget is its authors'."""

import numpy as np
import pytest
import torch

from interpbench.circuits.scores import Cost
from interpbench.discovery.method import get_method
from interpbench.discovery.ugs import Training, UniformGradientSampling
from interpbench.tasks.problem import Problem
from tests.builders import problem
from tests.oracles import ugs as oracle

PENALTY = 1e-3


def one_position(attention: str) -> Problem:
    """A problem that is scored at the last position, with the same BOS in every row."""
    made = problem(4, rows=3, attention=attention)
    clean, corrupted = made.clean.clone(), made.corrupted.clone()
    clean[:, 0] = corrupted[:, 0] = 2
    scored = torch.zeros_like(made.scored)
    scored[-1] = True
    return Problem(made.network, clean, corrupted, scored)


@pytest.mark.parametrize("attention", ["causal", "bidirectional"])
@pytest.mark.parametrize("clip", [5.0, 0.01])
def test_a_step_has_the_gradients_of_literal_loops(attention: str, clip: float) -> None:
    made = one_position(attention)
    training = Training(UniformGradientSampling(penalty=PENALTY, samples=2, clip=clip), made, Cost())
    generator = torch.Generator().manual_seed(0)
    theta = torch.randn(len(training.theta), generator=generator, dtype=torch.float64)
    with torch.no_grad():
        training.theta.copy_(theta)
        for constant in training.ablation.constants:
            constant.copy_(0.3 * torch.randn(constant.shape, generator=generator, dtype=torch.float64))
        shifts = training.ablation.shifts
    assert shifts is not None
    rows = [0, 2, 0, 2]
    uniform = torch.rand(4, len(theta), generator=generator, dtype=torch.float64)
    uniform[:, ::3] = 0.999  # so that many edges are closed, and others lead nowhere
    start = training.ablation._runs.patch[:, :, 1, 0] + shifts[0]
    constants = {str(node): start[w] for w, node in enumerate(made.graph.nodes)}
    expected, moved = oracle.gradients(made, theta, uniform, rows, constants, PENALTY, clip)
    training.step(torch.tensor(rows), uniform)
    assert training.theta.grad is not None
    np.testing.assert_allclose(training.theta.grad.numpy(), expected, atol=1e-10)
    _, others = training.ablation.constants
    assert others.grad is not None
    wanted = [torch.zeros(8) if moved[name] is None else moved[name] for name in ("embed", "m0", "m1")]
    torch.testing.assert_close(others.grad[0], torch.stack([x.double() for x in wanted]))
    assert others.grad.any()


def test_the_budget_and_the_rates_are_the_authors() -> None:
    settings = UniformGradientSampling()
    assert (settings.steps, settings.batch * settings.samples, settings.clip) == (6000, 60, 5)
    rates = [UniformGradientSampling(penalty=penalty).used_rate for penalty in (1e-4, 5e-4, 1e-3)]
    assert rates == [0.15, 0.1, 0.05]
    assert UniformGradientSampling(ablation="resample").used_rate == 0.01
    cost = get_method("ugs", {"steps": 3})(one_position("causal")).cost
    assert (cost.backward_calls, cost.backward_examples) == (3, 180)
