"""Damaged files of every kind that is read: one line of the project's own error, or read correctly.

Each of them is read within two seconds of CPU time and 500 MB of memory, and nothing is run, written
elsewhere or sent. `make test` reads some versions of each kind, `make fuzz` ten thousand files.
"""

import contextlib
import json
import random
import resource
import shutil
import signal
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from interpbench.alignment.alignment import align
from interpbench.alignment.truth import find_truth
from interpbench.checkpoints import legacy
from interpbench.checkpoints.blind import key_path, load_problem, open_key, read_problem, write_problem
from interpbench.checkpoints.format import load_checkpoint, load_pairs
from interpbench.checkpoints.index import FORMAT, INDEX, Index, indexed, read_index
from interpbench.checkpoints.pickles import read_plain, read_weights
from interpbench.checkpoints.proof import read_proof
from interpbench.circuits.export import write_scores
from interpbench.circuits.formats import read_scores
from interpbench.core.errors import InterpBenchError
from interpbench.core.files import read_json, sha256
from interpbench.runs.leaderboard import page, read_board
from interpbench.runs.page import read_results
from interpbench.scoring.board import Board, row
from interpbench.scoring.records import Record
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.shapes import ModelSettings, shape
from interpbench.training.objective import Objective
from interpbench.training.settings import CertificateSettings, TrainerSettings
from interpbench.training.trainer import Trainer
from interpbench.transformer.model import Transformer
from tests.published_files import write_mib, write_published

RELEASED = Path(__file__).parent.parent / "models"
FEW, MANY = 60, 500
"""Damaged versions of each kind of file, of which there are more than twenty: tests, and `make fuzz`."""
HEADROOM = 500 << 20
"""Bytes of memory that reading a damaged file may take at most."""
SECONDS = 2.0
"""CPU seconds that reading a damaged file may take at most."""
HOSTILE: tuple[Any, ...] = (
    *(None, True, -1, 0, 1 << 62, 10**300, -(10**5), 1e308, 0.5, "", [], {}, [[]], {"": {}}, [None] * 50),
    *(
        "x" * 5000,
        "../../../etc/passwd",
        "/etc/passwd",
        "evil/evil.py:x",
        "ioi[owner/repo]",
        "a\nb",
        "\x1b[31m",
    ),
    *(
        "hf://owner/name@main/x",
        "$x^",
        "|",
        "<script>alert(1)</script>",
        "\ud800",
        "a0.h0",
        "a9.h9",
        "embed->m0",
    ),
)
"""What a value of a JSON file is replaced by."""


def mutations(data: bytes, seed: str, count: int) -> Iterator[bytes]:
    """Yields damaged versions of a file: bits, bytes, words, blocks, cuts, parts of other places; and of JSON
    every other one as JSON with a value, a key or a part that does not belong there."""
    rng = random.Random(seed)
    try:
        parsed = json.loads(data)
    except ValueError:
        parsed = None
    for number in range(count):
        yield _replaced(parsed, rng) if parsed is not None and number % 2 else _bytes(data, rng)


def _bytes(data: bytes, rng: random.Random) -> bytes:
    numbers = (0, 1, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 40, (1 << 63) - 1)
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        near = min(len(changed), 400)
        place = rng.randrange(len(changed) + 1) if rng.random() < 0.5 else rng.randrange(near + 1)
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
    return bytes(changed)


def _replaced(parsed: Any, rng: random.Random) -> bytes:
    made = json.loads(json.dumps(parsed))
    for _ in range(rng.choice((1, 1, 2))):
        node: Any = made
        while True:
            keys = list(node) if isinstance(node, dict) else list(range(len(node)))
            if not keys:
                break
            key = rng.choice(keys)
            if isinstance(node[key], dict | list) and node[key] and rng.random() < 0.8:
                node = node[key]
                continue
            kind = rng.randrange(5)
            if kind == 0 and isinstance(node, dict):
                node[rng.choice(("x", "__class__", "format", "task", "../x"))] = node.pop(key)
            elif kind == 1:
                del node[key]
            elif kind == 2 and isinstance(node[key], int | float) and not isinstance(node[key], bool):
                node[key] = rng.choice((-node[key], node[key] * 1e9, node[key] + 1, str(node[key])))
            else:
                node[key] = rng.choice(HOSTILE)
            break
    text = json.dumps(made)
    return (
        text.replace(":", rng.choice((': NaN, "x":', ': 1e999, "y":')), 1) if rng.random() < 0.05 else text
    ).encode()


# What may happen while a file is read.

_watched: list[str] | None = None
_FORBIDDEN = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "socket.connect")
_FORBIDDEN += (
    "socket.getaddrinfo",
    "os.remove",
    "os.rename",
    "os.mkdir",
    "shutil.rmtree",
    "pickle.find_class",
)


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _watched is None:
        return
    if event in _FORBIDDEN:
        _watched.append(f"{event} {arguments[:1]}")
    elif event == "open" and isinstance(arguments[0], str) and any(c in str(arguments[1]) for c in "wax+"):
        _watched.append(f"open {arguments[:2]}")


