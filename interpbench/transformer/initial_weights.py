"""The weights with which training starts, by the settings of `TransformerConfig` that begin with `init`."""

import math

import torch
from torch import nn

from interpbench.transformer.config import TransformerConfig


@torch.no_grad()
def initialise(network: nn.Module, cfg: TransformerConfig, seed: int) -> None:
    """Draws every weight matrix from a normal distribution, then adapts it; biases stay 0.

    Args:
        network: the network, whose weights are set in place.
        cfg: its configuration, which says how weights start.
        seed: the seed of the draw.
    """
    generator = torch.Generator().manual_seed(seed)
    std = cfg.init_std or 0.8 / math.sqrt(cfg.d_model)
    weights = dict(network.named_parameters())
    for name, parameter in weights.items():
        if name.split(".")[-1].startswith("W_"):
            parameter.copy_(torch.empty(parameter.shape).normal_(0, std, generator=generator))
    for name, parameter in weights.items() if cfg.init_matching else ():
        if name.endswith("W_K"):
            parameter.copy_(weights[name.replace("W_K", "W_Q")])
        elif name.endswith(("W_O", "W_out")):
            parameter *= 0.1
        elif name.endswith(("W_E", "W_pos")):
            parameter *= 3
    if cfg.init_orthogonal:
        _make_orthogonal(network)
    for name, parameter in weights.items() if cfg.init_nonlinear else ():
        if name.endswith(("W_E", "W_pos")):
            parameter *= 4
        elif name.endswith("W_in"):
            parameter *= 3
    positions, dimensions = cfg.init_positions, cfg.d_model
    if positions and cfg.positions == "learned":
        weights["embed.W_E"][:, dimensions - positions :] = 0
        weights["pos_embed.W_pos"][:, : dimensions - positions] = 0
        weights["pos_embed.W_pos"].mul_(math.sqrt(dimensions / positions))


def _make_orthogonal(network: nn.Module) -> None:
    """Makes every head's values and outputs orthogonal maps, and tokens, positions and classes long."""
    for name, parameter in network.named_parameters():
        if name.endswith(("W_V", "W_O")):
            for head in parameter:
                wide = head.shape[0] < head.shape[1]
                basis = torch.linalg.qr(head.T if wide else head)[0]
                head.copy_((basis.T if wide else basis) * (2.0 if name.endswith("W_V") else 0.7))
        elif name.endswith(("W_E", "W_pos", "W_U")):
            parameter *= 3 if name.endswith("W_U") else 4
