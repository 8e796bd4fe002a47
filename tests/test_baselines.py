"""Baselines that look at neither answers nor gradients: their formulas, and the stored coefficients."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.fit_features import fits as fitted
from benchmarks.fit_features import models
from interpbench.circuits.components import Node
from interpbench.discovery.features import by_edge, sides
from interpbench.discovery.fitted_features import EDGE_FEATURES, FILE, NODE_FEATURES, features, fits
from interpbench.discovery.method import get_method, methods
from tests.oracles.transformer import run
from tests.test_discovery import problem


def written(network, node):
    """What a node writes with, `[n, D]`."""
    if node.layer < 0:
        return torch.cat([network.embed.W_E, network.pos_embed.W_pos])
    block = network.blocks[node.layer]
    return block.mlp.W_out if node.head is None else block.attn.W_V[node.head] @ block.attn.W_O[node.head]


def read(network, reader):
    """What a reader reads with, `[D, n]`, after its LayerNorm."""
    if reader.slot == "logits":
        norm, weight = network.ln_final, network.unembed.W_U
    else:
        block = network.blocks[reader.layer]
        if reader.slot == "mlp":
            norm, weight = block.ln2, block.mlp.W_in
        else:
            norm, weight = block.ln1, getattr(block.attn, f"W_{reader.slot.upper()}")[reader.head]
    if not hasattr(norm, "eps"):
        return weight
    weight = weight * norm.w[:, None] if hasattr(norm, "w") else weight
    centring = torch.eye(len(weight), dtype=weight.dtype) - 1 / len(weight)
    return centring @ weight


@pytest.mark.parametrize("normalization", [None, "LN", "LNPre"])
def test_weight_norm_is_the_largest_singular_value(normalization):
    made = problem(3, normalization=normalization, d_mlp=5, d_head=6)
    graph, scores = made.graph, get_method("weight_norm")(made)
    assert scores.own_nodes is not None and scores.cost.forward_calls == 0
    with torch.no_grad():
        for w, node in enumerate(graph.nodes):
            matrix = written(made.network, node)
            assert scores.own_nodes[w] == pytest.approx(float(torch.linalg.matrix_norm(matrix, 2)))
            for r, reader in enumerate(graph.readers):
                if graph.legal[r, w]:
                    virtual = torch.linalg.matrix_norm(matrix @ read(made.network, reader), 2)
                    assert scores.edges[r, w] == pytest.approx(float(virtual))


@pytest.mark.parametrize("normalization", [None, "LN"])
def test_activation_std_is_what_varies(normalization):
    made = problem(3, normalization=normalization, d_mlp=5)
    graph, scores = made.graph, get_method("activation_std")(made)
    with torch.no_grad():
        outputs = [run(made.network, row)[1] for row in made.clean.tolist()]
        for w, node in enumerate(graph.nodes):
            rows = torch.stack([vector for one in outputs for vector in one[str(node)]])
            assert scores.own_nodes[w] == pytest.approx(float(rows.var(0, correction=0).sum().sqrt()))
            for r, reader in enumerate(graph.readers):
                if graph.legal[r, w]:
                    seen = rows @ read(made.network, reader)
                    assert scores.edges[r, w] == pytest.approx(float(seen.var(0, correction=0).sum().sqrt()))


@pytest.mark.parametrize("name", ["weight_norm", "activation_std", "fitted_features"])
def test_baselines_look_at_neither_answers_nor_corrupted_inputs(name):
    made = problem(3)
    other = type(made)(made.network, made.clean, made.corrupted.flip(0), torch.roll(made.scored, 1, 0))
    assert np.array_equal(get_method(name)(made).edges, get_method(name)(other).edges, equal_nan=True)
    assert methods()[name].baseline
    assert {other for other, made in methods().items() if getattr(made, "baseline", False)} >= {name}


def test_features_are_what_they_are_called():
    made = problem(3)
    with torch.no_grad():
        node, edge = features(made, np.zeros(len(NODE_FEATURES) + 1))
    assert node.shape == (len(made.graph.nodes), len(NODE_FEATURES))
    assert edge.shape == (len(made.graph.edges), len(EDGE_FEATURES))
    assert np.isfinite(node).all() and np.isfinite(edge).all()
    np.testing.assert_array_equal(node[:, -2], [place == Node(-1) for place in made.graph.nodes])
    spectral = get_method("weight_norm")(made).own_nodes
    np.testing.assert_array_equal(np.argsort(node[:, 0]), np.argsort(spectral))
    reads = sides(made.network).reads
    stack = torch.randn(len(made.graph.nodes), 8, 4, 6, dtype=torch.float64)
    assert by_edge(made.graph, reads, stack).shape == made.graph.legal.shape


@pytest.mark.slow
def test_stored_coefficients_are_those_of_the_released_models():
    """Each released network is left out of the fit that scores it, with all that share its program."""
    found = models()
    stored, again = fits(), fitted(found)
    assert stored == json.loads(Path(FILE).read_text())
    assert [one["program"] for one in stored] == [None, *sorted({model.program for model in found})]
    for one, two in zip(stored, again, strict=True):
        assert one["without"] == two["without"]
        np.testing.assert_allclose(one["node"], two["node"], atol=1e-3)
        np.testing.assert_allclose(one["edge"], two["edge"], atol=1e-3)
    left_out = [own for one in stored for own in one["without"]]
    assert len(left_out) == len(set(left_out)) == len(found)