sys.addaudithook(_audit)


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """Lets what is within take neither much time nor much memory, and run, write and send nothing."""
    global _watched

    def late(*_: object) -> None:
        raise AssertionError(f"reading takes more than {SECONDS} CPU seconds")

    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limit = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGVTALRM, late)
    _watched = []
    resource.setrlimit(resource.RLIMIT_AS, (used + HEADROOM, limit[1]))
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, limit)
        signal.signal(signal.SIGVTALRM, before)
        seen, _watched = _watched, None
    assert not seen, seen


def survives(read: Callable[[], object]) -> bool:
    """Reads; returns whether that worked. Any error but the project's own, or more than a line, fails."""
    with bounded():
        try:
            read()
        except InterpBenchError as error:
            said = str(error)
            assert said.isprintable() and len(said) < 1000, said
            return False
    return True


# The kinds of files.


@dataclass(frozen=True)
class Kind:
    """A kind of file: a whole one, how it is read, and what else is written when it is damaged."""

    path: Path
    read: Callable[[], object]
    then: Callable[[], object] = lambda: None

    def write(self, data: bytes) -> None:
        self.path.write_bytes(data)
        self.then()


def of_ours(folder: Path, name: str) -> Kind:
    here = Path(shutil.copytree(RELEASED / "frac_prevs", folder / "frac_prevs"))
    path, record = here / name, json.loads((here / "model.json").read_text())

    def rehash() -> None:
        changed = {**record, "sha256": sha256(path.read_bytes())}
        (here / "model.json").write_text(json.dumps(changed))

    reads: dict[str, Callable[[], object]] = {
        "model.json": lambda: load_checkpoint(here),
        "model.safetensors": lambda: load_checkpoint(here),
        "certificate.json": lambda: read_proof(path),
        "data.safetensors": lambda: load_pairs(here),
    }
    return Kind(path, reads[name], rehash if name == "model.safetensors" else lambda: None)


def index(folder: Path) -> Kind:
    path = folder / INDEX
    path.write_text(json.dumps(Index(FORMAT, {"hist": indexed(RELEASED / "hist")}).to_json()))
    return Kind(path, lambda: read_index(path))


def published(folder: Path, name: str) -> Kind:
    network = load_checkpoint(RELEASED / "frac_prevs").model
    edges = [
        ("hook_embed", "blocks.0.hook_mlp_in"),
        ("blocks.0.hook_mlp_out", "blocks.1.hook_v_input[2]"),
    ] * 3
    here = write_published(folder / "3", network, get_task(3), edges, as_object=True)
    graph, path = network.cfg.graph, here / name
    cfg = legacy._shape(read_plain((here / "ll_model_cfg.pkl").read_bytes(), "x"), path)
    reads: dict[str, Callable[[], object]] = {
        "ll_model_cfg.pkl": lambda: legacy._shape(read_plain(path.read_bytes(), path), path),
        "edges.pkl": lambda: legacy.claimed_edges(here, graph),
        "ll_model.pth": lambda: legacy._fitting(read_weights(path), cfg, path),
        "meta.json": lambda: load_checkpoint(here),
    }
    return Kind(path, reads[name])


def program_of_weights(folder: Path) -> Kind:
    """The pickle inside the archive, with a right checksum."""
    with zipfile.ZipFile(published(folder, "ll_model.pth").path) as archive:
        parts = {entry.filename: archive.read(entry) for entry in archive.infolist()}
    (program,) = [name for name in parts if name.endswith("data.pkl")]
    path = folder / "data.pkl"
    path.write_bytes(parts[program])

    def pack() -> None:
        with zipfile.ZipFile(folder / "ll_model.pth", "w") as archive:
            for name, content in {**parts, program: path.read_bytes()}.items():
                archive.writestr(name, content)

    pack()
    return Kind(path, lambda: read_weights(folder / "ll_model.pth"), pack)


def graph_of_mib(folder: Path) -> Kind:
    network = load_checkpoint(RELEASED / "frac_prevs").model
    here = write_mib(folder, network, {}, {"input->m0"})
    return Kind(folder / legacy.GRAPH, lambda: legacy.claimed_edges(here, network.cfg.graph))


def vocabulary(folder: Path) -> Kind:
    task = get_task("ioi_published_prompts")
    words = [w if w in (",", ".", "Then") else f"Ġ{w}" for w in task.vocab]
    path = folder / legacy.VOCABULARY
    path.write_text(json.dumps({w: n for n, w in enumerate([*words, "<|endoftext|>"])}))
    return Kind(path, lambda: legacy._gpt2_ids(task, folder))


def evaluation(folder: Path) -> Kind:
    """Read, put on the board, and gathered from a folder."""
    path = folder / "random.json"
    shutil.copy(_evaluated(folder), path)

    def read() -> object:
        read_results(folder)
        return row(Record.from_json(read_json(path), path))

    return Kind(path, read)


