"""Which device to use."""

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from interpbench.core.errors import ConfigError

if TYPE_CHECKING:
    import torch

_DEVICE = re.compile(r"auto|cpu|cuda(:\d{1,3})?")


def check_device(name: str) -> None:
    """Refuses what is no device, and CUDA where there is no driver for it. Needs no torch.

    Raises:
        ConfigError: with what can be said instead.
    """
    if not _DEVICE.fullmatch(name):
        raise ConfigError(f"device={name}: no such device; use auto, cpu, cuda or cuda:1")
    drivers = [*Path("/dev").glob("nvidia*"), Path("/dev/dxg"), Path("/dev/kfd")]
    if name.startswith("cuda") and sys.platform == "linux" and not any(path.exists() for path in drivers):
        raise ConfigError(f"device={name}: there is no CUDA device here; use device=auto")


def select_device(name: str) -> "torch.device":
    """Returns the device that `auto`, `cpu`, `cuda` or `cuda:1` means here.

    Raises:
        ConfigError: if there is no such device.
    """
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    check_device(name)
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(f"device={name}: {torch.cuda.device_count()} CUDA devices here; use device=auto")
    return device
