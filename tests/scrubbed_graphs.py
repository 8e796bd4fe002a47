"""Functions that are no transformers, and hypotheses about them."""

import numpy as np
import pytest
import torch

from interpbench.scrubbing.classes import Classes
from interpbench.scrubbing.computational_graph import ComputationalGraph, Operation
from interpbench.scrubbing.hypothesis import Hypothesis, NodeClaim
from interpbench.scrubbing.path_draws import PathDraws

SAMPLES = 20_000


def draws(count: int, sampling="node", samples: int = SAMPLES, seed: int = 0) -> PathDraws:
    return PathDraws(seed, samples, Classes.of(np.zeros(count), count), sampling)


def graph(output: str = "out", /, **operations) -> ComputationalGraph:
    """Returns a graph of nodes, each a function and what it reads."""
    return ComputationalGraph(
        {name: Operation(tuple(read), f) for name, (f, *read) in operations.items()}, output
    )


def hypothesis(*edges: str, **values) -> Hypothesis:
    """Returns a hypothesis whose claims are called as their images are; edges as in `x to out`."""
    pairs = tuple(tuple(edge.split(" to ")) for edge in edges)
    names = {"x", "out", *(name for pair in pairs for name in pair)}
    return Hypothesis({name: NodeClaim(name, values.get(name)) for name in names}, pairs, "x", "out")


def near(found: torch.Tensor, wanted: float) -> None:
    """Asserts that a mean is what is wanted, within four of its standard errors."""
    error = float(found.double().std() / len(found) ** 0.5)
    assert float(found.double().mean()) == pytest.approx(wanted, abs=4 * error + 1e-9)
