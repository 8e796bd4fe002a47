"""The kernel against a literal transformer, and its row-wise products against autograd's own."""

import dataclasses
import itertools
from functools import partial

import numpy as np
import pytest
import torch

from interpbench.transformer import row_products
from interpbench.transformer.attention import attention_scores, mix_values, softmax
from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.fast.circuits import Circuits
from interpbench.transformer.fast.frozen_run import frozen_run
from interpbench.transformer.model import Transformer
from interpbench.transformer.recording import record
from interpbench.transformer.routes import Replaced
from interpbench.transformer.worlds import Worlds
from tests.builders import inputs, network
from tests.oracles import transformer as oracle


def literal(model, tokens, source, edges=(), nodes=()):
    rows = []
    for base, other in zip(tokens.tolist(), source.tolist()):
        patch = oracle.run(model, other)[1]
        rows.append(torch.stack(oracle.run(model, base, set(edges), set(nodes), patch)[0]))
    return torch.stack(rows)  # [N, T, V]


def test_clean_run_equals_the_oracle(model):
    tokens = inputs(1)
    with torch.no_grad():
        torch.testing.assert_close(model(tokens), literal(model, tokens, tokens))


@pytest.mark.parametrize("start", [0, 1])
def test_edge_patches_equal_the_oracle(model, start):
    tokens, source = inputs(1), inputs(2)
    graph = model.cfg.graph
    masks = (np.random.default_rng(0).random((4, *graph.legal.shape)) < 0.3) & graph.legal
    if start:
        masks[:, : graph.readers_of_layer(1).start] = False
    with torch.no_grad():
        (_, clean), (_, patch) = record(model, tokens), record(model, source)
        circuits = Circuits(torch.from_numpy(masks).double(), patch.stack, clean.stack, start)
        logits = frozen_run(model, clean.residuals[start], circuits)
        for k, mask in enumerate(masks):
            edges = [(str(graph.nodes[w]), str(graph.readers[r])) for r, w in np.argwhere(mask)]
            expected = literal(model, tokens, source, edges)
            torch.testing.assert_close(logits[:, :, k].permute(2, 1, 0), expected)


@pytest.mark.parametrize("start", [0, 1])
def test_shifts_are_added_to_the_patch_of_their_candidate(model, start):
    graph = model.cfg.graph
    masks = (np.random.default_rng(0).random((2, *graph.legal.shape)) < 0.5) & graph.legal
    masks[:, : graph.readers_of_layer(start).start] = False
    chosen = torch.from_numpy(masks).double()
    with torch.no_grad():
        clean, patch = record(model, inputs(1))[1], record(model, inputs(2))[1].stack
        shifts = torch.randn(2, *patch.shape[:2], dtype=torch.float64)
        residual = clean.residuals[start]
        got = frozen_run(model, residual, Circuits(chosen, patch, clean.stack, start, shifts=shifts))
        for k, shift in enumerate(shifts):
            moved = patch + shift[..., None, None]
            moved[:, :, 0] = patch[:, :, 0]  # BOS
            alone = Circuits(chosen[k : k + 1], moved, clean.stack, start)
            torch.testing.assert_close(got[:, :, k], frozen_run(model, residual, alone)[:, :, 0])


def test_node_patches_equal_the_oracle_and_full_columns(model):
    tokens, source = inputs(1), inputs(2)
    graph = model.cfg.graph
    nodes = np.eye(len(graph.nodes), dtype=bool)
    columns = nodes[:, None, :] & graph.legal
    with torch.no_grad():
        (_, clean), (_, patch) = record(model, tokens), record(model, source)
        ran = Circuits(None, patch.stack, nodes=nodes)
        by_node = frozen_run(model, clean.residuals[0], ran)
        ran = Circuits(torch.from_numpy(columns).double(), patch.stack)
        by_edges = frozen_run(model, clean.residuals[0], ran)
        torch.testing.assert_close(by_node, by_edges)
        for k, node in enumerate(graph.nodes):
            expected = literal(model, tokens, source, nodes=[str(node)])
            torch.testing.assert_close(by_node[:, :, k].permute(2, 1, 0), expected)


def test_full_mask_gives_the_patched_run_and_empty_mask_the_model(model):
    tokens, source = inputs(1), inputs(2)
    graph = model.cfg.graph
    masks = torch.stack([torch.zeros(graph.legal.shape), torch.from_numpy(graph.legal)]).double()
    with torch.no_grad():
        (logits, clean), (patched, patch) = record(model, tokens), record(model, source)
        got = frozen_run(model, clean.residuals[0], Circuits(masks, patch.stack))
    torch.testing.assert_close(got[:, :, 0], logits)
    torch.testing.assert_close(got[:, :, 1], patched)


