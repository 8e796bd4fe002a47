"""Routes: every reader of every row sees each writer of a run of its own, against the literal transformer."""

import numpy as np
import pytest
import torch

from interpbench.transformer.interventions import Interventions, Together
from interpbench.transformer.recording import record
from interpbench.transformer.routes import Replaced, RoutedWriters, Routes
from interpbench.transformer.taps import WriterTaps
from tests.builders import SHAPES, inputs, network, shape_name
from tests.oracles import transformer as oracle

SOURCES = 2


@pytest.fixture(params=SHAPES, ids=shape_name)
def model(request):
    return network(*request.param).requires_grad_(False)


def drawn(model, rows, seed=0):
    """Returns routes `[row, R, W]`: 0 for the row itself, s for its source s."""
    legal = model.cfg.graph.legal
    return np.random.default_rng(seed).integers(1 + SOURCES, size=(rows, *legal.shape)) * legal


def one_hot(routes):
    """Returns masks `[row, R, W, S]`."""
    return torch.from_numpy(np.stack([routes == source for source in range(1, 1 + SOURCES)], -1)).double()


def literal(model, tokens, sources, routes):
    """Runs one row, one edge at a time, by `routes [row, (T,) R, W]`; returns logits `[V, T, row]`."""
    graph, rows = model.cfg.graph, []
    for number, row in enumerate(tokens.tolist()):
        outputs = [oracle.run(model, source[number].tolist())[1] for source in sources]
        by_position = routes if routes.ndim == 4 else np.repeat(routes[:, None], len(row), 1)
        chosen = {
            (str(graph.nodes[w]), str(graph.readers[r]), t): outputs[by_position[number, t, r, w] - 1]
            for t, r, w in np.argwhere(by_position[number])
        }
        rows.append(torch.stack(oracle.run(model, row, routes=chosen)[0]))
    return torch.stack(rows).permute(2, 1, 0)


def test_each_row_has_routes_of_its_own(model):
    base, sources, routes = inputs(1), [inputs(2), inputs(3)], drawn(model, 3)
    given = torch.stack([record(model, source)[1].stack for source in sources], 1)
    logits = model.run(model.embedding(base), Routes(one_hot(routes), given, by_row=True))
    torch.testing.assert_close(logits, literal(model, base, sources, routes))


def test_groups_share_routes_on_the_same_examples(model):
    base, sources, routes = inputs(1), [inputs(2), inputs(3)], drawn(model, 4, 1)
    given = torch.stack([record(model, source)[1].stack for source in sources], 1)
    logits = model.run(model.embedding(base).repeat(1, 1, 4), Routes(one_hot(routes), given))
    for group, some in enumerate(logits.unflatten(2, (4, 3)).unbind(2)):
        expected = literal(model, base, sources, np.repeat(routes[group][None], 3, 0))
        torch.testing.assert_close(some, expected)


@pytest.mark.parametrize("by_row", [True, False])
def test_routes_may_differ_between_positions(model, by_row):
    base, sources = inputs(1), [inputs(2), inputs(3)]
    length = base.shape[1]
    routes = np.stack([drawn(model, 3, seed) for seed in range(length)], 1)  # [group, T, R, W]
    given = torch.stack([record(model, source)[1].stack for source in sources], 1)
    embedding = model.embedding(base)
    if by_row:
        logits = model.run(embedding, Routes(one_hot(routes), given, by_row=True))[:, :, None]
        of_row = routes
    else:
        logits = model.run(embedding.repeat(1, 1, 3), Routes(one_hot(routes), given)).unflatten(2, (3, 3))
    for group in range(1 if by_row else 3):
        of_row = routes if by_row else np.repeat(routes[group][None], 3, 0)
        torch.testing.assert_close(logits[:, :, group], literal(model, base, sources, of_row))


