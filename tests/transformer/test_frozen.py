"""What networks that are done compute faster, or not at all, against the plain way; gradients included."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from interpbench.circuits.scores import Cost
from interpbench.discovery import ablation
from interpbench.discovery.ablation import Ablation
from interpbench.discovery.method import clean_and_patch, get_method
from interpbench.tasks.problem import Problem
from interpbench.transformer.attention import attention_scores, mix_values, softmax
from interpbench.transformer.fast import frozen_parts
from interpbench.transformer.fast import packed as packing
from interpbench.transformer.fast.circuits import Circuits
from interpbench.transformer.fast.frozen_run import frozen_run
from interpbench.transformer.fast.packed import Packed
from interpbench.transformer.recording import record
from tests.builders import SHAPES, inputs, network

DOUBLE = torch.float64


def draw(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=DOUBLE).requires_grad_()


def agree(got, expected, *leaves):
    """Values and gradients are the same."""
    torch.testing.assert_close(got, expected)
    along = torch.randn(got.shape, dtype=got.dtype, generator=torch.Generator().manual_seed(9))
    pairs = (torch.autograd.grad((one * along).sum(), leaves, allow_unused=True) for one in (got, expected))
    for a, b in zip(*pairs):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("cached", [1, 20, 1 << 18])
@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "relu", "silu"])
def test_mlp(activation, cached, monkeypatch):
    monkeypatch.setattr(frozen_parts, "CACHED", cached)
    x, w_in, b_in, w_out, b_out = draw(4, 3, 5), *(draw(*s).detach() for s in ((7, 4), (7,), (4, 7), (4,)))
    act = {
        "gelu": functional.gelu,
        "gelu_new": lambda h: functional.gelu(h, approximate="tanh"),
        "relu": functional.relu,
        "silu": functional.silu,
    }[activation]
    hidden = act(torch.einsum("md,dtn->mtn", w_in, x) + b_in[:, None, None])
    expected = torch.einsum("dm,mtn->dtn", w_out, hidden) + b_out[:, None, None]
    agree(frozen_parts.mlp(x, w_in, b_in, w_out, b_out, activation), expected, x)
    with torch.no_grad():
        torch.testing.assert_close(frozen_parts.mlp(x, w_in, b_in, w_out, b_out, activation), expected)


@pytest.mark.parametrize("cached", [1, 1 << 18])
@pytest.mark.parametrize("only", [None, torch.tensor([3, 0, 2, 4, 4])])
@pytest.mark.parametrize("causal", [True, False])
def test_attention(causal, only, cached, monkeypatch):
    """Queries, keys and values with features last, against the formula's own path."""
    monkeypatch.setattr(frozen_parts, "CACHED", cached)
    length, rows = 5, 5
    q = draw(1, 3, length if only is None else 1, rows, 2).permute(0, 1, 4, 2, 3)
    others, output = draw(2, 3, length, rows, 2).permute(0, 1, 4, 2, 3), draw(3, 6, 2).detach()
    pattern = softmax(attention_scores(q[0], others[0], causal, only))
    values = mix_values(pattern, others[1])
    expected = torch.einsum("hde,heqn->hdqn", output, values)
    projected = [q, others] if only is not None else [torch.cat([q, others])]
    agree(frozen_parts.attend_and_write(projected, output, causal, only), expected, q, others)


@pytest.mark.parametrize("start", [0, 1, 2])
@pytest.mark.parametrize("patched", ["edges", "nodes", "some edges", "nothing"])
def test_a_single_position_equals_that_one_of_all(model, start, patched):
    graph, rng = model.cfg.graph, np.random.default_rng(1)
    with torch.no_grad():
        clean, patch = record(model, inputs(1))[1], record(model, inputs(2))[1].stack
    only = torch.tensor([3, 0, 2])
    masks = torch.from_numpy(rng.random((2, *graph.legal.shape)) * graph.legal)
    masks[:, : graph.readers_of_layer(start).start] = 0
    nodes = rng.random((2, len(graph.nodes))) < 0.3
    nodes[:, : 1 + start * 4] = False
    if patched == "some edges":  # the last reader sees its writers plainly
        masks[:, -1] = 0

    def run(only):
        leaf = masks.clone().requires_grad_(patched == "edges")
        chosen = {
            "edges": lambda: Circuits(leaf, patch, clean.stack, start),
            "some edges": lambda: Circuits(leaf, patch, clean.stack, start),
            "nodes": lambda: Circuits(None, patch, clean.stack, start, nodes),
            "nothing": lambda: Circuits(None, patch, clean.stack, start, nodes & False),
        }[patched]()
        return frozen_run(model, clean.residuals[start], chosen, only), leaf

    (whole, first), (narrow, second) = run(None), run(only)
    expected = whole.gather(1, only.expand(len(whole), 1, 2, -1))
    torch.testing.assert_close(narrow, expected)
    if patched == "edges":
        grads = [
            torch.autograd.grad(x.square().sum(), y)[0] for x, y in ((expected, first), (narrow, second))
        ]
        torch.testing.assert_close(*grads)


