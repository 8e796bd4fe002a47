"""The state of an interrupted training, which is a safetensors file that is written atomically."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import torch
from pydantic import JsonValue, TypeAdapter
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from interpbench.core.errors import CheckpointError
from interpbench.core.files import parse_json, write_bytes

T = TypeVar("T")
ADAM = ("step", "exp_avg", "exp_avg_sq")
"""What Adam keeps of each weight."""
MOST_PROGRESS = 1 << 26
"""The largest number of bytes that a state may have besides weights and moments of the optimizer."""


def save_state(
    path: Path, module: nn.Module, optimizer: torch.optim.Optimizer, progress: Mapping[str, JsonValue]
) -> None:
    """Saves the state of a training.

    Args:
        path: the file.
        module: the module whose weights are saved.
        optimizer: the optimizer, whose moments are saved.
        progress: anything else to save, as JSON.
    """
    tensors: dict[str, Tensor] = {f"model/{name}": value for name, value in module.state_dict().items()}
    for number, moments in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer/{number}/{name}": value for name, value in moments.items()}
    contiguous = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    write_bytes(path, save(contiguous, {"progress": json.dumps(dict(progress))}))


def load_state(path: Path, module: nn.Module, optimizer: torch.optim.Optimizer, kind: type[T]) -> T:
    """Restores what `save_state` has saved.

    Args:
        path: the file.
        module: the module whose weights are restored.
        optimizer: the optimizer, whose moments are restored.
        kind: the dataclass of `progress`.

    Returns:
        The `progress` that was saved.

    Raises:
        CheckpointError: if the file is damaged or of another model.
    """
    try:
        most = 16 * sum(weight.numel() for weight in module.parameters()) + MOST_PROGRESS
        if path.stat().st_size > most:
            raise ValueError(f"more than {most} bytes")
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}
            data = parse_json(file.metadata()["progress"])
        progress = TypeAdapter(kind).validate_python(data)
        if not isinstance(data, dict) or set(data) != set(vars(progress)):
            raise KeyError("progress of another version")
        moments: dict[int, dict[str, Tensor]] = {}
        for name, value in tensors.items():
            if name.startswith("optimizer/"):
                _, number, moment = name.split("/")
                moments.setdefault(int(number), {})[moment] = value
        _check(moments, optimizer)
        weights = {n.removeprefix("model/"): t for n, t in tensors.items() if n.startswith("model/")}
        module.load_state_dict(weights)
        optimizer.load_state_dict({**optimizer.state_dict(), "state": moments})
    except (SafetensorError, OSError, KeyError, ValueError, TypeError, RuntimeError) as error:
        raise CheckpointError(
            f"{path} cannot be resumed from ({type(error).__name__}); delete it to start anew"
        ) from None
    return progress


def _check(moments: Mapping[int, Mapping[str, Tensor]], optimizer: torch.optim.Optimizer) -> None:
    """Checks that there are the moments of every weight, or none, as before the first step.

    They are Adam's, but for groups of weights that say in `moments` which theirs are.

    Raises:
        ValueError: if there are others.
    """
    weights = [
        (weight, group.get("moments", ADAM)) for group in optimizer.param_groups for weight in group["params"]
    ]
    found = {n: {name: value.shape for name, value in each.items()} for n, each in moments.items()}
    wanted = {
        n: {name: torch.Size() if name == "step" else weight.shape for name in names}
        for n, (weight, names) in enumerate(weights)
    }
    if found and found != wanted:
        raise ValueError("moments of other weights")
