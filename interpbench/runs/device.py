"""Which device to use."""

import torch

from interpbench.core.errors import ConfigError


def select_device(name: str) -> torch.device:
    """Returns the device that `auto`, `cpu`, `cuda` or `cuda:1` means here.

    Raises:
        ConfigError: if there is no such device.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(f"device={name}: no such device; use auto, cpu, cuda or cuda:1") from None
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(f"device={name}: {torch.cuda.device_count()} CUDA devices here; use device=auto")
    return device
