"""Baselines that look at neither answers nor gradients: their formulas, and the stored coefficients."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.fit_features import fit_without, models
from interpbench.checkpoints.checkpoint_files import released
from interpbench.checkpoints.load import load_checkpoint
from interpbench.circuits.naming import Node
from interpbench.discovery.fitted_features import FILE, NODE_FEATURES, features, fingerprint, fits
from interpbench.discovery.method import get_method, methods
from interpbench.tasks.catalogue import program_of
from tests.builders import gate, problem
from tests.oracles.transformer import run

BASELINES = [name for name, made in methods().items() if made.record.baseline]


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


@pytest.mark.parametrize("name", BASELINES)
def test_baselines_look_at_neither_answers_nor_corrupted_inputs(name):
    made = problem(3)
    other = type(made)(made.network, made.clean, made.corrupted.flip(0), torch.roll(made.scored, 1, 0))
    assert np.array_equal(get_method(name)(made).edges, get_method(name)(other).edges, equal_nan=True)


def standard(columns):
    values = np.log(np.stack(columns, 1) + 1e-6)
    return (values - values.mean(0)) / values.std(0)


def test_features_are_what_they_are_called():
    made = problem(3)
    graph, network = made.graph, made.network
    weights = np.random.default_rng(0).normal(size=len(NODE_FEATURES) + 1)
    with torch.no_grad():
        found = features(made)
        node, edge = found.node, found.edge(weights)
        outputs = [run(network, row)[1] for row in made.clean.tolist()]
        rows = [
            torch.stack([vector for one in outputs for vector in one[str(place)]]) for place in graph.nodes
        ]
        out = [written(network, place) for place in graph.nodes]
        into = [read(network, reader) for reader in graph.readers]
        virtual = np.array([[float(torch.linalg.matrix_norm(a @ b, 2)) for a in out] for b in into])
        deviation = [float(x.var(0, correction=0).sum().sqrt()) for x in rows]
        seen = np.array([[float((x @ b).var(0, correction=0).sum().sqrt()) for x in rows] for b in into])
        size = [float(torch.linalg.matrix_norm(a, 2)) for a in out]
        reads = [float(torch.linalg.matrix_norm(b, 2)) for b in into]
        readers = [
            [r for r, place in enumerate(graph.readers) if place.destination == str(place_)]
            for place_ in graph.nodes
        ]
        legal = np.where(graph.legal, virtual, 0)
        expected = standard(
            [
                size,
                [float(a.norm()) for a in out],
                [max(reads[r] for r in mine) if mine else max(reads) for mine in readers],
                [max(legal[r].max() for r in mine) if mine else max(reads) for mine in readers],
                [legal[:, w].max() for w in range(len(out))],
                [max(virtual[r, 0] for r in mine) if mine else virtual[:, 0].max() for mine in readers],
                virtual[-1],
                deviation,
                [float(x.mean(0).norm()) for x in rows],
                seen[-1],
            ]
        )
    np.testing.assert_allclose(node[:, :10], expected, atol=1e-9)
    np.testing.assert_array_equal(node[:, 10], [place == Node(-1) for place in graph.nodes])
    np.testing.assert_array_equal(
        node[:, 11], [place.layer >= 0 and place.head is None for place in graph.nodes]
    )
    at, source = np.argwhere(graph.legal).T
    varies = np.where(graph.legal, seen, 0)
    sizes = standard(
        [
            virtual[at, source],
            seen[at, source],
            (legal / legal.sum(1, keepdims=True))[at, source],
            (varies / varies.sum(1, keepdims=True))[at, source],
            np.array(size)[source],
            np.array(reads)[at],
            np.array(deviation)[source],
        ]
    )
    np.testing.assert_allclose(edge[:, :7], sizes, atol=1e-9)
    own = node @ weights[:-1] + weights[-1]
    names = [str(place) for place in graph.nodes]
    ends = [reader.destination for reader in graph.readers]
    targets = [own.max() if end == "logits" else own[names.index(end)] for end in ends]
    for column, values in ((7, own[source]), (8, np.array(targets)[at])):
        np.testing.assert_allclose(edge[:, column], (values - values.mean()) / values.std(), atol=1e-9)
    slots = np.array([graph.readers[r].slot for r in at])
    kinds = [np.isin(slots, ["q", "k"]), slots == "v", slots == "mlp"]
    np.testing.assert_array_equal(edge[:, 9:], np.stack(kinds, 1))


@pytest.mark.parametrize("name", BASELINES)
def test_baselines_score_networks_with_weights_that_are_zero(name):
    """As compiled networks, and the least of hand-made ones, have."""
    made = gate("or")
    assert np.isfinite(get_method(name)(made).edges[made.graph.legal]).all()


def test_a_network_that_is_not_released_gets_the_fit_on_all_and_a_released_one_that_without_it():
    stored = fits()
    assert stored[0]["program"] is None and stored[0]["without"] == []
    network = load_checkpoint(released()["hist"]).network
    (own,) = [one["program"] for one in stored if fingerprint(network) in one["without"]]
    assert own == "hist"
    with torch.no_grad():
        network.unembed.b_U[0] += 1e-3
    assert not any(fingerprint(network) in one["without"] for one in stored)


def test_each_released_network_is_left_out_of_one_fit():
    """Of that which scores it, with all that share its program."""
    without = [(own, one["program"]) for one in fits() for own in one["without"]]
    stored = dict(without)
    assert len(stored) == len(without)
    for path in released().values():
        checkpoint = load_checkpoint(path, certificate=False)
        assert stored[fingerprint(checkpoint.network)] == program_of(checkpoint.task)


@pytest.mark.exhaustive
def test_stored_coefficients_are_those_of_the_released_models():
    """Every fifth fit is made again."""
    found, stored = models(), fits()
    assert stored == json.loads(Path(FILE).read_text())
    assert [one["program"] for one in stored] == [None, *sorted({model.program for model in found})]
    for one in stored[::5]:
        two = fit_without(one["program"], found)
        assert one["without"] == two["without"]
        for kind in ("node", "edge"):  # how far the solver goes depends on the machine
            np.testing.assert_allclose(one[kind], two[kind], atol=0.05)
    left_out = [own for one in stored for own in one["without"]]
    assert sorted(left_out) == sorted({model.fingerprint for model in found}), "each by one fit"