def _evaluated(folder: Path) -> Path:
    """Returns a record of an evaluation with everything in it."""
    from interpbench.runs.evaluate import evaluate_checkpoint
    from interpbench.runs.evaluate_settings import EvaluateConfig

    out = folder.parent / "evaluated"
    path = out / "frac_prevs" / "random.json"
    if not path.exists():
        settings: Any = {"method": {"name": "random"}, "thorough": True, "pictures": False, "out": str(out)}
        evaluate_checkpoint(load_checkpoint(RELEASED / "frac_prevs"), EvaluateConfig(**settings))
    return path


def leaderboard(folder: Path) -> Kind:
    record = Record.from_json(read_json(_evaluated(folder)))
    board = Board.of([record])
    path = folder / "leaderboard.json"
    path.write_text(json.dumps({"format": 1, "missing": ["hist"], "rows": list(board.rows)}))
    return Kind(path, lambda: page(read_board(path)))


def blind(folder: Path, name: str) -> Kind:
    """Past the hashes of the problem, which find every change."""
    here = write_problem(load_checkpoint(RELEASED / "frac_prevs"), folder / "problem")
    path = key_path(here) if name == "key" else here / name
    record = json.loads((here / "problem.json").read_text())

    def rehashed(**changes: Any) -> None:
        (here / "problem.json").write_bytes(json.dumps({**record, **changes}).encode())

    def rehash() -> None:
        if name == "key":
            rehashed(commitment=sha256(path.read_bytes()))
        elif name != "problem.json":
            rehashed(files={**record["files"], name: sha256(path.read_bytes())})

    if name == "key":
        return Kind(path, lambda: open_key(path, read_problem(here)), rehash)
    return Kind(path, lambda: load_problem(here), rehash)


def scores(folder: Path, form: Any) -> Kind:
    loaded = load_checkpoint(RELEASED / "frac_prevs")
    graph = loaded.truth.graph
    path = folder / ("scores.csv" if form == "csv" else "scores.json")
    write_scores(path, graph, form, circuit=loaded.truth.qkv_edges == 2, d_model=loaded.model.cfg.d_model)
    return Kind(path, lambda: read_scores(path, graph))


def acdc(folder: Path) -> Kind:
    graph, path = load_checkpoint(RELEASED / "frac_prevs").truth.graph, folder / "acdc.json"
    edge = ["blocks.0.hook_q_input", "[:, :, 1]", "blocks.0.hook_resid_pre", "[:]"]
    path.write_text(json.dumps([[edge, 0.25], [["blocks.1.hook_mlp_in", [None], *edge[2:]], 3]]))
    return Kind(path, lambda: read_scores(path, graph))


def state(folder: Path) -> Kind:
    """Whatever still loads also trains on."""
    task = get_task("frac_prevs")
    cfg = shape(task, ModelSettings(n_layers=2, n_heads=4, d_model=4, d_head=1, d_mlp=4))
    alignment = align(task, cfg.graph)
    truth = find_truth(alignment, pairs=64)

    def trainer() -> Trainer:
        parts = (Objective(), TrainerSettings(batch=4), CertificateSettings(), 0, folder)
        return Trainer(Transformer(cfg, 0), alignment, truth, *parts)

    made = trainer()
    made.step()
    made.save()
    assert made.state_file is not None
    return Kind(made.state_file, lambda: trainer().step())


KINDS: dict[str, Callable[[Path], Kind]] = {
    **{
        name: lambda folder, name=name: of_ours(folder, name)
        for name in ("model.json", "certificate.json", "data.safetensors", "model.safetensors")
    },
    **{
        name: lambda folder, name=name: published(folder, name)
        for name in ("ll_model_cfg.pkl", "edges.pkl", "ll_model.pth", "meta.json")
    },
    **{
        f"blind {name}": lambda folder, name=name: blind(folder, name)
        for name in ("problem.json", "key", "data.safetensors", "model.safetensors")
    },
    **{f"scores {form}": lambda folder, form=form: scores(folder, form) for form in ("eap_ig", "csv")},
    **{"scores acdc": acdc, "program": program_of_weights, "graph": graph_of_mib, "vocabulary": vocabulary},
    **{"index": index, "evaluation": evaluation, "leaderboard": leaderboard, "state": state},
}


@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.fuzz)])
@pytest.mark.parametrize("name", sorted(KINDS))
def test_damaged_files(name: str, tmp_path: Path, count: int) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    kind = KINDS[name](folder)
    whole = kind.path.read_bytes()
    kind.read()  # what is imported late is imported
    refused = 0
    for data in mutations(whole, name, count):
        kind.write(data)
        refused += not survives(kind.read)
    kind.write(whole)
    assert survives(kind.read) and 0 < refused


def test_there_are_ten_thousand_of_them() -> None:
    assert len(KINDS) * MANY >= 10_000
