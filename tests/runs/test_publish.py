"""What is published can be downloaded: whole, of the grade that is asked for, of the weights it names."""

import json
import shutil
from pathlib import Path

import pytest

from interpbench.checkpoints.find import find_checkpoints
from interpbench.checkpoints.index import INDEX, read_index
from interpbench.checkpoints.record import read_record
from interpbench.core.files import sha256
from interpbench.runs.download import download
from interpbench.runs.publish import publish
from tests.hub_server import Hub
from tests.made_up_certificates import put_certificate
from tests.model_hub import MODELS, NAME, RELEASED, WEIGHTS, load, refused

pytestmark = pytest.mark.usefixtures("elsewhere")


def test_what_is_published_is_downloaded(
    hub: Hub, originals: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    names = [str(originals / name) for name in MODELS]
    publish(names[:1], "me/mine", create=True)
    publish(names[1:], "me/mine")
    assert len(hub.commits["me/mine"]) == 2
    files = hub.newest("me/mine")
    folder = tmp_path / "preview"
    publish(names, "me/mine", out=folder)
    preview = {
        str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }
    assert preview == files
    assert read_index(folder / INDEX).models.keys() == set(MODELS)
    monkeypatch.setenv("INTERPBENCH_HUB", "me/mine@main")
    assert load() == sha256(files[WEIGHTS])
    assert "circuit.png" in {path.name for path in find_checkpoints("frac_prevs")[0].iterdir()}


def test_publishing_is_all_or_nothing(hub: Hub, originals: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    released = str(originals / "frac_prevs")
    refused(lambda: publish([released], "me/nowhere"), "there is no repository me/nowhere", "--create makes")
    monkeypatch.setenv("HF_TOKEN", "wrong")
    refused(lambda: publish([released], NAME), "401", "HF_TOKEN")
    assert len(hub.commits[NAME]) == 1


def test_only_whole_models_of_a_grade_are_published(hub: Hub, checkpoint: Path, tmp_path: Path) -> None:
    put_certificate(checkpoint, wrong={"accuracy": {"output": 99}})
    refused(
        lambda: publish([str(checkpoint)], NAME, tmp_path / "out"),
        "does not reach even behaviour: no intervention",
    )
    publish([str(checkpoint)], NAME, tmp_path / "out", least=None)
    shutil.copy(checkpoint / "certificate.json", checkpoint / "model.safetensors")
    refused(lambda: publish([str(checkpoint)], NAME, tmp_path / "new", least=None), "SHA-256")
    assert not (tmp_path / "new").exists()


def test_the_grade_of_what_is_downloaded_is_its_certificate_s(
    hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    """An index may claim anything; a certificate of other weights is refused, whatever hash it has there."""
    from rich.console import Console

    from interpbench.runs.models import list_models

    other = hub.newest(NAME)["trend_to_next/certificate.json"]
    index = json.loads(hub.newest(NAME)[INDEX])
    entry = index["models"]["frac_prevs"]
    entry["files"]["certificate.json"] = {"size": len(other), "sha256": sha256(other)}
    entry |= {"grade": "adversarial", "all_pairs": True, "target": 1.0, "positions": True}
    hub.push(NAME, {"frac_prevs/certificate.json": other, INDEX: json.dumps(index).encode()})
    list_models(Console(width=200), hub=True)
    assert "claims adversarial, positions, all pairs" in capsys.readouterr().out
    assert download(["frac_prevs"])
    refused(load, "certificate.json is of other weights")
    list_models(Console(width=200), hub=False)
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "frac_prevs" in line]
    assert "another model's certificate" in line and "adversarial" not in line


def test_a_model_in_a_regime_is_published_and_found_under_its_task_s_name(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name has brackets, which hubs take for a pattern of names."""
    name = "trend_to_next[regime=redundant]"
    wanted = read_record(RELEASED / "regimes" / name).sha256
    publish([str(RELEASED / "regimes" / name)], "me/living", create=True)
    monkeypatch.setenv("INTERPBENCH_HUB", "me/living@main")
    assert load(name) == wanted
    assert load(f"hf://me/living@main/{name}") == wanted
