"""Fixtures for all tests: one thread, compiled networks with their truth, random networks, checkpoints."""

import gc
import os

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported, and for the commands that tests start
os.environ.pop("INTERPBENCH_HUB", None)  # no test uses the network

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import hypothesis
import pytest
import torch

from interpbench.alignment.alignment import Alignment
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.circuits.ground_truth import Truth
from interpbench.core.process import prepare_torch
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.model_settings import ModelSettings
from interpbench.training.settings import CertificateSettings
from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.model import Transformer
from tests.made_up_certificates import put_certificate
from tests.model_hub import certified_once, elsewhere, hub, originals
from tests.registries import as_before

__all__ = ["certified_once", "elsewhere", "hub", "originals"]  # fixtures

SMALL_TASKS = ("frac_prevs", "hist", "trend_to_next")
TINY = {
    **{"n_layers": 2, "n_heads": 2, "d_model": 8, "d_head": 4, "d_mlp": 16},
    **{"d_vocab": 6, "d_out": 3, "n_ctx": 5},
}

LONG = ("repository", "runs", "training", "tasks")
"""The folders whose files take longest. They come first, so that both workers are busy until the end."""

# The same examples in every run, however slow the machine is.
hypothesis.settings.register_profile("repository", deadline=None, derandomize=True, max_examples=50)
hypothesis.settings.load_profile("repository")


class Compiled(NamedTuple):
    network: Transformer
    alignment: Alignment
    truth: Truth


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.parent.name not in LONG)


def pytest_collection_finish() -> None:
    """Collects garbage less often, and never among what was imported, which saves 7 % of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


@pytest.fixture(scope="session", autouse=True)
def prepared() -> None:
    prepare_torch(threads=1)


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """Each test draws the same random numbers, whichever tests ran before it in its process."""
    torch.manual_seed(0)


@pytest.fixture(scope="module", autouse=True)
def registered() -> Iterator[None]:
    """What tests of a module register is forgotten after it, whichever modules share its process."""
    with as_before():
        yield


@pytest.fixture(scope="session", params=SMALL_TASKS)
def compiled(request: pytest.FixtureRequest) -> Compiled:
    """The network that Tracr compiles for a task, with Tracr's alignment; a test runs once for each task."""
    from interpbench.rasp.compile import compile_program
    from interpbench.rasp.weights import compiled_network

    task = get_task(request.param)
    network = compiled_network(compile_program(task.program)).requires_grad_(False)
    alignment = Alignment(task, network.cfg.graph, task.default_alignment)
    return Compiled(network, alignment, find_truth(alignment))


@pytest.fixture(scope="session")
def random_transformer() -> Callable[..., Transformer]:
    """A function that returns a tiny network with random weights; settings of its shape are arguments."""

    def make(seed: int = 0, **shape: Any) -> Transformer:
        return Transformer(TransformerConfig(**{**TINY, **shape}), seed).requires_grad_(False)

    return make


@pytest.fixture(scope="session")
def trained_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A function that makes a certified checkpoint of a task, by default of its compiled weights."""
    from interpbench.runs.train import TrainConfig, train

    def make(task: str = "frac_prevs", kind: str = "compiled", **settings: Any) -> Path:
        model = ModelSettings(kind=kind)  # type: ignore[arg-type]
        certificate = CertificateSettings(enumerate_up_to=1, pairs=64, looks=1, checks=500, attacks=0)
        out = str(tmp_path_factory.mktemp("runs"))
        made = TrainConfig(task=task, model=model, certificate=certificate, device="cpu", out=out, **settings)
        return train(made).folder

    return make


@pytest.fixture(scope="session")
def compiled_checkpoint(trained_checkpoint: Callable[..., Path]) -> Path:
    """A checkpoint of the compiled `frac_prevs` with a good made-up certificate; tests may only read it."""
    folder = trained_checkpoint()
    put_certificate(folder, all_pairs=True)
    return folder


@pytest.fixture
def checkpoint(compiled_checkpoint: Path, tmp_path: Path) -> Path:
    """A copy of `compiled_checkpoint` that a test may change."""
    return Path(shutil.copytree(compiled_checkpoint, tmp_path / "checkpoint"))
