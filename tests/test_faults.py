"""Damaged files, full disks, two runs at once, absent services: one line each, and nothing half-written."""

import io
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interpbench.checkpoints import legacy
from interpbench.checkpoints.format import load_checkpoint, load_pairs
from interpbench.checkpoints.index import FORMAT, INDEX, Index, indexed, read_index
from interpbench.checkpoints.pickles import read_plain, read_weights
from interpbench.checkpoints.proof import read_proof
from interpbench.core.errors import InterpBenchError
from interpbench.core.files import locked, sha256, write_bytes
from interpbench.core.metrics import JsonLines, Wandb
from interpbench.tasks.catalogue import get_task
from tests.hub_server import serve
from tests.published_files import write_mib, write_published

ROOT = Path(__file__).parent.parent
RELEASED = ROOT / "models"
FEW, MANY = 100, 1000
HEADROOM = 1 << 30
"""Bytes of memory that reading a damaged file may take at most; the files here have less than 0.1 MB."""


# Fuzzing.


def mutations(data: bytes, seed: str, count: int) -> Iterator[bytes]:
    """Yields damaged versions of a file: bits, bytes, words, blocks, cuts, and parts of other places."""
    rng = random.Random(seed)
    numbers = (0, 1, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 40, (1 << 63) - 1)
    for _ in range(count):
        changed = bytearray(data)
        for _ in range(rng.choice((1, 1, 1, 2, 5))):
            place = (
                rng.randrange(len(changed) + 1)
                if rng.random() < 0.5
                else rng.randrange(min(len(changed), 400) + 1)
            )
            kind = rng.randrange(6)
            if kind == 0 and place < len(changed):
                changed[place] ^= 1 << rng.randrange(8)
            elif kind == 1 and place < len(changed):
                changed[place] = rng.randrange(256)
            elif kind == 2:
                size = rng.choice((1, 2, 4, 8))
                word = (rng.choice(numbers) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
                changed[place : place + size] = word
            elif kind == 3:
                del changed[place : place + rng.choice((1, 2, 8, 100, 10_000))]
            elif kind == 4:
                start = rng.randrange(len(data))
                changed[place:place] = data[start : start + rng.choice((1, 4, 16, 64))]
            else:
                changed[place:place] = str(rng.choice(numbers)).encode() * rng.choice((1, 1, 50))
            if not changed:
                changed = bytearray(b"x")
        yield bytes(changed)


@pytest.fixture(params=[FEW, pytest.param(MANY, marks=pytest.mark.slow)])
def count(request: pytest.FixtureRequest) -> int:
    """How many damaged versions of a file to read."""
    return request.param


@pytest.fixture
def little_memory() -> Iterator[None]:
    """Lets the process grow by no more than `HEADROOM`, so that a huge allocation fails."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + HEADROOM, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def survives(read: Callable[[], object]) -> bool:
    """Reads; returns whether that worked. Any error but the project's own, or more than a line, fails."""
    try:
        read()
    except InterpBenchError as error:
        assert "\n" not in str(error) and len(str(error)) < 1000
        return False
    return True


@pytest.mark.parametrize("name", ["model.json", "certificate.json", "data.safetensors", "model.safetensors"])
def test_damaged_files_of_ours(name: str, tmp_path: Path, count: int, little_memory: None) -> None:
    folder = Path(shutil.copytree(RELEASED / "frac_prevs", tmp_path / "frac_prevs"))
    path, record = folder / name, json.loads((folder / "model.json").read_text())
    reads: dict[str, Callable[[], object]] = {
        "model.json": lambda: load_checkpoint(folder),
        "model.safetensors": lambda: load_checkpoint(folder),
        "certificate.json": lambda: read_proof(path),
        "data.safetensors": lambda: load_pairs(folder),
    }
    read = 0
    for data in mutations(path.read_bytes(), name, count):
        path.write_bytes(data)
        if name == "model.safetensors":  # past the hash, which finds them all
            (folder / "model.json").write_text(json.dumps({**record, "sha256": sha256(data)}))
        read += survives(reads[name])
    assert read < count


def test_damaged_indices(tmp_path: Path, count: int, little_memory: None) -> None:
    entry = indexed(RELEASED / "frac_prevs")
    whole = json.dumps(Index(FORMAT, {"frac_prevs": entry}).to_json()).encode()
    path = tmp_path / INDEX
    for data in mutations(whole, "index", count):
        path.write_bytes(data)
        survives(lambda: read_index(path))


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    network = load_checkpoint(RELEASED / "frac_prevs").model
    return write_published(
        tmp_path_factory.mktemp("published") / "3",
        network,
        get_task(3),
        [("hook_embed", "blocks.0.hook_mlp_in"), ("blocks.0.hook_mlp_out", "blocks.1.hook_v_input[2]")] * 3,
        as_object=True,
    )


@pytest.mark.parametrize("name", ["ll_model_cfg.pkl", "edges.pkl", "ll_model.pth", "meta.json"])
def test_damaged_published_files(
    name: str, published: Path, tmp_path: Path, count: int, little_memory: None
) -> None:
    folder = Path(shutil.copytree(published, tmp_path / "3"))
    graph, path = load_checkpoint(RELEASED / "frac_prevs").truth.graph, folder / name
    cfg = legacy._shape(read_plain((folder / "ll_model_cfg.pkl").read_bytes(), "x"), path)
    reads: dict[str, Callable[[], object]] = {
        "ll_model_cfg.pkl": lambda: legacy._shape(read_plain(path.read_bytes(), path), path),
        "edges.pkl": lambda: legacy.claimed_edges(folder, graph),
        "ll_model.pth": lambda: legacy._fitting(read_weights(path), cfg, path),
        "meta.json": lambda: legacy.read_json(path, legacy.CheckpointError),
    }
    for data in mutations(path.read_bytes(), name, count):
        path.write_bytes(data)
        survives(reads[name])


def test_damaged_programs_of_weights(
    published: Path, tmp_path: Path, count: int, little_memory: None
) -> None:
    """The pickle inside the archive, with a right checksum."""
    with zipfile.ZipFile(published / "ll_model.pth") as archive:
        parts = {entry.filename: archive.read(entry) for entry in archive.infolist()}
    (program,) = [name for name in parts if name.endswith("data.pkl")]
    path = tmp_path / "ll_model.pth"
    for data in mutations(parts[program], "program", count):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, content in {**parts, program: data}.items():
                archive.writestr(name, content)
        path.write_bytes(buffer.getvalue())
        survives(lambda: read_weights(path))


def test_damaged_graphs(tmp_path: Path, count: int, little_memory: None) -> None:
    network = load_checkpoint(RELEASED / "frac_prevs").model
    folder = write_mib(tmp_path, network, {}, {"input->m0"})
    path, graph = tmp_path / legacy.GRAPH, network.cfg.graph
    for data in mutations(path.read_bytes(), "graph", count):
        path.write_bytes(data)
        survives(lambda: legacy.claimed_edges(folder, graph))


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
    """No file may pass 20 kB: the data file, of 43 kB, cannot be written."""
    from interpbench.runs.train import TrainConfig, train

    small = {"enumerate_up_to": 1, "pairs": 64, "target": 0.9}
    config = TrainConfig(
        task="frac_prevs", model={"kind": "compiled"}, certificate=small, out=str(tmp_path), device="cpu"
    )
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        with pytest.raises(InterpBenchError, match=f"^cannot write {tmp_path}/.*: File too large$"):
            train(config)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    (folder,) = (tmp_path / "frac_prevs").iterdir()
    assert {path.name for path in folder.iterdir()} <= {"config.json", ".lock"}
    assert train(config).folder == folder and load_checkpoint(folder)


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


# Kills.

DOWNLOAD = "from interpbench.runs.cli import main; main()"


def test_a_download_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    """Killed at any request, and started again until it comes through."""
    entry = indexed(RELEASED / "frac_prevs")
    files = {f"frac_prevs/{name}": (RELEASED / "frac_prevs" / name).read_bytes() for name in entry.files}
    files[INDEX] = json.dumps(Index(FORMAT, {"frac_prevs": entry}).to_json()).encode()
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
            blobs = [path for path in cache.glob("*/blobs/*") if path.suffix != ".incomplete"]
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


@pytest.mark.slow
def test_a_training_that_is_killed_anywhere_ends_with_the_same_bits(tmp_path: Path) -> None:
    settings = ("task=frac_prevs", "device=cpu", "certificate.pairs=64", "certificate.enumerate_up_to=1")
    steps = ("trainer.max_steps=60", "trainer.save_every=5", "trainer.validate_every=20")
    settings = (*settings, *steps, "trainer.validation_rows=64")
    whole = run(tmp_path, str(ROOT / "train.py"), *settings, "out=whole")
    assert whole.returncode == 1, whole.stderr
    rng, kills = random.Random(0), 0
    while True:
        command = [sys.executable, str(ROOT / "train.py"), *settings, "out=killed"]
        process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL)
        try:
            process.wait(rng.uniform(3, 12) if kills < 6 else None)
            break
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
    assert process.returncode == 1
    (ours,), (theirs,) = (list((tmp_path / name / "frac_prevs").iterdir()) for name in ("killed", "whole"))
    for name in ("model.safetensors", "certificate.json", "metrics.jsonl", "config.json", "data.safetensors"):
        assert (ours / name).read_bytes() == (theirs / name).read_bytes(), name
    assert not list(ours.glob(".*.partial")) or kills


@pytest.mark.parametrize("size", [0, 1, 1 << 20])
def test_a_write_is_all_or_nothing(tmp_path: Path, size: int) -> None:
    write_bytes(tmp_path / "file", b"x" * size)
    assert (tmp_path / "file").stat().st_size == size and len(list(tmp_path.iterdir())) == 1
