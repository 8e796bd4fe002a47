"""A shape under the names of TransformerLens's configurations: the one translation. Needs no torch."""

from typing import Any

from interpbench.transformer.config import ROTARY_BASE, TransformerConfig

SIZES = ("n_layers", "n_heads", "d_model", "d_head", "d_mlp", "d_vocab", "n_ctx", "eps")


def settings_of(cfg: TransformerConfig) -> dict[str, Any]:
    """Returns a shape under the names of TransformerLens's configurations, but for its defaults.

    The seed keeps the global random state untouched.
    """
    settings: dict[str, Any] = {
        **{name: getattr(cfg, name) for name in SIZES},
        "d_vocab_out": cfg.d_out,
        "act_fn": cfg.activation,
        "normalization_type": cfg.normalization,
        "attention_dir": cfg.attention,
        "seed": 0,
    }
    if cfg.positions == "rotary":
        settings |= {"positional_embedding_type": "rotary", "rotary_base": ROTARY_BASE}
        settings["rotary_adjacent_pairs"] = True
    if cfg.mlp == "gated":
        settings["gated_mlp"] = True
    return settings
