"""Models as TransformerLens 1 to 3 read them: the configuration and state dict of a `HookedTransformer`.

Our weights have its names and shapes. It has two constants a layer besides: the causal mask, and what masked
attention scores become.
"""

from pathlib import Path

import torch
from safetensors.torch import save as save_tensors
from torch import Tensor

from interpbench.core.config import Settings
from interpbench.core.errors import CheckpointError
from interpbench.core.files import write_bytes, write_json
from interpbench.transformer.lens_settings import settings_of
from interpbench.transformer.model import Transformer

CONFIG, STATE = "hooked_transformer.json", "hooked_transformer.safetensors"


def hooked_config(network: Transformer) -> Settings:
    """Returns the arguments of `HookedTransformerConfig`, as plain data."""
    return {**settings_of(network.cfg), "device": "cpu"}


def hooked_state(network: Transformer) -> dict[str, Tensor]:
    """Returns the state dict, which `HookedTransformer.load_state_dict` takes with `strict=True`."""
    cfg, state = network.cfg, {name: value.detach().cpu() for name, value in network.state_dict().items()}
    visible = torch.ones(cfg.n_ctx, cfg.n_ctx, dtype=torch.bool)
    for layer in range(cfg.n_layers):
        prefix = f"blocks.{layer}.attn"
        state[f"{prefix}.mask"] = visible.tril() if cfg.attention == "causal" else visible.clone()
        state[f"{prefix}.IGNORE"] = torch.tensor(-torch.inf)
    return state


def save_hooked(network: Transformer, folder: Path) -> None:
    """Writes the configuration as JSON and the state dict as safetensors.

    Raises:
        InterpBenchError: if the folder cannot be written, or the network has parts that those versions name
            otherwise.
    """
    if network.cfg.features:
        raise CheckpointError(
            f"what TransformerLens 1 to 3 reads is not written for {' and '.join(network.cfg.features)}; "
            "network.to_transformer_lens() opens it in TransformerLens 4"
        )
    weights = {name: value.contiguous() for name, value in hooked_state(network).items()}
    write_bytes(folder / STATE, save_tensors(weights))
    write_json(folder / CONFIG, hooked_config(network))
