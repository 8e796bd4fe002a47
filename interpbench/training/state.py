"""The state of an interrupted training: one safetensors file, written atomically."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from interpbench.core.errors import CheckpointError
from interpbench.core.files import write_bytes


def save_state(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, progress: Mapping[str, Any]
) -> None:
    """Saves weights, optimizer moments, and whatever JSON `progress` holds."""
    tensors: dict[str, Tensor] = {f"model/{name}": value for name, value in model.state_dict().items()}
    for number, moments in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer/{number}/{name}": value for name, value in moments.items()}
    contiguous = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    write_bytes(path, save(contiguous, {"progress": json.dumps(dict(progress))}))


def load_state(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Restores what `save_state` saved and returns `progress`.

    Raises:
        CheckpointError: if the file is damaged or of another model.
    """
    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}
            progress: dict[str, Any] = json.loads(file.metadata()["progress"])
        model.load_state_dict(
            {n.removeprefix("model/"): t for n, t in tensors.items() if n.startswith("model/")}
        )
        state = optimizer.state_dict()
        moments: dict[int, dict[str, Tensor]] = {}
        for name, value in tensors.items():
            if name.startswith("optimizer/"):
                _, number, kind = name.split("/")
                moments.setdefault(int(number), {})[kind] = value
        optimizer.load_state_dict({**state, "state": moments})
    except (SafetensorError, OSError, KeyError, ValueError, TypeError, RuntimeError) as error:
        raise CheckpointError(
            f"{path} cannot be resumed from ({type(error).__name__}); delete it to start anew"
        ) from None
    return progress