def test_masks_and_shifts_have_exact_gradients(model):
    tokens, graph = inputs(1), model.cfg.graph
    generator = torch.Generator().manual_seed(0)
    masks = torch.rand(2, *graph.legal.shape, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        clean, patch = record(model, tokens)[1], record(model, inputs(2))[1].stack

    def value(masks, shifts):
        ran = Circuits(masks, patch, shifts=shifts)
        return frozen_run(model, clean.residuals[0], ran).square().mean()

    shifts = torch.randn(2, *patch.shape[:2], generator=generator, dtype=torch.float64)
    leaves = masks.requires_grad_(), shifts.requires_grad_()
    total = value(*leaves)
    grads = torch.autograd.grad(total, leaves, retain_graph=True)
    with pytest.raises(RuntimeError, match="only once"):
        torch.autograd.grad(total, leaves)
    illegal = ~torch.from_numpy(graph.legal)
    assert not grads[0][:, illegal].any()
    for leaf, grad in zip(leaves, grads):
        for _ in range(4):
            step = 1e-6 * torch.randn(leaf.shape, generator=generator, dtype=torch.float64)
            with torch.no_grad():
                up, down = (
                    value(*(other + sign * step if other is leaf else other for other in leaves))
                    for sign in (1, -1)
                )
            assert float((grad * step).sum()) == pytest.approx(float(up - down) / 2, rel=1e-6, abs=1e-14)


@pytest.mark.parametrize("own_sources", [False, True])
def test_worlds_equal_the_oracle(model, own_sources):
    """Source, clean, node-patched, edge-patched worlds in one pass; every row its own intervention."""
    rng = np.random.default_rng(3)
    graph, batch = model.cfg.graph, 3
    worlds = [inputs(1), inputs(2), inputs(3), inputs(3)]
    nodes = np.zeros((len(graph.nodes), 4, batch), np.int8)
    nodes[:, 2] = rng.integers(0, 3, (len(graph.nodes), batch))
    nodes[0, 2] = 0
    edges = (rng.random((*graph.legal.shape, batch)) < 0.3) & graph.legal[:, :, None]
    from_next = rng.integers(0, 2, edges.shape) if own_sources else np.zeros(edges.shape, int)
    patching = Worlds(
        torch.from_numpy(nodes),
        torch.from_numpy(edges).double(),
        edge_sources=torch.from_numpy(from_next) if own_sources else None,
    )
    with torch.no_grad():
        logits = model.run(model.embedding(torch.cat(worlds)), patching).view(5, 4, 4, batch)
        for world, b in itertools.product(range(2), range(batch)):
            expected = torch.stack(oracle.run(model, worlds[world][b].tolist())[0]).T
            torch.testing.assert_close(logits[:, :, world, b], expected)
        for b in range(batch):
            sources = [oracle.run(model, worlds[0][(b + shift) % batch].tolist())[1] for shift in (0, 1)]
            chosen = {str(n): int(s) for n, s in zip(graph.nodes, nodes[:, 2, b]) if s}
            patch = {name: sources[s - 1][name] for name, s in chosen.items()}
            expected = torch.stack(oracle.run(model, worlds[2][b].tolist(), (), set(chosen), patch)[0]).T
            torch.testing.assert_close(logits[:, :, 2, b], expected)
            routes = {
                (str(graph.nodes[w]), str(graph.readers[r]), place): sources[from_next[r, w, b]]
                for r, w in np.argwhere(edges[:, :, b])
                for place in range(len(worlds[3][b]))
            }
            expected = torch.stack(oracle.run(model, worlds[3][b].tolist(), routes=routes)[0]).T
            torch.testing.assert_close(logits[:, :, 3, b], expected)


def test_rowwise_products_have_exact_gradients():
    generator = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True)

    assert torch.autograd.gradcheck(row_products.scores, (draw(2, 3, 4, 2), draw(2, 3, 5, 2)))
    assert torch.autograd.gradcheck(row_products.attend_values, (draw(2, 4, 5, 2), draw(2, 3, 5, 2)))
    masks = draw(4, 6, 2).detach()
    swaps = [
        (1, 0, torch.tensor([1.0, 0.0], dtype=torch.float64).view(1, 1, 1, 2)),
        (2, 1, torch.ones(1, 1, 1, 2, dtype=torch.float64)),
    ]
    assert torch.autograd.gradcheck(lambda x: row_products.swap(x, swaps, True), (draw(1, 2, 2, 4, 2),))

    def blended(base, values, more, sources):
        stack, mask = row_products.Stack(3, base, sources), masks[:, : 3 * sources]
        first = stack.blend(base + stack.swap(values, swaps, True)[1][0], mask[:2])
        swapped, source = stack.swap(more, [])
        return stack.blend(base, mask[2:]), first, swapped, source

    for sources in (1, 2):
        given = draw(2, 3, 2), draw(1, 2, 3, 4, 2), draw(2, 2, 3, 4, 2)
        assert torch.autograd.gradcheck(partial(blended, sources=sources), given)


