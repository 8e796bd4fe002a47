"""Model cards say what the records say, and how they say to load a model is right."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interpbench.checkpoints.checkpoint_files import released
from interpbench.checkpoints.index import FORMAT, Index, indexed
from interpbench.checkpoints.load import load_checkpoint
from interpbench.circuits.ground_truth import State
from interpbench.reports.cards import model_card, picture, repository_card
from interpbench.tasks.catalogue import get_task
from tests.builders import SAMPLE
from tests.made_up_certificates import put_certificate

MODELS = released()


@pytest.fixture
def model(tmp_path: Path) -> Callable[..., Path]:
    """Copies a released model, with a made-up certificate."""

    def make(name: str, **faults: Any) -> Path:
        folder = Path(shutil.copytree(MODELS[name], tmp_path / name))
        put_certificate(folder, **faults)
        return folder

    return make


@pytest.mark.parametrize("name", SAMPLE)
def test_a_card_says_what_the_record_says(name: str, model: Callable[..., Path]) -> None:
    checkpoint, task = load_checkpoint(model(name)), get_task(name)
    card = model_card(checkpoint, task, name)
    assert card.startswith("---\n") and f"# {name}\n\n{task.description}" in card
    assert all(line in card for line in task.listing())
    assert all(f"`{edge}`" in card for edge in checkpoint.truth.names("qkv_edge", State.REQUIRED))
    assert checkpoint.certificate is not None
    assert "circuit is known and certified: adversarial, positions ≥ 99.9%." in card
    assert "**adversarial, positions ≥ 99.9%**" in card and "No row came out wrong" in card
    assert all(f"| swap of {node} = " in card for node in checkpoint.certificate.variables)
    assert f"| `trainer.max_steps` | {checkpoint.record.training['trainer']['max_steps']} |" in card
    assert f"Seed {checkpoint.record.seed}, {checkpoint.record.steps:,} steps" in card
    told = card.replace(task.description, "").replace("\n".join(task.listing()), "")
    assert not re.search(r"\bNone\b|\bnan\b|\{\w", told)
    assert max(map(len, card.splitlines())) < 1200


@pytest.mark.filterwarnings("ignore")
def test_a_card_without_a_certificate_and_how_to_load(
    checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkpoint / "certificate.json").unlink()
    loaded = load_checkpoint(checkpoint)
    card = model_card(loaded, get_task("frac_prevs"), "frac_prevs")
    assert "it has no certificate" in card and "`interpbench certify` makes one" in card
    (code,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    scope: dict[str, object] = {}
    exec(code, scope)
    assert "m0->a1.h2<v>" in capsys.readouterr().out and {"logits", "bridge"} <= scope.keys()
    address = model_card(loaded, get_task("frac_prevs"), "frac_prevs", "me/models@main")
    assert 'interpbench.load("hf://me/models@main/frac_prevs")' in address


def test_a_card_says_what_misses_a_grade(model: Callable[..., Path]) -> None:
    folder = model("frac_prevs", wrong={"nodes": {"m1": 30}}, attacks={"edges": 1024})
    card = model_card(load_checkpoint(folder), get_task("frac_prevs"), "frac_prevs")
    assert "is known; its certificate reaches: iit, positions ≥ 99.9%." in card
    assert "30 of 8,192 with forbidden node m1" in card and "Not *siit*: `forbidden node m1 (strata)" in card
    assert "1,024 of 4,096 draws from strata wrong, at least 0.73" in card


def test_the_picture_is_a_picture() -> None:
    assert picture(load_checkpoint(MODELS["hist"]), get_task("hist")).startswith(b"\x89PNG")


def test_the_card_of_a_repository_lists_its_models(model: Callable[..., Path]) -> None:
    folders = {"frac_prevs": model("frac_prevs", all_pairs=True), "reverse": model("reverse", upto="siit")}
    index = Index(FORMAT, {name: indexed(folder) for name, folder in folders.items()})
    card = repository_card(index, "me/models")
    assert (
        "| [frac_prevs](frac_prevs/README.md) | 3 | adversarial, positions, all pairs, sets ≥ 99.9% | "
        in card
    )
    assert "| [reverse](reverse/README.md) | 2 | siit, positions ≥ 99.9% | " in card
    assert "INTERPBENCH_HUB=me/models@main" in card