@pytest.mark.parametrize("share", [0.0, 0.6])
def test_gradients_of_masks_are_right(share):
    """The masks are ends of a path, and their gradient is that of finite differences."""
    model = network(*SHAPES[1]).requires_grad_(False)
    base, sources = inputs(1), [inputs(2), inputs(3)]
    given = torch.stack([record(model, source)[1].stack for source in sources], 1)
    masks = (one_hot(drawn(model, 3)) * share).requires_grad_()
    legal = torch.from_numpy(model.cfg.graph.legal)[None, :, :, None]

    def total(masks):
        logits = model.run(model.embedding(base), Routes(masks * legal, given, by_row=True))
        return logits[:, -1].square().sum()

    (grad,) = torch.autograd.grad(total(masks), masks)
    direction = torch.randn(masks.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    with torch.no_grad():
        slope = (total(masks + 1e-5 * direction) - total(masks - 1e-5 * direction)) / 2e-5
    torch.testing.assert_close((grad * direction).sum(), slope, rtol=1e-6, atol=1e-6)


class Cut(Interventions):
    """Passes no gradient on from the MLPs."""

    def write(self, writers, outputs):
        return outputs if len(writers) > 1 else outputs.detach()


@pytest.mark.parametrize("weights", [True, False])
def test_a_writer_that_is_cut_off_is_seen_like_any_other(weights):
    model = network(*SHAPES[1]).requires_grad_(weights)
    given = torch.stack([record(model, inputs(seed))[1].stack.detach() for seed in (2, 3)], 1)
    masks, embedding = 0.6 * one_hot(drawn(model, 3)), model.embedding(inputs(1))
    expected = model.run(embedding, Routes(masks, given, by_row=True)).detach()
    routes = Routes(masks.clone().requires_grad_(not weights), given, by_row=True)
    got = model.run(embedding, Together(Cut(), routes))
    torch.testing.assert_close(got.detach(), expected)
    got[:, -1].square().sum().backward()


def test_replaced_writers_are_full_columns(model):
    base, graph = inputs(1), model.cfg.graph
    patch = record(model, inputs(2))[1].stack
    replaced = np.random.default_rng(0).random((len(graph.nodes), 3)) < 0.5
    routes = (replaced.T[:, None, :] & graph.legal).astype(int)
    expected = model.run(model.embedding(base), Routes(one_hot(routes)[..., :1], patch[:, None], by_row=True))
    got = model.run(model.embedding(base), Replaced(torch.from_numpy(replaced), patch))
    torch.testing.assert_close(got, expected)


def test_routed_writers_are_full_columns(model):
    base, sources, graph = inputs(1), [inputs(2), inputs(3)], model.cfg.graph
    given = torch.stack([record(model, source)[1].stack for source in sources], 1)
    chosen = np.random.default_rng(0).integers(1 + SOURCES, size=(4, len(graph.nodes)))
    routes = chosen[:, None, :] * graph.legal
    embedding = model.embedding(base).repeat(1, 1, 4)
    masks, by_edge = one_hot(chosen).requires_grad_(), one_hot(routes).requires_grad_()
    expected = model.run(embedding, Routes(by_edge, given))
    got = model.run(embedding, RoutedWriters(masks, given))
    torch.testing.assert_close(got, expected)
    (grad,) = torch.autograd.grad(got[:, -1].square().sum(), masks)
    (by_edges,) = torch.autograd.grad(expected[:, -1].square().sum(), by_edge)
    legal = torch.from_numpy(graph.legal)[None, :, :, None]
    torch.testing.assert_close(grad, (by_edges * legal).sum(1))


def test_taps_give_the_gradient_of_what_is_written():
    model = network(*SHAPES[2]).requires_grad_(False)
    taps = WriterTaps()
    logits = model.run(model.embedding(inputs(1)), taps)
    grads = torch.autograd.grad(logits[:, -1].sum(), taps.outputs)
    node, step = 5, 1e-6  # a head or MLP of the last layer
    stack = record(model, inputs(1))[1].stack
    replaced = torch.zeros(len(stack), 1, dtype=torch.bool)
    replaced[node] = True
    moved = stack.clone()
    moved[node, 3, 1, 2] += step
    after = model.run(model.embedding(inputs(1)), Replaced(replaced, moved))[:, -1].sum()
    slope = (after - logits[:, -1].sum()) / step
    torch.testing.assert_close(torch.cat(grads)[node, 3, 1, 2], slope, rtol=1e-4, atol=1e-6)
