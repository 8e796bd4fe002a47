"""Compares UGS with the code of Li and Janson, with the same sampled masks and the same steps of training.

Their main file is a script for GPT-2. The worker makes its mask sampler, its pruner and its two optimisers,
and takes the same steps with them. Both work in double precision, with one scored position of each example,
as in their code. Only causal networks whose output is a class are compared: in others their code would
replace the output at BOS, which it means to leave unchanged, by that of the batch's first row.

Their filter of edges that are on no path counts an MLP as reached if it is reached in any row of the batch.
The worker therefore calls it with one row at a time, for which it is right.
"""

import copy
from collections.abc import Iterator

import numpy as np
import torch

from benchmarks.published.exchange import Published, Row, close, edges_of
from interpbench.circuits.naming import eap_name
from interpbench.circuits.scores import Cost
from interpbench.discovery.ugs import Training, UniformGradientSampling
from interpbench.tasks.problem import Problem

REPOSITORY, COMMIT = "https://github.com/maxtli/optimalablation", "ac02e85"
PATHS = ("optimalablation",)
WORKER = "ugs_worker.py"
STEPS = (1, 10, 50)


def compare(problem: Problem, theirs: Published, name: str) -> Iterator[Row]:
    """Trains both, and yields rows on θ of all edges and the constants of all writers during training."""
    if problem.numerical or problem.network.cfg.attention != "causal":
        yield Row("ugs", 0, "not compared: their code is for causal networks and classes", True)
        return
    scored = problem.scored.clone()
    scored[scored.cumsum(0) > 1] = False  # the first position of each example
    network = copy.deepcopy(problem.network).double()
    made = Problem(network, problem.clean, problem.corrupted, scored, problem.seed)
    settings = UniformGradientSampling()
    training = Training(settings, made, Cost())
    theirs.ask(
        "start",
        edges=[eap_name(edge) for edge in edges_of(made.graph)],
        batch=settings.batch,
        samples=settings.samples,
        penalty=settings.penalty,
        rate=settings.used_rate,
        constants_rate=settings.constants_rate,
    )
    generator = torch.Generator().manual_seed(0)
    for step in range(1, max(STEPS) + 1):
        examples = torch.randperm(len(made.clean), generator=generator)[: settings.batch]
        rows = examples.repeat(settings.samples)
        uniform = torch.Generator().manual_seed(step)
        training.step(
            rows, torch.rand((len(rows), len(training.theta)), generator=uniform, dtype=torch.float64)
        )
        found = theirs.ask("step", rows=examples.tolist(), seed=step)
        if step in STEPS:
            theta = training.theta.detach().numpy()
            yield close(f"ugs, θ after {step} steps", theta, np.array(found["theta"]), 1e-6)
            constants = torch.cat([constant.detach().flatten() for constant in training.ablation.constants])
            moved = np.array(found["constants"])
            yield close(f"ugs, constants after {step} steps", constants.numpy(), moved, 1e-6)