@pytest.mark.parametrize("aligned", [1, 5])
@pytest.mark.parametrize("shape", [shape for shape in SHAPES[:4] if shape[2] == "causal"], ids=str)
def test_positions_that_cannot_matter_need_not_be_computed(shape, aligned, monkeypatch):
    """Before the first token that differs, and after the position that is wanted."""
    monkeypatch.setattr(packing, "ALIGNED", aligned)
    network_ = network(*shape)
    tokens, other = inputs(1, rows=4), inputs(2, rows=4)
    only = torch.tensor([3, 2, 3, 1])
    for row, same in enumerate((2, 1, 0, 1)):
        other[row, :same] = tokens[row, :same]
    with torch.no_grad():
        clean, patch = record(network_, tokens)[1], record(network_, other)[1].stack
        keys_and_values = [
            block.attn.project(block.ln1(residual), block.attn.maps(slice(1, 3)))
            for block, residual in zip(network_.blocks, clean.residuals)
        ]
    positions = torch.arange(4)[:, None]
    live = ((tokens != other).T.cumsum(0) > 0) & (positions <= only) | (positions == only)
    packed = Packed(live, only, keys_and_values)
    assert packed.count == min(16, -(-int(live.sum()) // aligned) * aligned)
    graph = network_.cfg.graph
    masks = torch.rand(2, *graph.legal.shape, dtype=DOUBLE, generator=torch.Generator().manual_seed(0))
    embedding = clean.residuals[0]

    def run(embedding, patch, **how):
        leaf = masks.clone().requires_grad_()
        logits = frozen_run(network_, embedding, Circuits(leaf, patch), **how)
        return logits, torch.autograd.grad(logits.square().sum(), leaf)[0]

    plain = run(embedding, patch, only=only)
    fast = run(packed.pack(embedding), packed.pack(patch), packed=packed)
    for got, expected in zip(fast, plain):
        torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("kind", ["resample", "mean", "mean_position", "zero", "learned"])
def test_ablations_are_the_same_where_only_what_matters_is_computed(kind, monkeypatch):
    network_ = network("LN", "gelu_new", "causal", True)
    clean, corrupted = inputs(1, rows=5), inputs(2, rows=5)
    clean[:, 0] = corrupted[:, 0] = 3
    corrupted[2] = clean[2]
    only = torch.tensor([3, 2, 3, 1, 3])
    made = Problem(network_, clean, corrupted, torch.arange(4)[:, None] == only)
    assert made.only is not None and torch.equal(made.only, only)
    legal = torch.from_numpy(made.graph.legal)
    removed = torch.rand(2, *legal.shape, dtype=DOUBLE, generator=torch.Generator().manual_seed(0)) * legal

    def loss():
        found = Ablation(made, "kl", kind, Cost(), 2, 2)
        leaves = [removed.clone().requires_grad_()]
        leaves += [] if found.shifts is None else [found.shifts]
        value = found.loss(*leaves)
        return value, *torch.autograd.grad(value.sum(), leaves)

    def literal():
        runs = clean_and_patch(made, "kl", "mean" if kind == "learned" else kind, Cost())
        if kind == "learned":
            runs.patch[:, :, 0] = runs.clean[:, :, 0]
        return runs.metric(frozen_run(network_, runs.clean[0], Circuits(removed, runs.patch))).mean(1)

    plain = loss()
    torch.testing.assert_close(plain[0], literal())
    monkeypatch.setattr(ablation, "by_rows", lambda length, device: False)
    live = ablation._live(made, "zero" if kind == "learned" else kind)
    expected = {"resample": 9, "mean_position": 12}.get(kind, 17)
    assert int(live.sum()) <= expected and bool(live.gather(0, only[None]).all())
    for got, wanted in zip(loss(), plain):
        torch.testing.assert_close(got, wanted)


def test_everything_is_computed_where_more_than_one_position_counts():
    made = Problem(network(*SHAPES[0]), inputs(1), inputs(2), torch.ones(4, 3, dtype=torch.bool))
    assert made.only is None and ablation._live(made, "resample") is None
    two_way = Problem(
        network(*SHAPES[1]), inputs(1), inputs(2), torch.arange(4)[:, None] == torch.tensor([1, 2, 3])
    )
    assert two_way.only is not None and ablation._live(two_way, "resample") is None
    for one in (made, two_way):
        scores = get_method("edge_sp", {"steps": 3, "penalties": (0.1,)})(one).edges
        assert np.isfinite(scores[one.graph.legal]).all()
