"""The bound on what heads of the last layer can do: against what happens, in the worst direction, too."""

import dataclasses

import numpy as np
import pytest
import torch

from interpbench.circuits.naming import Node
from interpbench.training.intervention_tests import InterventionTests
from interpbench.training.last_layer import CURVATURE, Bound, is_bounded
from interpbench.training.one_node import reader
from tests.builders import chunk_of, direct, evaluation_of, intervention_tests_of, released_tests
from tests.wrong_networks import absorbed


@pytest.mark.parametrize("name", sorted(CURVATURE))
def test_no_activation_bends_more(name):
    tests = intervention_tests_of("frac_prevs", activation=name)
    activate = tests.evaluation.network.blocks[0].mlp.activate
    x = torch.linspace(-12, 12, 200_001, dtype=torch.float64).requires_grad_()
    (slope,) = torch.autograd.grad(activate(x).sum(), x, create_graph=True)
    (curvature,) = torch.autograd.grad(slope.sum(), x)
    assert 0.79 < curvature.abs().max() <= CURVATURE[name]


def test_there_is_none_for_norms_and_kinks():
    shape = intervention_tests_of("frac_prevs").evaluation.network.cfg
    assert is_bounded(shape)
    for change in ({"normalization": "LN"}, {"normalization": "LNPre"}, {"activation": "relu"}):
        assert not is_bounded(dataclasses.replace(shape, **change))


@pytest.mark.parametrize("name", ["hist", "frac_prevs", "max_with_previous"])
def test_no_margin_falls_by_more(name):
    """Whatever a head writes more, of any size, in any direction and in the steepest one."""
    tests = released_tests(name)
    chunk = chunk_of(tests, 32)
    ev, base = tests.evaluation, chunk.base
    network, layer = ev.network, ev.network.cfg.n_layers - 1
    answer = base.trace[ev.causal_model.output]
    bound, head = Bound(ev, base, answer), reader(network, Node(layer, 1), base)
    fixed, linear, curved = bound.of(head)
    clean = ev.margins(base.logits, answer)[bound.positions - 1]
    generator = torch.Generator().manual_seed(0)
    worst = 0.0
    for size in (0.01, 0.1, 1.0, 10.0):
        for direction in (None, *range(6)):
            z = torch.randn(head.output.shape[1], *base.stack.shape[2:], generator=generator)
            if direction is None:
                z = _steepest(ev, base, answer, head)
            z = z / z.norm(dim=0).clamp(min=1e-12) * size
            moved = base.residuals[-1] + torch.einsum("de,etn->dtn", head.output, z)
            after = _margins_with(ev, base, answer, layer, moved)[bound.positions - 1]
            share = ((clean - after) / clean).masked_fill(~bound.scored, -torch.inf)
            most = fixed + size * (linear + curved * size)
            assert (share <= most).all(), size
            worst = max(worst, float((share / most.clamp(min=1e-9)).masked_fill(~bound.scored, 0).max()))
    assert worst > 0.3, "the bound is of the right size"


def _steepest(ev, base, answer, head):
    z = torch.zeros(head.output.shape[1], *base.stack.shape[2:], requires_grad=True)
    with torch.enable_grad():
        moved = base.residuals[-1] + torch.einsum("de,etn->dtn", head.output, z)
        margins = _margins_with(ev, base, answer, ev.network.cfg.n_layers - 1, moved)
        (gradient,) = torch.autograd.grad(margins.sum(), z)
    return -gradient


def _margins_with(ev, base, answer, layer, moved):
    """Returns margins where the residual stream before the logits, less what the MLP wrote, moves by this."""
    mlp = ev.network.blocks[layer].mlp
    middle = moved - base.stack[-1]
    after = middle + mlp(middle)
    unembed = ev.network.unembed
    logits = (unembed.W_U.T @ after.flatten(1)).view(-1, *after.shape[1:]) + unembed.b_U[:, None, None]
    return ev.margins(logits, answer)


