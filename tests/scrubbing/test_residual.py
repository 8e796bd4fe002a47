"""The fast scrubbing of a transformer is the literal recursion, and that of any graph of functions."""

import numpy as np
import pytest
import torch

from interpbench.circuits.graph import Graph
from interpbench.scrubbing.classes import Classes
from interpbench.scrubbing.computational_graph import scrub_graph
from interpbench.scrubbing.hypothesis import Hypothesis, NodeClaim, PathLimitError
from interpbench.scrubbing.network_graph import network_graph
from interpbench.scrubbing.path_draws import PathDraws
from interpbench.scrubbing.program_claims import program_hypothesis, structure_hypothesis
from interpbench.scrubbing.residual import ScrubbedNetwork, network_parents
from tests.builders import SHAPES, inputs, network, shape_name
from tests.oracles.scrubbing import scrubbed_logits
from tests.scrubbed_networks import task_network

ROWS, SAMPLES = 6, 3
SAMPLINGS = ("node", "edge", "global", "exact")


def claimed(graph: Graph, seed: int, split: bool, rows: int = ROWS) -> Hypothesis:
    """Returns a hypothesis of a random circuit whose nodes are functions of random values."""
    rng = np.random.default_rng(seed)
    circuit = graph.legal & (rng.random(graph.legal.shape) < 0.25)
    circuit[-1, -1] = circuit[-1, 1] = True
    found = structure_hypothesis(graph, circuit, split)
    claims = {
        name: claim if name == "embed" or rng.random() < 0.3 else NodeClaim(name, rng.integers(0, 3, rows))
        for name, claim in found.claims.items()
    }
    return Hypothesis(claims, found.edges, "embed", "logits")


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("shape", SHAPES[:5], ids=shape_name)
def test_s5_it_is_the_literal_recursion(shape, split, sampling):
    model, tokens = network(*shape), inputs(0, ROWS)
    hypothesis = claimed(model.cfg.graph, 1, split)
    draws = PathDraws(0, SAMPLES, Classes.of(np.zeros(ROWS), ROWS), sampling)
    classes = hypothesis.classes(ROWS)
    with torch.no_grad():
        wanted = scrubbed_logits(model, tokens.tolist(), hypothesis, draws, classes)
    found = ScrubbedNetwork(model, tokens).scrub(hypothesis, draws)
    expected = torch.stack([torch.stack(logits) for logits in wanted]).permute(2, 1, 0)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    assert (found - ScrubbedNetwork(model, tokens).logits[..., draws.root]).abs().max() > 1e-3


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=shape_name)
def test_it_is_that_of_any_graph_of_functions(shape, split, sampling):
    model, tokens = network(*shape), inputs(0, ROWS)
    hypothesis = claimed(model.cfg.graph, 2, split)
    draws = PathDraws(3, 40, Classes.of(np.zeros(ROWS), ROWS), sampling)
    with torch.no_grad():
        scrubbed = scrub_graph(network_graph(model, split), hypothesis, tokens, draws)
    found = ScrubbedNetwork(model, tokens).scrub(hypothesis, draws)
    torch.testing.assert_close(found, scrubbed.permute(2, 1, 0), rtol=1e-12, atol=1e-12)


def test_results_do_not_depend_on_chunks(monkeypatch):
    model, tokens = network(*SHAPES[0]), inputs(0, ROWS)
    hypothesis = claimed(model.cfg.graph, 1, True)
    draws = PathDraws(0, 50, Classes.of(np.zeros(ROWS), ROWS))
    whole = ScrubbedNetwork(model, tokens).scrub(hypothesis, draws)
    monkeypatch.setattr("interpbench.scrubbing.residual.ROWS", 64)
    torch.testing.assert_close(ScrubbedNetwork(model, tokens).scrub(hypothesis, draws), whole)


def test_s2_everything_with_all_claims_and_identities_is_the_network():
    """If every edge is important and no input agrees with another, nothing is resampled."""
    model, tokens = network(*SHAPES[1]), inputs(0, ROWS)
    graph = model.cfg.graph
    for split in (False, True):
        hypothesis = structure_hypothesis(graph, graph.legal, split)
        draws = PathDraws(0, 9, Classes.of(np.zeros(ROWS), ROWS))
        scrubbed = ScrubbedNetwork(model, tokens)
        found = scrubbed.scrub(hypothesis, draws)
        torch.testing.assert_close(found, scrubbed.logits[..., draws.root], rtol=1e-12, atol=1e-12)


def test_paths_are_counted_before_they_are_run():
    graph = network(*SHAPES[0]).cfg.graph
    hypothesis = structure_hypothesis(graph, graph.legal, False)
    # embed is read by 6 heads, 2 MLPs and the logits on all paths to them
    assert hypothesis.paths["m1"] == 1 and hypothesis.paths["a1.h0"] == 2
    assert hypothesis.paths["m0"] == 1 + 1 + 3 * 2 and hypothesis.paths["a0.h2"] == 2 * hypothesis.paths["m0"]
    assert hypothesis.paths["embed"] == 2 * hypothesis.paths["a0.h0"] * 2
    assert not hypothesis.many
    deep = Graph(8, 8)
    many = structure_hypothesis(deep, deep.legal, False)
    many.check(network_parents(deep, False), "embed", "logits")
    with pytest.raises(PathLimitError, match="paths, and at most 20,000 are run"):
        many.check_paths()


def test_draws_are_made_once_for_all_chunks(monkeypatch):
    model, tokens = network(*SHAPES[0]), inputs(0, ROWS)
    hypothesis = claimed(model.cfg.graph, 1, True)
    calls = []
    draws = PathDraws(0, 50, Classes.of(np.zeros(ROWS), ROWS))
    scrubbed = ScrubbedNetwork(model, tokens)
    other = PathDraws.other
    monkeypatch.setattr(PathDraws, "other", lambda *given: calls.append(given[1]) or other(*given))
    scrubbed.scrub(hypothesis, draws)
    whole = len(calls)
    monkeypatch.setattr("interpbench.scrubbing.residual.ROWS", 64)
    scrubbed.scrub(hypothesis, draws)
    assert len(calls) == 2 * whole


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("kind", ["Tracr", "trained"])
def test_s5_it_is_the_literal_recursion_of_networks_that_do_a_task(kind, sampling):
    """Also with few claims, where answers change: those of the program keep them."""
    made = task_network(kind, ROWS)
    model, tokens = made.network, made.tokens
    program = program_hypothesis(made.alignment, made.circuit, made.trace, "features")
    for hypothesis in (program, claimed(model.cfg.graph, 4, True)):
        draws = PathDraws(0, SAMPLES, Classes.of(np.zeros(ROWS), ROWS), sampling)
        classes = hypothesis.classes(ROWS)
        with torch.no_grad():
            wanted = scrubbed_logits(model, tokens.tolist(), hypothesis, draws, classes)
        found = ScrubbedNetwork(model, tokens).scrub(hypothesis, draws)
        expected = torch.stack([torch.stack(logits) for logits in wanted]).permute(2, 1, 0)
        largest = float(expected.abs().max())
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12 * max(1.0, largest))
