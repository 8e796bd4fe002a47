"""Full disks, read-only folders, two runs at once, absent services: one line each, nothing half-written."""

import json
import os
import re
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from interpbench.checkpoints.index import FORMAT, INDEX, Index, indexed
from interpbench.checkpoints.load import load_checkpoint
from interpbench.core.errors import InterpBenchError
from interpbench.core.files import locked, write_bytes
from interpbench.core.metric_sinks import JsonLines, Wandb
from interpbench.runs.download import download
from tests import ROOT
from tests.hub_server import serve

RELEASED = ROOT / "models"


# Disks.


def test_a_full_disk_during_training(tmp_path: Path) -> None:
    """`/dev/full` fails as a full disk does; the training ends in one line and its state stays readable."""
    path = tmp_path / "metrics.jsonl"
    path.symlink_to("/dev/full")
    with pytest.raises(InterpBenchError, match=f"^cannot write {path}: No space left on device$"):
        sink = JsonLines(path)
        try:
            sink.write(1, {"loss": 1.0})
        finally:
            sink.close()


def run(where: Path, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    command, env = [sys.executable, *arguments], {**os.environ, **environment}
    return subprocess.run(command, cwd=where, env=env, capture_output=True, text=True, check=False)


def test_a_disk_that_is_full_when_the_checkpoint_is_written(tmp_path: Path) -> None:
    """No file may pass 5 kB: the data file, of 8 kB, cannot be written."""
    from interpbench.runs.train import TrainConfig, train

    small = {"enumerate_up_to": 1, "pairs": 64, "looks": 1, "attacks": 0}
    config = TrainConfig(
        task="frac_prevs", model={"kind": "compiled"}, certificate=small, out=str(tmp_path), device="cpu"
    )
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, before[1]))
    try:
        with pytest.raises(InterpBenchError, match=f"^cannot write {tmp_path}/.*: File too large$"):
            train(config)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    (folder,) = (tmp_path / "frac_prevs").iterdir()
    assert {path.name for path in folder.iterdir()} <= {"config.json", ".lock"}
    assert train(config).folder == folder and load_checkpoint(folder)


def hub_files() -> dict[str, bytes]:
    """Returns the files of a repository of one model."""
    entry = indexed(RELEASED / "frac_prevs")
    files = {f"frac_prevs/{name}": (RELEASED / "frac_prevs" / name).read_bytes() for name in entry.files}
    return files | {INDEX: json.dumps(Index(FORMAT, {"frac_prevs": entry}).to_json()).encode()}


def test_a_disk_that_is_full_during_a_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file may pass 20 kB: what fits stays, the data file cannot be written, and later it goes on."""
    from huggingface_hub import close_session

    cache, before = tmp_path / "cache", resource.getrlimit(resource.RLIMIT_FSIZE)
    with serve() as hub:
        hub.push("me/models", hub_files())
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
        monkeypatch.setenv("HF_HUB_CACHE", str(cache))
        monkeypatch.setenv("INTERPBENCH_HUB", "me/models@main")
        resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, before[1]))
        try:
            with pytest.raises(
                InterpBenchError, match=f"^cannot write to the cache {cache}: File too large$"
            ):
                download(["frac_prevs"])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        whole = [path for path in cache.glob("*/snapshots/*/**/*") if path.is_file()]
        assert whole and all(path.read_bytes() in hub.newest("me/models").values() for path in whole)
        assert download(["frac_prevs"])
        close_session()


READ_ONLY = """
import sys
from interpbench.runs.cli import main
few = ["certificate.pairs=64", "certificate.enumerate_up_to=1", "certificate.checks=500"]
few += ["trainer.max_steps=1", "device=cpu"]
for arguments in (
    ["train", "task=3", *few],
    ["train", "-m", "task=3,hist", *few],
    ["evaluate", "method=random", "checkpoint=hist", "pictures=false"],
    ["export", "hist", "--out", "hist"],
    ["publish", "hist", "--to", "me/models", "--out", "hub"],
    ["export-problem", "hist"],
    ["convert", "truth", "truth.json", "--checkpoint", "hist"],
    ["show", "hist", "--png"],
):
    sys.argv = ["interpbench", *arguments]
    try:
        main()
    except SystemExit as end:
        sys.stderr.write(f"exit status {end.code}\\n")
