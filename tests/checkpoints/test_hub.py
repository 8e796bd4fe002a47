"""Download and upload against a server that speaks the hub's API, and fails in every way."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest

from interpbench.checkpoints.find import find_checkpoints
from interpbench.checkpoints.hub import Repository, home, split
from interpbench.checkpoints.index import FORMAT, INDEX
from interpbench.core.files import sha256, write_json
from interpbench.core.progress import Display
from interpbench.runs.certify import certify_checkpoints
from interpbench.runs.download import download
from tests.hub_server import Hub
from tests.model_hub import (
    GRADE,
    MODELS,
    NAME,
    WEIGHTS,
    cached,
    load,
    nothing_half_written,
    refused,
)

pytestmark = pytest.mark.usefixtures("elsewhere")

# What works.


def test_a_name_is_downloaded_once_and_then_found_in_the_cache(hub: Hub) -> None:
    wanted = sha256(hub.newest(NAME)[WEIGHTS])
    assert load() == wanted
    asked = len(hub.requests)
    assert load() == load("3") == wanted
    assert len(hub.requests) == asked
    assert all(data == hub.newest(NAME)[path] for path, data in cached().items())
    assert nothing_half_written(hub)


def test_what_is_cached_works_offline(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = load()
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert load() == wanted
    refused(lambda: load("trend_to_next"), "not in the cache", "http://127.0.0.1:9 cannot be reached")


@pytest.mark.parametrize("error", [AttributeError, RuntimeError])
def test_a_client_that_another_thread_closed(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    download = huggingface_hub.snapshot_download

    def disturbed(*args: Any, max_workers: int, **settings: Any) -> str:
        if max_workers > 1:
            raise error("the client has been closed")
        return download(*args, max_workers=max_workers, **settings)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", disturbed)
    assert load()


def test_a_hub_that_has_gone_is_said_to_be_the_reason(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an index, but no list of files, in the cache, snapshot_download returns a folder without them."""
    Repository.parse(f"{NAME}@main").index(online=True)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    refused(load, "frac_prevs/", "not in the cache", "http://127.0.0.1:9 cannot be reached")


def test_what_the_index_says_and_the_repository_lacks(hub: Hub) -> None:
    lacking = {path: data for path, data in hub.newest(NAME).items() if path != WEIGHTS}
    hub.commits[NAME] = {"0" * 40: lacking}
    refused(load, f"{NAME}@{'0' * 40} has no file {WEIGHTS}")


