"""TransformerLens models have our logits, our activations and our weights, there and back."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from interpbench.core.errors import CheckpointError, ConfigError
from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.head_parts import HeadParts
from interpbench.transformer.model import Transformer
from interpbench.transformer.recording import record

PLAIN = TransformerConfig(
    n_layers=2, n_heads=3, d_model=12, d_head=4, d_mlp=20, d_vocab=7, d_out=4, n_ctx=6, init_std=0.2
)
SHAPES = {
    "no normalization": PLAIN,
    "LN": replace(PLAIN, normalization="LN"),
    "LNPre": replace(PLAIN, normalization="LNPre"),
    "another eps": replace(PLAIN, normalization="LN", eps=0.1),
    "bidirectional": replace(PLAIN, attention="bidirectional"),
    "bidirectional LN": replace(PLAIN, attention="bidirectional", normalization="LN"),
    "gelu_new": replace(PLAIN, activation="gelu_new"),
    "relu": replace(PLAIN, activation="relu"),
    "no biases": replace(PLAIN, biases=False),
    "no biases LN": replace(PLAIN, biases=False, normalization="LN"),
    "one number": replace(PLAIN, d_out=1, normalization="LN"),
    "a class a token": replace(PLAIN, d_out=7),
    "more classes than tokens": replace(PLAIN, d_out=11),
    "narrow heads": replace(PLAIN, d_head=1, n_heads=5),
    "wide heads": replace(PLAIN, d_head=9, n_heads=2),
    "one layer, one head": replace(PLAIN, n_layers=1, n_heads=1, d_mlp=3),
    "RMSNorm": replace(PLAIN, normalization="RMS"),
    "RMSNorm without weights": replace(PLAIN, normalization="RMSPre"),
    "rotary positions": replace(PLAIN, positions="rotary"),
    "gated MLP": replace(PLAIN, mlp="gated", activation="silu"),
    "as in Llama": replace(PLAIN, normalization="RMS", positions="rotary", mlp="gated", activation="silu"),
    "four layers": replace(PLAIN, n_layers=4, n_heads=4, normalization="LNPre"),
}
every_shape = pytest.mark.parametrize("cfg", SHAPES.values(), ids=SHAPES.keys())
close = torch.testing.assert_close


def random_model(cfg: TransformerConfig) -> Transformer:
    """Returns a model none of whose trainable numbers is at its initial value."""
    model = Transformer(cfg)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    return model


def some_tokens(cfg: TransformerConfig, length: int | None = None) -> torch.Tensor:
    generator = torch.Generator().manual_seed(2)
    return torch.randint(cfg.d_vocab, (5, length or cfg.n_ctx), generator=generator)


@every_shape
def test_logits_are_equal_there_and_back(cfg: TransformerConfig) -> None:
    model = random_model(cfg)
    bridge = model.to_transformer_lens()
    back = Transformer.from_transformer_lens(bridge)
    for length in (cfg.n_ctx, 3):
        tokens = some_tokens(cfg, length)
        wanted = model(tokens)
        assert wanted.shape == (5, length, cfg.d_out)
        close(bridge(tokens), wanted, atol=1e-5, rtol=1e-5)
        close(back(tokens), wanted, atol=0, rtol=0)


@every_shape
def test_weights_and_shape_survive(cfg: TransformerConfig) -> None:
    model = random_model(cfg)
    back = Transformer.from_transformer_lens(model.to_transformer_lens())
    assert back.cfg == replace(cfg, biases=True, init_std=None)
    close(dict(back.state_dict()), dict(model.state_dict()), atol=0, rtol=0)


def test_unembedding_bias_survives() -> None:
    model = random_model(PLAIN)
    assert model.unembed.b_U.abs().min() > 0
    close(model.to_transformer_lens().b_U, model.unembed.b_U.data)


def test_weights_are_copies() -> None:
    model, tokens = random_model(PLAIN), some_tokens(PLAIN)
    bridge = model.to_transformer_lens()
    back = Transformer.from_transformer_lens(bridge)
    wanted = model(tokens)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    close(bridge(tokens), wanted, atol=1e-5, rtol=1e-5)
    close(back(tokens), wanted)


def test_random_state_is_untouched() -> None:
    torch.manual_seed(3)
    wanted = torch.rand(2)
    model = random_model(PLAIN)
    torch.manual_seed(3)
    Transformer.from_transformer_lens(model.to_transformer_lens())
    close(torch.rand(2), wanted, atol=0, rtol=0)


def test_double_precision_stays() -> None:
    model, tokens = random_model(PLAIN).double(), some_tokens(PLAIN)
    bridge = model.to_transformer_lens()
    close(bridge(tokens), model(tokens), atol=1e-12, rtol=1e-12)
    assert Transformer.from_transformer_lens(bridge).embed.W_E.dtype == torch.float64


def test_activations_are_equal() -> None:
    """The bridge has no per-head output; its heads are read before `W_O`."""
    model, tokens = random_model(PLAIN), some_tokens(PLAIN)
    bridge = model.to_transformer_lens()
    _, cache = bridge.run_with_cache(tokens)
    _, recorded = record(model, tokens)
    for node, written in zip(PLAIN.graph.nodes, recorded.stack):
        if node.head is None:
            place = "0.hook_resid_pre" if node.layer < 0 else f"{node.layer}.hook_mlp_out"
            theirs = cache[f"blocks.{place}"]
        else:
            mixed = cache[f"blocks.{node.layer}.attn.hook_z"][:, :, node.head]
            theirs = mixed @ bridge.W_O[node.layer, node.head]
        close(theirs.permute(2, 1, 0), written, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("cfg", [PLAIN, replace(PLAIN, positions="rotary")], ids=["learned", "rotary"])
def test_parts_of_heads_are_what_hooks_hold(cfg: TransformerConfig) -> None:
    model, tokens = random_model(cfg), some_tokens(cfg)
    _, cache = model.to_transformer_lens().run_with_cache(tokens)
    heads = [place for place, node in enumerate(cfg.graph.nodes) if node.head is not None]
    parts = HeadParts(keep=[(head, part) for head in heads for part in ("q", "k", "v", "pattern")])
    model.run(model.embedding(tokens), parts)
    for (place, part), values in parts.kept.items():
        node = cfg.graph.nodes[place]
        theirs = cache[f"blocks.{node.layer}.attn.hook_{part}"]
        theirs = theirs[:, node.head] if part == "pattern" else theirs[:, :, node.head].transpose(1, 2)
        close(theirs.permute(1, 2, 0), values, atol=1e-5, rtol=1e-5)


def boot(**settings: Any) -> Any:
    from transformer_lens.config import TransformerBridgeConfig
    from transformer_lens.model_bridge.sources import native

    sizes = {"n_layers": 1, "n_heads": 2, "d_model": 8, "d_head": 4, "d_vocab": 5, "n_ctx": 4, "seed": 0}
    return native.boot(TransformerBridgeConfig(**sizes | {"act_fn": "gelu"} | settings), device="cpu")


READ = (
    {},
    {"act_fn": "silu", "gated_mlp": True},
    {"normalization_type": "RMS"},
    {"positional_embedding_type": "rotary"},
)


@pytest.mark.parametrize("settings", READ, ids=str)
def test_a_model_made_there_can_be_read(settings: dict[str, Any]) -> None:
    bridge = boot(**settings)
    model = Transformer.from_transformer_lens(bridge)
    tokens = some_tokens(model.cfg)
    close(model(tokens), bridge(tokens), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"act_fn": "solu"}, ConfigError),
        ({"normalization_type": "RMS", "final_rms": True}, CheckpointError),
        ({"positional_embedding_type": "rotary", "rotary_dim": 2}, CheckpointError),
        ({"positional_embedding_type": "rotary", "rotary_base": 500}, CheckpointError),
        ({"attn_only": True}, CheckpointError),
        ({"n_key_value_heads": 1}, CheckpointError),
        ({"attn_scores_soft_cap": 30.0}, CheckpointError),
    ],
    ids=str,
)
def test_foreign_parts_are_refused(settings: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match="TransformerLens model"):
        Transformer.from_transformer_lens(boot(**settings))