"""


DROP = """
import ctypes, os, sys
drop_from_bounding_set, override = 24, 1
ctypes.CDLL(None).prctl(drop_from_bounding_set, override, 0, 0, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_a_read_only_folder(tmp_path: Path) -> None:
    """Even root may not write there, without the capability to override permissions."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "models").symlink_to(RELEASED)
    home.chmod(0o555)
    done = subprocess.run(
        [sys.executable, "-c", DROP, sys.executable, "-c", READ_ONLY],
        **{"cwd": home, "capture_output": True, "text": True, "check": False},
    )
    lines = [line for line in done.stderr.splitlines() if not line.startswith(("records and", "2 runs"))]
    assert len(lines) == 2 * 8, done.stderr
    for said, status in zip(lines[::2], lines[1::2]):
        assert said.startswith(("error: cannot write ", "failed: models/hist: cannot write ")), said
        assert said.endswith(": Permission denied") and status in ("exit status 1", "exit status 2"), status
    assert [path.name for path in home.iterdir()] == ["models"]


def test_two_runs_in_one_folder(tmp_path: Path) -> None:
    with locked(tmp_path / "run"), pytest.raises(InterpBenchError, match="is in use by another run"):
        with locked(tmp_path / "run"):
            pytest.fail("both have it")
    with locked(tmp_path / "run"):
        pass
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InterpBenchError), locked(tmp_path / "file" / "run"):
        pass


def test_a_second_training_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    from interpbench.runs.train import TrainConfig, train

    config = TrainConfig(task="frac_prevs", out=str(tmp_path), trainer={"max_steps": 40}, device="cpu")
    holder = threading.Event()
    errors: list[str] = []

    def second() -> None:
        try:
            train(config)
        except InterpBenchError as error:
            errors.append(str(error))
        holder.set()

    folder = tmp_path / "frac_prevs"
    thread = threading.Thread(target=second)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("interpbench.runs.train._train", lambda *_: (thread.start(), holder.wait(60), 1 / 0))
        with pytest.raises(ZeroDivisionError):
            train(config)
    thread.join()
    assert len(errors) == 1 and errors[0].startswith(f"{folder}/") and "in use by another run" in errors[0]


# Services.


def test_training_goes_on_without_wandb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("WANDB_MODE", "offline")
    for folder, module in ((tmp_path, None), (tmp_path / "file" / "runs", sys.modules.get("wandb"))):
        if module is not None or folder == tmp_path:
            monkeypatch.setitem(sys.modules, "wandb", module)
        sink = Wandb("project", "name", {}, folder)
        sink.write(1, {"loss": 1.0})
        sink.close()
    assert caplog.text.count("going on without it") == 2


def test_training_goes_on_when_wandb_fails_in_the_middle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One warning, of one line; everything else is as without it."""
    from interpbench.runs.train import TrainConfig, train

    class Run:
        calls = 0

        def log(self, *_: object, **__: object) -> None:
            self.calls += 1
            if self.calls == 2:
                raise ConnectionError("the network\nis gone")

        def finish(self, **_: object) -> None:
            pytest.fail("it has been switched off")

    used = Run()
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=lambda **_: used))
    few = {"enumerate_up_to": 1, "pairs": 64}
    steps = {"max_steps": 6, "validate_every": 2, "validation_rows": 64}
    settings = {"task": "frac_prevs", "certificate": few, "trainer": steps, "device": "cpu"}
    with_it, without = (
        train(TrainConfig(**settings, logger={"wandb": wandb}, out=str(tmp_path / str(wandb)))).folder
        for wandb in (True, False)
    )
    assert used.calls == 2
    warnings = [entry.getMessage() for entry in caplog.records if entry.levelname == "WARNING"]
    assert warnings == ["W&B failed, going on without it: the network is gone"]
    for name in ("metrics.jsonl", "model.safetensors", "certificate.json"):
        assert (with_it / name).read_bytes() == (without / name).read_bytes(), name


# Kills.

DOWNLOAD = "from interpbench.runs.cli import main; main()"


def test_a_download_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    """Killed at any request, and started again until it comes through."""
    files = hub_files()
    cache = tmp_path / "cache"
    with serve() as hub:
        hub.push("me/models", files)
        environment = {
            **os.environ,
            **{"HF_ENDPOINT": hub.address, "HF_HUB_CACHE": str(cache), "INTERPBENCH_HUB": "me/models@main"},
        }
        process: subprocess.Popen[bytes] | None = None
        left = [0]

        def kill(path: str) -> None:
            left[0] -= 1
            if left[0] == 0 and process is not None:
                process.kill()
                time.sleep(0.05)

        hub.before = kill
        for attempt in range(20):
            left[0] = 3 + 2 * attempt
            command = [sys.executable, "-c", DOWNLOAD, "download", "frac_prevs"]
            process = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL)
            process.wait(60)
            # What has a hash as its name is whole; the library's own files of passage may be left.
            blobs = [path for path in cache.glob("*/blobs/*") if re.fullmatch("[0-9a-f]{40,64}", path.name)]
            assert all(path.read_bytes() in files.values() for path in blobs)
            if process.returncode == 0:
                break
        assert attempt > 1 and process.returncode == 0
        folder = next(cache.glob("*/snapshots/*/frac_prevs"))
        assert {f"frac_prevs/{path.name}": path.read_bytes() for path in folder.iterdir()} == {
            name: data for name, data in files.items() if name != INDEX
        }
        read = [path for path in hub.downloads() if path.endswith("data.safetensors") and "/cdn/" in path]
        assert len(read) <= 2  # once, or twice if the kill came while it was sent
        load_checkpoint(folder)


@pytest.mark.parametrize("size", [0, 1, 1 << 20])
def test_a_write_is_all_or_nothing(tmp_path: Path, size: int) -> None:
    write_bytes(tmp_path / "file", b"x" * size)
    assert (tmp_path / "file").stat().st_size == size and len(list(tmp_path.iterdir())) == 1


def test_metrics_go_to_the_real_wandb_offline(tmp_path: Path) -> None:
    """Two runs one after the other; nothing is said but what the run itself says."""
    script = """
import sys
from interpbench.runs.entry import configure_logging
from interpbench.runs.train import train
from interpbench.runs.train_settings import TrainConfig
configure_logging()
for seed in (0, 1):
    train(TrainConfig(
        task="frac_prevs", seed=seed, device="cpu", out=sys.argv[1], logger={"wandb": True},
        certificate={"pairs": 64, "enumerate_up_to": 1},
        trainer={"max_steps": 4, "validate_every": 2, "validation_rows": 64},
    ))
"""
    out = tmp_path / "out"
    done = run(tmp_path, "-c", script, str(out), WANDB_MODE="offline", WANDB_API_KEY="")
    assert done.returncode == 0, done.stderr
    assert "going on without it" not in done.stderr and "Traceback" not in done.stderr, done.stderr
    written = list(out.glob("frac_prevs/*/wandb/offline-run-*/*.wandb"))
    assert len(written) == 2 and all(path.stat().st_size > 500 for path in written)
