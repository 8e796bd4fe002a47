"""Model cards say what the records say, and how they say to load a model is right."""

import re
from pathlib import Path

import pytest

from interpbench.checkpoints.find import released
from interpbench.checkpoints.format import load_checkpoint
from interpbench.checkpoints.index import FORMAT, Index, indexed
from interpbench.circuits.truth import State
from interpbench.reports.cards import model_card, picture, repository_card
from interpbench.tasks.catalogue import get_task

MODELS = released()


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_card_says_what_the_record_says(name: str) -> None:
    checkpoint, task = load_checkpoint(MODELS[name]), get_task(name)
    card = model_card(checkpoint, task, name)
    assert card.startswith("---\n") and f"# {name}\n\n{task.description}" in card
    assert all(line in card for line in task.listing())
    assert all(f"`{edge}`" in card for edge in checkpoint.truth.names("qkv_edge", State.REQUIRED))
    certificate = checkpoint.certificate or {}
    assert "**Certified**" in card and f"{certificate['pairs']:,}" in card
    assert all(f"`{node}` swapped" in card for node in certificate["iia"])
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
    assert "it is not certified" in card and "`interpbench certify` makes one" in card
    (code,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    scope: dict[str, object] = {}
    exec(code, scope)
    assert "m0->a1.h2<v>" in capsys.readouterr().out and {"logits", "bridge"} <= scope.keys()
    address = model_card(loaded, get_task("frac_prevs"), "frac_prevs", "me/models@main")
    assert 'interpbench.load("hf://me/models@main/frac_prevs")' in address


def test_the_picture_is_a_picture() -> None:
    assert picture(load_checkpoint(MODELS["hist"]), get_task("hist")).startswith(b"\x89PNG")


def test_the_card_of_a_repository_lists_its_models() -> None:
    index = Index(FORMAT, {name: indexed(MODELS[name]) for name in ("frac_prevs", "reverse")})
    card = repository_card(index, "me/models")
    assert "| [frac_prevs](frac_prevs/README.md) | 3 | certified, all pairs | 86 kB |" in card
    assert "| [reverse](reverse/README.md) | 2 | certified, ≥ 99.9% |" in card
    assert "INTERPBENCH_HUB=me/models@main" in card
