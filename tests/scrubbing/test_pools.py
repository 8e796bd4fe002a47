"""Pools: hypotheses with too many paths are scrubbed with entries that paths share, as the recursion says."""

import numpy as np
import pytest
import torch

from interpbench.scrubbing.classes import Classes
from interpbench.scrubbing.hypothesis import Hypothesis, NodeClaim
from interpbench.scrubbing.path_draws import PathDraws
from interpbench.scrubbing.pools import PoolDraws, pool_size
from interpbench.scrubbing.program_claims import structure_hypothesis
from interpbench.scrubbing.residual import ScrubbedNetwork
from tests.builders import SHAPES, inputs, network, shape_name
from tests.oracles.scrubbing import scrubbed_pools

ROWS, SAMPLES, SIZE = 5, 4, 2
SAMPLINGS = ("node", "edge", "global", "exact")


@pytest.fixture
def no_paths(monkeypatch):
    """Lets every hypothesis have too many paths, and pools have two entries for each of five inputs."""
    monkeypatch.setattr("interpbench.scrubbing.hypothesis.MOST_PATHS", 0)
    monkeypatch.setattr("interpbench.scrubbing.pools.ENTRIES", ROWS * SIZE)


def claimed(model, split: bool) -> Hypothesis:
    """Returns a hypothesis of a random circuit, half of whose nodes are functions of random values."""
    graph, rng = model.cfg.graph, np.random.default_rng(5)
    circuit = graph.legal & (rng.random(graph.legal.shape) < 0.3)
    circuit[-1, -1] = circuit[-1, 1] = True
    found = structure_hypothesis(graph, circuit, split)
    claims = {
        name: claim if name == "embed" or rng.random() < 0.5 else NodeClaim(name, rng.integers(0, 3, ROWS))
        for name, claim in found.claims.items()
    }
    return Hypothesis(claims, found.edges, "embed", "logits")


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("shape", SHAPES[:2], ids=shape_name)
def test_they_are_the_literal_recursion(shape, split, sampling, no_paths):
    model, tokens = network(*shape), inputs(0, ROWS)
    hypothesis = claimed(model, split)
    draws = PathDraws(0, SAMPLES, Classes.of(np.zeros(ROWS), ROWS), sampling)
    with torch.no_grad():
        wanted = scrubbed_pools(
            model, tokens.tolist(), hypothesis, hypothesis.classes(ROWS), PoolDraws(draws, SIZE, "logits")
        )
    scrubbed = ScrubbedNetwork(model, tokens)
    assert scrubbed.pool(hypothesis) == SIZE
    expected = torch.stack([torch.stack(logits) for logits in wanted]).permute(2, 1, 0)
    torch.testing.assert_close(scrubbed.scrub(hypothesis, draws), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_large_pools_have_the_distribution_of_paths(sampling, monkeypatch):
    model, tokens = network(*SHAPES[1]), inputs(0, ROWS)
    hypothesis, scrubbed = claimed(model, True), ScrubbedNetwork(model, tokens)
    draws = PathDraws(0, 2000, Classes.of(np.zeros(ROWS), ROWS), sampling)
    paths = scrubbed.scrub(hypothesis, draws)[..., -1, :]
    assert scrubbed.pool(hypothesis) is None
    monkeypatch.setattr("interpbench.scrubbing.hypothesis.MOST_PATHS", 0)
    pools = scrubbed.scrub(hypothesis, draws)[..., -1, :]
    assert scrubbed.pool(hypothesis) == pool_size(ROWS) > 1000
    for one, other in ((paths, pools), (paths.square(), pools.square())):
        error = ((one.var(-1) + other.var(-1)) / draws.samples).sqrt()
        assert ((one.mean(-1) - other.mean(-1)).abs() <= 5 * error + 1e-9).all()


def test_all_edges_and_identities_are_the_network(no_paths):
    model, tokens = network(*SHAPES[1]), inputs(0, ROWS)
    scrubbed, draws = ScrubbedNetwork(model, tokens), PathDraws(0, 9, Classes.of(np.zeros(ROWS), ROWS))
    found = scrubbed.scrub(structure_hypothesis(scrubbed.graph, scrubbed.graph.legal, True), draws)
    torch.testing.assert_close(found, scrubbed.logits[..., draws.root], rtol=1e-12, atol=1e-12)