def test_all_bytes_that_arrive_are_shown(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: dict[int, int] = {}

    class Recorded(Display):
        def update(self, done: int, status: str) -> None:
            shown[self.total] = done

    monkeypatch.setattr("interpbench.checkpoints.hub.Display", Recorded)
    load()
    assert len(shown) == 2  # all but the record, and the record
    assert all(done == total for total, done in shown.items())


def test_every_other_command_finds_it_too(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from interpbench.runs import cli

    overrides = ("method=random", "checkpoint=frac_prevs", f"out={tmp_path / 'out'}", "device=cpu")
    monkeypatch.setattr(sys, "argv", ["evaluate.py", *overrides, "pictures=false"])
    with pytest.raises(SystemExit, match="0"):
        cli.evaluate()
    assert (tmp_path / "out" / "frac_prevs" / "random.json").exists()


def test_all_are_downloaded(hub: Hub, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "interpbench")
    assert download([], everything=True)
    assert set(cached()) == set(hub.newest(NAME))
    assert [message.split(" is in ")[0] for message in caplog.messages] == list(MODELS)
    asked = len(hub.downloads())
    assert download(["frac_prevs"]) and download(["hf://me/models@main/frac_prevs"])
    assert len([path for path in hub.downloads()[asked:] if not path.endswith(INDEX)]) == 0


def test_models_are_listed_with_grades(hub: Hub, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    from interpbench.runs import cli

    def listed(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["interpbench", "models", *arguments])
        with pytest.raises(SystemExit, match="0"):
            cli.main()
        return capsys.readouterr().out

    assert "0 models" in listed() and hub.requests == []
    assert "--hub lists them" in listed()
    text = listed("--hub")
    assert "2 models" in text and f"{NAME}@main" in text and f"claims {GRADE}" in text
    assert not any(path.endswith(".safetensors") for path in hub.downloads())
    load()
    asked = len(hub.requests)
    (line,) = [line for line in listed().splitlines() if "frac_prevs" in line]
    assert "cache" in line and GRADE in line and "claims" not in line and len(hub.requests) == asked
    (find_checkpoints("frac_prevs")[0] / "data.safetensors").resolve().write_bytes(b"")
    (line,) = [line for line in listed().splitlines() if "frac_prevs" in line]
    assert "damaged" in line
    for place, said in (("", "says where more can be had"), ("me/others@main", "--hub lists them")):
        monkeypatch.setenv("INTERPBENCH_HUB", place)
        assert f"cache: hf://{NAME}@main/frac_prevs" in (text := listed()) and said in text
    assert len(hub.requests) == asked


def test_what_is_here_and_on_the_hub_is_one_model(
    hub: Hub, originals: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from interpbench.runs import cli

    shutil.copytree(originals / "frac_prevs", "models/frac_prevs")
    for certificate in (GRADE, "damaged"):
        monkeypatch.setattr(sys, "argv", ["interpbench", "models", "--hub"])
        with pytest.raises(SystemExit, match="0"):
            cli.main()
        out = capsys.readouterr().out
        (line,) = [line for line in out.splitlines() if "models/frac_prevs" in line]
        assert certificate in line
        assert out.count("│ frac_prevs") == (2 if certificate == "damaged" else 1)
        Path("models/frac_prevs/model.safetensors").write_bytes(b"")


def test_a_changed_revision(hub: Hub) -> None:
    """A branch that moved: the cache is used until somebody downloads; a pinned commit never changes."""
    first = hub.commit(NAME, "main")
    before = load()
    other = dict(hub.newest(NAME))
    replaced = ("model.json", "model.safetensors", "certificate.json")
    for file in replaced:
        other[f"frac_prevs/{file}"] = other[f"trend_to_next/{file}"]
    index = json.loads(other[INDEX])
    index["models"]["frac_prevs"]["files"].update(
        {file: index["models"]["trend_to_next"]["files"][file] for file in replaced}
    )
    hub.push(NAME, {**other, INDEX: json.dumps(index).encode()})
    assert load() == before
    download(["frac_prevs"])
    assert load() != before
    assert load(f"hf://{NAME}@{first}/frac_prevs") == before


def test_a_commit_that_comes_between_does_not_mix(hub: Hub) -> None:
    def push(path: str) -> None:
        if path.endswith("model.safetensors") and len(hub.commits[NAME]) == 1:
            hub.push(NAME, {"frac_prevs/model.json": b"{}"})

    hub.before = push
    assert load() == sha256(hub.newest(NAME)[WEIGHTS])


def test_addresses(hub: Hub) -> None:
    commit = hub.commit(NAME, "main")
    assert load(f"hf://{NAME}@main/frac_prevs") == load(f"hf://{NAME}@{commit}/frac_prevs")
    refused(lambda: load(f"hf://{NAME}@main/frac_prev"), "no model 'frac_prev'", "did you mean frac_prevs?")
    refused(lambda: load(f"hf://{NAME}/frac_prevs"), "which revision of me/models?")
    refused(lambda: load(f"hf://{NAME}@main/../x"), "is not an address")
    refused(lambda: load("hf://models"), "is not an address", "owner/name@revision")
    refused(lambda: Repository.parse("a b"), "'a b' is not a repository")
    assert split("hf://cybershiptrooper/InterpBench/3")[0].revision == "a1242a84"


def test_without_a_repository_nothing_asks(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERPBENCH_HUB", "")
    assert home() is None
    refused(lambda: load("frac_prevs"), "no checkpoint 'frac_prevs'")
    refused(lambda: download(["frac_prevs"]), "no repository of models is set", "INTERPBENCH_HUB=owner/name@")
    assert hub.requests == []


# What breaks.


@pytest.mark.parametrize("cuts", [[1000], [0, 10, 10], [1] * 4])
def test_a_download_that_breaks_off_goes_on(hub: Hub, cuts: list[int]) -> None:
    hub.cut[WEIGHTS] = list(cuts)
    assert load() == sha256(hub.newest(NAME)[WEIGHTS])
    assert hub.cut[WEIGHTS] == [] and nothing_half_written(hub)


def test_a_download_that_always_breaks_off_leaves_nothing(hub: Hub) -> None:
    hub.cut[WEIGHTS] = [0] * 100
    refused(load, "the transfer of me/models@", "frac_prevs broke off")
    assert WEIGHTS not in cached() and nothing_half_written(hub)
    hub.cut.clear()
    assert load()  # and what had arrived is not fetched again


def test_what_arrived_is_not_fetched_again(hub: Hub) -> None:
    hub.status[WEIGHTS] = 500
    refused(load, "500")
    had = {path for path in cached() if path != INDEX}
    assert had
    hub.status.clear()
    hub.requests.clear()
    load()
    assert not [path for path in hub.downloads() if path.split(NAME)[-1].split("/", 2)[-1] in had]


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (500, ["answers 500"]),
        (503, ["answers 503"]),
        (401, ["answers 401", "HF_TOKEN"]),
        (403, ["403", "HF_TOKEN"]),
        (404, ["no"]),
    ],
)
@pytest.mark.parametrize("path", [INDEX, WEIGHTS])
def test_refusals_are_one_line(hub: Hub, status: int, said: list[str], path: str) -> None:
    hub.status[path] = status
    refused(load, NAME, *said)
    assert path not in cached() and nothing_half_written(hub)


def test_what_is_missing_is_named(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    refused(lambda: load("frac_prev"), "no model 'frac_prev' in me/models@", "did you mean frac_prevs?")
    monkeypatch.setenv("INTERPBENCH_HUB", "me/nothing@main")
    refused(load, "there is no repository me/nothing", "HF_TOKEN")
    monkeypatch.setenv("INTERPBENCH_HUB", f"{NAME}@v9")
    refused(load, "me/models has no revision 'v9'")
    monkeypatch.setenv("INTERPBENCH_HUB", NAME)
    refused(load, f"Write {NAME}@COMMIT, or {NAME}@main for the newest")
    hub.commits["me/empty"] = {"0" * 40: {"x": b""}}
    monkeypatch.setenv("INTERPBENCH_HUB", "me/empty@main")
    refused(load, "me/empty@main has no file index.json")


def test_a_mistyped_path_asks_nobody(hub: Hub) -> None:
    refused(lambda: load("runs/frac_prev"), "no checkpoint 'runs/frac_prev'")
    assert hub.requests == []


def test_a_private_repository(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.private.add(NAME)
    assert load()
    monkeypatch.setenv("HF_TOKEN", "wrong")
    refused(lambda: load("trend_to_next"), "no repository me/models", "HF_TOKEN")


def test_a_file_that_is_not_the_indexed_one_is_refused(hub: Hub) -> None:
    hub.replaced[WEIGHTS] = b"x" * len(hub.newest(NAME)[WEIGHTS])
    refused(load, WEIGHTS, "damaged or changed", "interpbench download frac_prevs")
    refused(lambda: download(["frac_prevs"]), WEIGHTS, "damaged or changed")
    hub.replaced.clear()
    assert download(["frac_prevs"]) and load()


@pytest.mark.parametrize("name", ["model.json", "data.safetensors", "model.safetensors", "certificate.json"])
@pytest.mark.parametrize("how", [lambda data: data[:-1], lambda data: b"?" * len(data), lambda data: b""])
def test_a_damaged_cache_is_found_out_and_mended(hub: Hub, name: str, how: Callable[[bytes], bytes]) -> None:
    folder = find_checkpoints("frac_prevs")[0]
    blob = (folder / name).resolve()
    blob.write_bytes(how(blob.read_bytes()))
    refused(load, f"frac_prevs/{name}", "interpbench download frac_prevs fetches it anew")
    assert download(["frac_prevs"]) and load()


def test_a_damaged_index_in_the_cache_is_mended(hub: Hub) -> None:
    load()
    index = Repository.parse(f"{NAME}@main").file(INDEX, online=False)
    index.resolve().write_bytes(b"{")
    refused(load, INDEX, "interpbench download fetches it anew")
    assert download(["frac_prevs"]) and load()


def test_nothing_is_written_into_the_cache(hub: Hub) -> None:
    """A certificate of one's own would be damage there; and what was written all the same is mended."""
    (folder,) = find_checkpoints("frac_prevs")
    refused(lambda: certify_checkpoints("frac_prevs", save=True), "--save in a copy of it")
    write_json(folder / "certificate.json", {})
    refused(load, "certificate.json", "interpbench download frac_prevs fetches it anew")
    assert download(["frac_prevs"]) and load()


ENTRY = {"task": "a", "legacy_id": None, "kind": "trained", "grade": None, "all_pairs": None}
ENTRY |= {"target": None, "positions": None}
FILE = {"size": 1, "sha256": "0" * 64}


@pytest.mark.parametrize(
    "index",
    [
        b"",
        b"{",
        [1],
        {"format": 99},
        {"format": 1, "models": {}},
        {"format": FORMAT, "models": {"../../etc": {**ENTRY, "files": {}}}},
        {"format": FORMAT, "models": {"a": {**ENTRY, "files": {"../../../evil": FILE}}}},
        {"format": FORMAT, "models": {"a": {**ENTRY, "files": {"x": {**FILE, "size": 10**15}}}}},
        {"format": FORMAT, "models": {"a": {**ENTRY, "files": {"x": {**FILE, "sha256": "ab"}}}}},
    ],
    ids=range(9),
)
def test_a_bad_index_is_refused(hub: Hub, index: object) -> None:
    hub.push(NAME, {INDEX: index if isinstance(index, bytes) else json.dumps(index).encode()})
    refused(load, INDEX)


def test_a_cache_that_cannot_be_written(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "file" / "cache"))
    refused(load, "cannot write to the cache")


def test_one_failure_does_not_stop_the_others(hub: Hub, caplog: pytest.LogCaptureFixture) -> None:
    hub.status[WEIGHTS] = 500
    assert not download([], everything=True)
    assert "1 of 2 models failed: frac_prevs" in caplog.text
    assert "trend_to_next/model.json" in cached()
