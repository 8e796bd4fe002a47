"""Fixtures of a hub with two released models, from which tests download."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import interpbench
from interpbench.checkpoints.index import FORMAT, INDEX, Index, indexed
from interpbench.core.errors import CheckpointError
from tests import ROOT
from tests.hub_server import Hub, serve
from tests.made_up_certificates import put_certificate

NAME = "me/models"


MODELS = ("frac_prevs", "trend_to_next")


WEIGHTS = "frac_prevs/model.safetensors"


RELEASED = ROOT / "models"


GRADE = "adversarial, positions, all pairs, sets ≥ 99.9%"


@pytest.fixture(scope="session")
def certified_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folders of two released models, with made-up certificates, which take a second to make."""
    folder = tmp_path_factory.mktemp("originals")
    for name in MODELS:
        put_certificate(Path(shutil.copytree(RELEASED / name, folder / name)), all_pairs=name == "frac_prevs")
    return folder


@pytest.fixture
def originals(tmp_path: Path, certified_once: Path) -> Path:
    """A copy of `certified_once`, which a test may change."""
    return Path(shutil.copytree(certified_once, tmp_path / "originals"))


@pytest.fixture
def hub(tmp_path: Path, originals: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub with the models of `originals`, and an empty cache; there is no waiting between attempts."""
    from huggingface_hub import close_session

    with serve() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.address)
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("INTERPBENCH_HUB", f"{NAME}@main")
        monkeypatch.setenv("HF_TOKEN", "secret")
        monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda _: None)
        monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda _: None)
        files: dict[str, bytes] = {}
        entries = {}
        for name in MODELS:
            entries[name] = indexed(originals / name)
            files |= {f"{name}/{f}": (originals / name / f).read_bytes() for f in entries[name].files}
        files[INDEX] = json.dumps(Index(FORMAT, entries).to_json()).encode()
        server.push(NAME, files)
        close_session()
        yield server
        close_session()


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working folder without released models, so that models are downloaded from the hub."""
    (tmp_path / "here" / "models").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")


def refused(call: Callable[[], object], *said: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message and all(text in message for text in said), message


def cached() -> dict[str, bytes]:
    """Returns every complete file of the cache, by its path in the repository."""
    folder = Path(os.environ["HF_HUB_CACHE"])
    files = [path for path in folder.glob("*/snapshots/*/**/*") if path.is_file()]
    return {"/".join(path.parts[path.parts.index("snapshots") + 2 :]): path.read_bytes() for path in files}


def nothing_half_written(hub: Hub) -> bool:
    """Returns whether every file of the cache is complete, of whichever commit."""
    contents = [data for commit in hub.commits[NAME].values() for data in commit.values()]
    blobs = Path(os.environ["HF_HUB_CACHE"]).glob("*/blobs/*")
    return all(path.read_bytes() in contents for path in blobs)


def load(name: str = "frac_prevs") -> str:
    return interpbench.load(name).record.sha256
