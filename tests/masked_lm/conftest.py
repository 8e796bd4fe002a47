"""Tiny models in folders, made once."""

from collections.abc import Callable
from pathlib import Path

import pytest

from interpbench.masked_lm.causal_tracer import CausalTracer
from tests.masked_models import make, train


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test uses the network; the variable would stay with the hub's library if it is imported now."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


@pytest.fixture(scope="session")
def random_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A function that returns the folder of a random model of a family; tests may only read it."""
    made: dict[str, Path] = {}

    def model(family: str) -> Path:
        if family not in made:
            made[family] = make(tmp_path_factory.mktemp(family), family)
        return made[family]

    return model


@pytest.fixture(scope="session")
def trained_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A function that returns the folder of a trained model of a family; tests may only read it."""
    made: dict[str, Path] = {}

    def model(family: str) -> Path:
        if family not in made:
            made[family] = train(tmp_path_factory.mktemp(family), family)
        return made[family]

    return model


@pytest.fixture(scope="session")
def tracer_of(random_model: Callable[[str], Path]) -> Callable[[str], CausalTracer]:
    """A function that returns a tracer of a random model of a family."""
    made: dict[str, CausalTracer] = {}

    def tracer(family: str) -> CausalTracer:
        if family not in made:
            made[family] = CausalTracer(family, str(random_model(family)))
        return made[family]

    return tracer
