"""Translates a `TransformerConfig` to settings named as in TransformerLens, and back. It needs no torch."""

from interpbench.core.config import Settings, Unchecked
from interpbench.transformer.config import ROTARY_BASE, TransformerConfig

_SAME = ("n_layers", "n_heads", "d_model", "d_head", "d_mlp", "d_vocab", "n_ctx", "eps")
_NAMES = {"activation": "act_fn", "normalization": "normalization_type", "attention": "attention_dir"}


def settings_of(cfg: TransformerConfig) -> Settings:
    """Returns a configuration under TransformerLens's names, without settings that have the default there.

    A seed is among them, so that TransformerLens leaves the global random state alone.
    """
    settings: Settings = {
        **{name: getattr(cfg, name) for name in _SAME},
        "d_vocab_out": cfg.d_out,
        **{theirs: getattr(cfg, ours) for ours, theirs in _NAMES.items()},
        "seed": 0,
    }
    if cfg.positions == "rotary":
        settings |= {"positional_embedding_type": "rotary", "rotary_base": ROTARY_BASE}
        settings["rotary_adjacent_pairs"] = True
    if cfg.mlp == "gated":
        settings["gated_mlp"] = True
    return settings


def shape_of_settings(settings: Unchecked) -> Unchecked:
    """Returns the fields of a `TransformerConfig`, unchecked, from settings named as in TransformerLens.

    Raises:
        KeyError: if a setting is missing that has no default in TransformerLens.
    """
    out = settings.get("d_vocab_out", -1)
    positions = settings.get("positional_embedding_type", "standard")
    return {
        **{name: settings[name] for name in _SAME},
        **{ours: settings[theirs] for ours, theirs in _NAMES.items()},
        "d_out": settings["d_vocab"] if out == -1 else out,
        "positions": "learned" if positions == "standard" else positions,
        "mlp": "gated" if settings.get("gated_mlp", False) else "plain",
    }
