"""The state of an interrupted training: what is saved is restored to the bit, and nothing else is taken."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

from interpbench.core.errors import CheckpointError
from interpbench.training.state import load_state, save_state

Made = tuple[nn.Module, torch.optim.Optimizer]


@dataclass
class Done:
    step: int
    best: float | None


DONE = Done(7, 0.1 + 0.2)


def made(width: int = 3, steps: int = 0, seed: int = 0) -> Made:
    """A network and its optimizer after some steps of training."""
    torch.manual_seed(seed)
    network = nn.Linear(width, 2)
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.1)
    advance((network, optimizer), steps)
    return network, optimizer


def advance(pair: Made, steps: int) -> None:
    network, optimizer = pair
    for _ in range(steps):
        optimizer.zero_grad()
        network(torch.ones(4, network.in_features)).square().sum().backward()
        optimizer.step()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    save_state(tmp_path / "state.safetensors", *made(steps=5), asdict(DONE))
    return tmp_path / "state.safetensors"


@pytest.mark.parametrize("before", [0, 3])
def test_what_goes_on_is_what_was_not_interrupted(tmp_path: Path, before: int) -> None:
    """Weights and moments are restored whatever the new network and optimizer had."""
    first, resumed = made(steps=before), made(steps=2, seed=1)
    save_state(tmp_path / "state", *first, asdict(DONE))
    assert load_state(tmp_path / "state", *resumed, Done) == DONE
    for pair in (first, resumed):
        advance(pair, 4)
    for ours, theirs in zip(first[0].parameters(), resumed[0].parameters(), strict=True):
        assert torch.equal(ours, theirs)


def progress(change: Callable[[dict[str, object]], object]) -> Callable[[Path], None]:
    """Rewrites a state with another `progress`."""

    def rewrite(path: Path) -> None:
        with safe_open(path, "pt") as file:
            data = json.loads(file.metadata()["progress"])
        change(data)
        save_file(load_file(path), path, {"progress": json.dumps(data)})

    return rewrite


def tensors(change: Callable[[dict[str, torch.Tensor]], object]) -> Callable[[Path], None]:
    """Rewrites a state with other tensors."""

    def rewrite(path: Path) -> None:
        found = load_file(path)
        change(found)
        save_file(found, path, {"progress": json.dumps(asdict(DONE))})

    return rewrite


DAMAGED: dict[str, Callable[[Path], object]] = {
    "no file": lambda path: path.unlink(),
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:-8]),
    "no safetensors": lambda path: path.write_text("{}"),
    "no progress": lambda path: save_file(load_file(path), path),
    "progress of another version": progress(lambda data: data.pop("best")),
    "progress with more": progress(lambda data: data.update(more=1)),
    "progress of another kind": progress(lambda data: data.update(step="many")),
    "a weight is missing": tensors(lambda found: found.pop("model/bias")),
    "a weight too many": tensors(lambda found: found.update({"model/more": torch.zeros(1)})),
    "a moment is missing": tensors(lambda found: found.pop("optimizer/1/exp_avg")),
    "moments of a weight are missing": tensors(
        lambda found: [found.pop(f"optimizer/1/{name}") for name in ("step", "exp_avg", "exp_avg_sq")]
    ),
    "a moment of another shape": tensors(lambda found: found.update({"optimizer/1/exp_avg": torch.zeros(5)})),
}


@pytest.mark.parametrize("how", DAMAGED)
def test_a_damaged_state_is_refused_in_one_line(path: Path, how: str) -> None:
    DAMAGED[how](path)
    with pytest.raises(
        CheckpointError, match=r"cannot be resumed from \(\w+\); delete it to start anew$"
    ) as error:
        load_state(path, *made(seed=2), Done)
    assert "\n" not in str(error.value) and str(path) in str(error.value)


def test_a_state_of_another_network_is_refused(path: Path) -> None:
    with pytest.raises(CheckpointError, match="delete it to start anew"):
        load_state(path, *made(width=4), Done)


def test_a_state_larger_than_any_is_not_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interpbench.training.state.MOST_PROGRESS", -1)
    with pytest.raises(CheckpointError, match=r"\(ValueError\)"):
        load_state(path, *made(width=1), Done)
