"""Damaged files end in the project's own error, of one line: they run nothing, and take little memory."""

import io
import json
import random
import resource
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interpbench.alignment.alignment import align
from interpbench.alignment.truth import find_truth
from interpbench.checkpoints import legacy
from interpbench.checkpoints.format import load_checkpoint, load_pairs
from interpbench.checkpoints.index import FORMAT, INDEX, Index, indexed, read_index
from interpbench.checkpoints.pickles import read_plain, read_weights
from interpbench.checkpoints.proof import read_proof
from interpbench.core.errors import InterpBenchError
from interpbench.core.files import read_json, sha256
from interpbench.runs.evaluate import EvaluateConfig, evaluate_checkpoint
from interpbench.runs.page import read_results
from interpbench.scoring.board import row
from interpbench.scoring.records import Record
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.shapes import ModelSettings, shape
from interpbench.training.certificate import CertificateSettings
from interpbench.training.objective import Objective
from interpbench.training.trainer import Trainer, TrainerSettings
from interpbench.transformer.model import Transformer
from tests.published_files import write_mib, write_published

RELEASED = Path(__file__).parent.parent / "models"
FEW, MANY = 100, 1000
HEADROOM = 1 << 30
"""Bytes of memory that reading a damaged file may take at most; the files here have less than 0.1 MB."""


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


def test_damaged_records_of_evaluations(
    tmp_path: Path, trained_checkpoint: Callable[..., Path], count: int, little_memory: None
) -> None:
    """Read, put on the board, and gathered from a folder."""
    settings = {"name": "random"}
    config = EvaluateConfig(method=settings, thorough=True, pictures=False, out=str(tmp_path / "out"))
    made = evaluate_checkpoint(load_checkpoint(trained_checkpoint()), config)
    path = tmp_path / "random.json"
    for data in mutations(json.dumps(made.to_json()).encode(), "record", count):
        path.write_bytes(data)
        if survives(lambda: read_results(tmp_path)) and survives(
            lambda: Record.from_json(read_json(path), path)
        ):
            survives(lambda: row(Record.from_json(read_json(path), path)))


def test_damaged_states_of_trainings(tmp_path: Path, count: int, little_memory: None) -> None:
    """Whatever still loads also trains on."""
    task = get_task("frac_prevs")
    cfg = shape(task, ModelSettings(n_layers=2, n_heads=4, d_model=4, d_head=1, d_mlp=4))
    alignment = align(task, cfg.graph)
    truth = find_truth(alignment, pairs=64)

    def trainer() -> Trainer:
        parts = (Objective(), TrainerSettings(batch=4), CertificateSettings(), 0, tmp_path)
        return Trainer(Transformer(cfg, 0), alignment, truth, *parts)

    made = trainer()
    made.step()
    made.save()
    path = made.state_file
    assert path is not None
    for data in mutations(path.read_bytes(), "state", count):
        path.write_bytes(data)
        survives(lambda: trainer().step())
