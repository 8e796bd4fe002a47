"""To and from TransformerLens 4, where a native model has the same parts under other names.

Its own converter of old checkpoints, whose names and shapes ours are, says which number goes where.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from interpbench.core.config import convert
from interpbench.core.errors import CheckpointError
from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.lens_settings import settings_of, shape_of_settings

if TYPE_CHECKING:
    from transformer_lens.config import TransformerBridgeConfig
    from transformer_lens.model_bridge import TransformerBridge

_FIXED = (
    "architecture",
    "attn_only",
    "attn_scale",
    "attn_scores_soft_cap",
    "final_rms",
    "n_key_value_heads",
    "output_logits_soft_cap",
    "rope_scaling",
    "rotary_base",
    "rotary_dim",
)


def bridge_of(cfg: TransformerConfig, weights: Mapping[str, Tensor]) -> TransformerBridge:
    """Returns a TransformerLens model of a shape, with a copy of weights by our names."""
    from transformer_lens.model_bridge.sources.native import boot
    from transformer_lens.utilities.tl_checkpoint_conversion import convert_tl_checkpoint

    embedding = weights["embed.W_E"]
    bridge = boot(_bridge_config(cfg), device=embedding.device, dtype=embedding.dtype)
    bridge.load_state_dict(convert_tl_checkpoint(dict(weights), bridge.cfg), strict=True)
    return bridge


def shape_of(bridge: TransformerBridge) -> TransformerConfig:
    """Returns the shape of a native TransformerLens model.

    Raises:
        ConfigError: if its activation, normalization or attention is none of ours.
        CheckpointError: if it has a part that ours lack.
    """
    theirs = bridge.cfg
    cfg = convert(TransformerConfig, shape_of_settings(vars(theirs)), "TransformerLens model")
    plain = _bridge_config(cfg)
    if theirs.rotary_dim == cfg.d_head:
        plain.rotary_dim = cfg.d_head  # which None means, too
    for name in _FIXED:
        value, ours = getattr(theirs, name, None), getattr(plain, name, None)
        if value != ours:
            raise CheckpointError(f"cannot read a TransformerLens model with {name}={value!r}, only {ours!r}")
    return cfg


def copy_weights(bridge: TransformerBridge, weights: Mapping[str, Tensor]) -> None:
    """Fills weights, by our names, with those of a native TransformerLens model of the same shape."""
    from transformer_lens.utilities.tl_checkpoint_conversion import convert_tl_checkpoint

    given = bridge.state_dict()
    for name, weight in weights.items():
        places = torch.arange(weight.numel(), device=weight.device).view_as(weight)
        ((key, places),) = convert_tl_checkpoint({name: places}, bridge.cfg).items()
        weight.view(-1)[places.flatten()] = given[key].flatten()


def _bridge_config(cfg: TransformerConfig) -> TransformerBridgeConfig:
    """Translates a shape."""
    from transformer_lens.config import TransformerBridgeConfig

    settings: Any = settings_of(cfg)
    return TransformerBridgeConfig(architecture="TransformerLensNative", **settings)
