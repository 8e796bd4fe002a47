"""Conversion to and from TransformerLens 4, whose native models have the same parts under other names.

Our names and shapes are those of TransformerLens's old checkpoints, so that its own converter of these
applies.
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
    """Returns a TransformerLens model of this configuration, with a copy of `weights` (our state dict)."""
    from transformer_lens.model_bridge.sources.native import boot
    from transformer_lens.utilities.tl_checkpoint_conversion import convert_tl_checkpoint

    embedding = weights["embed.W_E"]
    bridge = boot(_bridge_config(cfg), device=embedding.device, dtype=embedding.dtype)
    bridge.load_state_dict(convert_tl_checkpoint(dict(weights), bridge.cfg), strict=True)
    return bridge


def shape_of(bridge: TransformerBridge) -> TransformerConfig:
    """Returns the configuration of a native TransformerLens model.

    Raises:
        ConfigError: if the model has an activation, normalization or attention that is not supported.
        CheckpointError: if the model has a part that is not supported.
    """
    theirs = bridge.cfg
    cfg = convert(TransformerConfig, shape_of_settings(vars(theirs)), "TransformerLens model")
    plain = _bridge_config(cfg)
    if theirs.rotary_dim == cfg.d_head:
        plain.rotary_dim = cfg.d_head  # None means the same
    for name in _FIXED:
        value, ours = getattr(theirs, name, None), getattr(plain, name, None)
        if value != ours:
            raise CheckpointError(
                f"cannot read a TransformerLens model with {name}={value!r}: only {ours!r} is supported"
            )
    return cfg


def copy_weights(bridge: TransformerBridge, weights: Mapping[str, Tensor]) -> None:
    """Fills `weights` (our state dict) with those of a native TransformerLens model of the same shape."""
    from transformer_lens.utilities.tl_checkpoint_conversion import convert_tl_checkpoint

    given = bridge.state_dict()
    for name, weight in weights.items():
        places = torch.arange(weight.numel(), device=weight.device).view_as(weight)
        ((key, places),) = convert_tl_checkpoint({name: places}, bridge.cfg).items()
        weight.view(-1)[places.flatten()] = given[key].flatten()


def _bridge_config(cfg: TransformerConfig) -> TransformerBridgeConfig:
    """Returns the TransformerLens configuration that is the same as ours."""
    from transformer_lens.config import TransformerBridgeConfig

    settings: Any = settings_of(cfg)
    return TransformerBridgeConfig(architecture="TransformerLensNative", **settings)