@pytest.mark.parametrize(("length", "rows"), [(4, 5), (17, 5), (17, 256)])
def test_attention_paths_agree(length, rows):
    """Products of rows, and batched ones for a few rows of many positions, equal the formula."""
    q, k, v = (torch.randn(2, 3, length, rows, dtype=torch.float64) for _ in range(3))
    future = torch.ones(length, length).triu(1).bool()[None, :, :, None]
    for causal in (True, False):
        scores = torch.einsum("heqn,hekn->hqkn", q, k)
        if causal:
            scores = scores.masked_fill(future, -torch.inf)
        expected = torch.einsum("hqkn,hekn->heqn", scores.softmax(2), v)
        pattern = softmax(attention_scores(q, k, causal))
        torch.testing.assert_close(mix_values(pattern, v), expected)


def test_worlds_gradient_equals_separate_runs():
    """One backward pass through all worlds equals the gradients of separately patched runs."""
    model = network(None, "gelu", "causal", True)
    graph = model.cfg.graph
    base, source = inputs(5), inputs(6)
    nodes = torch.zeros(len(graph.nodes), 3, 3, dtype=torch.int8)
    nodes[5, 2] = 1
    model.run(model.embedding(torch.cat([source, source, base])), Worlds(nodes, None))[
        ..., 6:
    ].square().sum().backward()
    together = model.blocks[0].attn.W_O.grad.clone()
    model.zero_grad()
    _, patch = record(model, source)
    chosen = torch.zeros(len(graph.nodes), 1, dtype=torch.bool)
    chosen[5] = True
    model.run(model.embedding(base), Replaced(chosen, patch.stack)).square().sum().backward()
    torch.testing.assert_close(together, model.blocks[0].attn.W_O.grad)


def test_heads_may_start_as_orthogonal_maps():
    cfg = dataclasses.replace(TransformerConfig(2, 2, 8, 4, 12, 7, 5, 4), init_orthogonal=True)
    attn = Transformer(cfg, 3).blocks[1].attn
    for head in range(2):
        torch.testing.assert_close(attn.W_V[head].T @ attn.W_V[head], 4 * torch.eye(4))
        torch.testing.assert_close(attn.W_O[head] @ attn.W_O[head].T, 0.49 * torch.eye(4))
    plain = Transformer(dataclasses.replace(cfg, init_orthogonal=False), 3)
    torch.testing.assert_close(Transformer(cfg, 3).embed.W_E, 4 * plain.embed.W_E)
    assert torch.equal(attn.W_Q, plain.blocks[1].attn.W_Q)


def test_mlps_may_start_as_nonlinear_maps_of_token_and_position():
    """More of what the first MLP writes is of neither the token nor the position alone."""

    def interaction(nonlinear: bool) -> float:
        cfg = TransformerConfig(
            1, 2, 64, 16, 256, 11, 5, 9, attention="bidirectional", init_nonlinear=nonlinear
        )
        made = Transformer(cfg, 3)
        with torch.no_grad():
            written = made.blocks[0].mlp(made.embedding(torch.arange(11)[:, None].expand(-1, 9)))
        written = written - written.mean((1, 2), keepdim=True)
        token, position = written.mean(1, keepdim=True), written.mean(2, keepdim=True)
        return float((written - token - position).square().sum() / written.square().sum())

    assert interaction(True) > 10 * interaction(False)


def test_positions_may_start_in_dimensions_of_their_own():
    cfg = dataclasses.replace(TransformerConfig(2, 2, 8, 4, 12, 7, 5, 4), init_matching=True)
    plain, apart = Transformer(cfg, 3), Transformer(dataclasses.replace(cfg, init_positions=2), 3)
    assert not apart.embed.W_E[:, 6:].any() and not apart.pos_embed.W_pos[:, :6].any()
    assert torch.equal(apart.embed.W_E[:, :6], plain.embed.W_E[:, :6])
    torch.testing.assert_close(apart.pos_embed.W_pos[:, 6:], 2 * plain.pos_embed.W_pos[:, 6:])
    for block in apart.blocks:
        assert torch.equal(block.attn.W_K, block.attn.W_Q)
