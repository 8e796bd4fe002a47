"""The one call for many circuits: what it leaves out changes nothing, and what it cannot run it refuses."""

import numpy as np
import pytest
import torch

from interpbench.transformer.backward_rules import Rules, with_rules
from interpbench.transformer.fast import run_circuits as module
from interpbench.transformer.fast.circuits import Circuits
from interpbench.transformer.fast.frozen_run import frozen_run
from interpbench.transformer.fast.run_circuits import SingleEdges, computed, run_circuits
from interpbench.transformer.layers import Unembed
from interpbench.transformer.model import Transformer
from interpbench.transformer.recording import record
from tests.builders import SHAPES, inputs, network


def together(network_: Transformer, clean, patch, count, **patched):
    """Puts the parts together: `[V, T, K, B]`, each circuit and example once."""
    logits = torch.full((5, 4, count, 3), torch.nan, dtype=torch.float64)
    for part in run_circuits(network_, clean, patch, **patched):
        assert logits[:, :, part.circuits, part.examples].isnan().all()
        logits[:, :, part.circuits, part.examples] = part.logits
    return logits


def drawn(graph, share, seed, by_edge):
    rng = np.random.default_rng(seed)
    if by_edge:
        return (rng.random((6, *graph.legal.shape)) < share) & graph.legal
    return rng.random((6, len(graph.nodes))) < share


@pytest.mark.parametrize("least", [1, 4, 100])
@pytest.mark.parametrize("by_edge", [True, False])
def test_what_is_left_out_changes_nothing(model, by_edge, least, monkeypatch):
    """Sparse and full circuits, cut into calls of few circuits, or of few examples, equal the whole run."""
    monkeypatch.setattr(module, "NUMBERS_PER_CALL", 1)
    monkeypatch.setattr(module, "LEAST_ROWS", least)
    graph = model.cfg.graph
    with torch.no_grad():
        clean, patch = record(model, inputs(1))[1], record(model, inputs(2))[1].stack
    for share in (0.02, 0.3, 1.0):
        chosen = drawn(graph, share, seed=int(100 * share), by_edge=by_edge)
        whole = Circuits(chosen, patch) if by_edge else Circuits(None, patch, nodes=chosen)
        with torch.no_grad():
            expected = frozen_run(model, clean.stack[0], whole)
        patched = {"edges": chosen} if by_edge else {"nodes": chosen}
        torch.testing.assert_close(together(model, clean, patch, 6, **patched), expected)


def test_single_edges_are_masks_with_one_edge(model):
    graph = model.cfg.graph
    edges = np.argwhere(graph.legal)[::3]
    masks = SingleEdges(graph, edges)[:]
    assert masks.sum() == len(masks) == len(edges)
    assert np.array_equal(np.argwhere(masks)[:, 1:], edges)
    with torch.no_grad():
        clean, patch = record(model, inputs(1))[1], record(model, inputs(2))[1].stack
    lazily = together(model, clean, patch, len(edges), edges=SingleEdges(graph, edges))
    torch.testing.assert_close(lazily, together(model, clean, patch, len(edges), edges=masks))


def test_no_more_is_computed_than_can_change():
    """Edges into one head of the last layer: that head, its MLP, and nothing else."""
    graph = network(*SHAPES[0]).cfg.graph
    names = list(map(str, graph.nodes))

    def live(**edge):
        masks = np.zeros((1, *graph.legal.shape), bool)
        for reader, writer in edge.items():
            masks[0, list(map(str, graph.readers)).index(reader), names.index(writer)] = True
        start, found = computed(graph, masks, by_edge=True)
        return start, [name for name, one in zip(names, found) if one]

    assert live(**{"a1.h2<q>": "embed"}) == (1, ["a1.h2", "m1"])
    assert live(**{"m0": "a0.h1"}) == (0, ["m0", "a1.h0", "a1.h1", "a1.h2", "m1"])
    assert live(**{"logits": "m1"}) == (2, [])
    assert live() == (2, [])
    nodes = np.zeros((1, len(names)), bool)
    nodes[0, names.index("a0.h1")] = True
    start, found = computed(graph, nodes, by_edge=False)
    assert start == 0 and [n for n, one in zip(names, found) if one] == ["m0", *names[5:]]
    masks = np.zeros((1, *graph.legal.shape), bool)  # nobody sees a1.h0, which reads a patch
    masks[0, list(map(str, graph.readers)).index("a1.h0<v>"), 0] = True
    masks[0, :, names.index("a1.h0")] = graph.legal[:, names.index("a1.h0")]
    assert not computed(graph, masks, by_edge=True)[1][names.index("a1.h0")]


@pytest.mark.parametrize(
    ("rules", "part"),
    [
        (Rules(freeze_pattern=True), "RuledAttention"),
        (Rules(ratio_activation=True), "RuledAttention"),
        (Rules(freeze_norm=True), "RuledNorm"),
    ],
)
def test_a_network_with_parts_of_its_own_is_refused_by_name(rules, part):
    ruled = with_rules(network(*SHAPES[1]), rules)
    with torch.no_grad():
        clean, patch = record(ruled, inputs(1))[1], record(ruled, inputs(2))[1].stack
    with pytest.raises(TypeError, match=f"run_circuits cannot run a {part}; use Transformer.run"):
        list(run_circuits(ruled, clean, patch, edges=np.zeros((1, *ruled.cfg.graph.legal.shape), bool)))


class OwnTransformer(Transformer):
    """A network whose forward pass may be another one."""


class OwnUnembed(Unembed):
    """An unembedding that may do something else."""


def _hooked(network_):
    network_.blocks[0].mlp.register_forward_hook(lambda module, given, output: 0 * output)


def _tapped(network_):
    network_.blocks[1].ln1.register_full_backward_hook(lambda module, given, output: None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda network_: setattr(network_, "__class__", OwnTransformer), "cannot run a OwnTransformer"),
        (lambda network_: setattr(network_.unembed, "__class__", OwnUnembed), "cannot run a OwnUnembed"),
        (_hooked, "does not call the hooks of Mlp"),
        (_tapped, "does not call the hooks of Norm"),
    ],
)
def test_what_only_the_plain_way_would_see_is_refused(change, message):
    changed = network(*SHAPES[1])
    with torch.no_grad():
        clean, patch = record(changed, inputs(1))[1], record(changed, inputs(2))[1].stack
    change(changed)
    with pytest.raises(TypeError, match=message):
        list(run_circuits(changed, clean, patch, edges=np.zeros((1, *changed.cfg.graph.legal.shape), bool)))


def test_circuits_may_be_views_and_few_but_not_of_edges_and_nodes_at_once(model):
    graph = model.cfg.graph
    with torch.no_grad():
        clean, patch = record(model, inputs(1))[1], record(model, inputs(2))[1].stack
    masks = drawn(graph, 0.3, 0, by_edge=True)
    backwards = together(model, clean, patch, 6, edges=masks[::-1])
    torch.testing.assert_close(backwards.flip(2), together(model, clean, patch, 6, edges=masks))
    together(model, clean, patch, 2, edges=np.broadcast_to(graph.legal, (2, *graph.legal.shape)))
    assert not list(run_circuits(model, clean, patch, edges=masks[:0]))
    with pytest.raises(ValueError, match="either edges or nodes"):
        list(run_circuits(model, clean, patch, edges=masks, nodes=drawn(graph, 0.3, 0, by_edge=False)))