@pytest.mark.parametrize("name", ["hist", "frac_prevs", "mean_of_ends"])
def test_what_is_proved_is_right_when_it_is_run(name):
    tests = released_tests(name)
    chunk = chunk_of(tests, 64)
    ev, graph, base = tests.evaluation, tests.truth.graph, chunk.base
    layer = ev.network.cfg.n_layers - 1
    bound = Bound(ev, base, base.trace[ev.causal_model.output])
    deltas, expected = chunk.sources[0].stack - base.stack, direct(tests, chunk)
    proved = rows = 0
    for edge in tests.inert:
        end = graph.readers[edge[0]]
        if end.layer != layer or end.head is None:
            continue
        head = reader(ev.network, Node(layer, end.head), base)
        harmless = bound.harmless(bound.of(head), head.changes(end.slot, deltas[edge[1]][None]))[0]
        assert expected[tests.edge_name(edge)][harmless.numpy()].all(), tests.edge_name(edge)
        proved, rows = proved + int(harmless.sum()), rows + len(harmless)
    assert proved > 0.8 * rows


def test_nothing_is_proved_of_rows_that_are_wrong_or_not_finite():
    tests = released_tests("hist")
    chunk = chunk_of(tests, 16)
    ev, base = tests.evaluation, chunk.base
    answer = base.trace[ev.causal_model.output].copy()
    answer[3, 0] = (answer[3, 0] + 1) % 3
    bound, head = Bound(ev, base, answer), reader(ev.network, Node(1, 0), base)
    nothing = torch.zeros(1, head.output.shape[1], *base.stack.shape[2:])
    assert np.flatnonzero(~bound.harmless(bound.of(head), nothing)[0].numpy()).tolist() == [3]
    assert not bound.harmless(bound.of(head), nothing * torch.nan).any()


def test_what_rounding_makes_of_a_little_is_not_proved():
    """In real arithmetic the edge does next to nothing; in single precision it flips the answer."""
    wide, name = absorbed("hist", 4, 0.3)
    ev, truth = evaluation_of("hist", wide)
    tests = InterventionTests(ev, truth)
    edge = tests.inert[tests.places["edges"].index(name)]
    chunk = chunk_of(tests, 512)
    base, deltas = chunk.base, chunk.sources[0].stack - chunk.base.stack
    answer = base.trace[ev.causal_model.output]
    ((_, predictions),) = ev.single_edges(base, chunk.sources[0].stack, edge[None])
    wrong = ~ev.right(predictions, answer)
    assert wrong.sum() > 50 and ev.right(ev.predictions(base.logits), answer).all()
    end = tests.truth.graph.readers[edge[0]]
    bound, head = Bound(ev, base, answer), reader(ev.network, Node(end.layer, end.head), base)
    harmless = bound.harmless(bound.of(head), head.changes(end.slot, deltas[edge[1]][None]))[0].numpy()
    assert not (harmless & wrong).any()


def test_what_is_not_finite_is_not_proved():
    """A margin that is infinite is no proof, however little of it a head takes."""
    tests = released_tests("hist")
    chunk = chunk_of(tests, 8)
    ev, base = tests.evaluation, chunk.base
    answer = base.trace[ev.causal_model.output]
    logits = base.logits.clone()
    logits[:, 3, 2] = torch.inf
    right = torch.from_numpy(answer.T.astype(np.int64))
    logits[right[4, 5], 5, 5] = 1e38
    broken = dataclasses.replace(base, logits=logits)
    bound, head = Bound(ev, broken, answer), reader(ev.network, Node(1, 0), base)
    nothing = torch.zeros(1, head.output.shape[1], *base.stack.shape[2:])
    assert np.flatnonzero(~bound.harmless(bound.of(head), nothing)[0].numpy()).tolist() == [2, 5]
    assert not ev.right(ev.predictions(logits), answer)[2]
