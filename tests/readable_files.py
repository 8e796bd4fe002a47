"""The kinds of files that the project reads, each with an intact file and its reader (`test_fuzzing.py`)."""

import json
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interpbench.alignment.alignment import align
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.checkpoints import published_files
from interpbench.checkpoints.blind import key_path, load_problem, open_key, read_problem, write_problem
from interpbench.checkpoints.certificate_file import read_certificate
from interpbench.checkpoints.index import FORMAT, INDEX, Index, indexed, read_index
from interpbench.checkpoints.load import load_checkpoint, load_pairs
from interpbench.checkpoints.pickles import read_plain, read_weights
from interpbench.checkpoints.record import read_record
from interpbench.circuits.io.score_files import read_scores, write_scores
from interpbench.core.files import read_json, sha256
from interpbench.runs.leaderboard_files import page, read_board
from interpbench.runs.result_files import read_results
from interpbench.scoring.evaluation_record import EvaluationRecord
from interpbench.scoring.leaderboard_data import Board
from interpbench.scoring.leaderboard_rows import board_text, row
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.model_settings import ModelSettings
from interpbench.tasks.shapes import shape
from interpbench.training.recipe import Recipe
from interpbench.training.settings import CertificateSettings, TrainerSettings
from interpbench.training.trainer import Trainer
from interpbench.transformer.model import Transformer
from tests import ROOT
from tests.made_up_certificates import put_certificate
from tests.published_models import write_mib, write_published

RELEASED = ROOT / "models"


@dataclass(frozen=True)
class Kind:
    """A kind of file: an intact one, its reader, and which other files are written when it is damaged."""

    path: Path
    read: Callable[[], object]
    then: Callable[[], object] = lambda: None

    def write(self, data: bytes) -> None:
        self.path.write_bytes(data)
        self.then()


def of_ours(folder: Path, name: str) -> Kind:
    here = Path(shutil.copytree(RELEASED / "frac_prevs", folder / "frac_prevs"))
    put_certificate(here)
    path, record = here / name, json.loads((here / "model.json").read_text())

    def rehash() -> None:
        changed = {**record, "sha256": sha256(path.read_bytes())}
        (here / "model.json").write_text(json.dumps(changed))

    reads: dict[str, Callable[[], object]] = {
        "model.json": lambda: load_checkpoint(here),
        "model.safetensors": lambda: load_checkpoint(here),
        "certificate.json": lambda: read_certificate(path, read_record(here)),
        "data.safetensors": lambda: load_pairs(here),
    }
    return Kind(path, reads[name], rehash if name == "model.safetensors" else lambda: None)


def index(folder: Path) -> Kind:
    path = folder / INDEX
    path.write_text(json.dumps(Index(FORMAT, {"hist": indexed(RELEASED / "hist")}).to_json()))
    return Kind(path, lambda: read_index(path))


def published(folder: Path, name: str) -> Kind:
    network = load_checkpoint(RELEASED / "frac_prevs").network
    edges = [
        ("hook_embed", "blocks.0.hook_mlp_in"),
        ("blocks.0.hook_mlp_out", "blocks.1.hook_v_input[2]"),
    ] * 3
    here = write_published(folder / "3", network, get_task(3), edges, as_object=True)
    graph, path = network.cfg.graph, here / name
    cfg = published_files._shape(read_plain((here / "ll_model_cfg.pkl").read_bytes(), "x"), path)
    reads: dict[str, Callable[[], object]] = {
        "ll_model_cfg.pkl": lambda: published_files._shape(read_plain(path.read_bytes(), path), path),
        "edges.pkl": lambda: published_files.claimed_edges(here, graph),
        "ll_model.pth": lambda: published_files._fitting(read_weights(path), cfg, path),
        "meta.json": lambda: load_checkpoint(here),
    }
    return Kind(path, reads[name])


def program_of_weights(folder: Path) -> Kind:
    """Returns the kind of the pickle inside an archive of weights, whose checksum is corrected."""
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
    network = load_checkpoint(RELEASED / "frac_prevs").network
    here = write_mib(folder, network, {}, {"input->m0"})
    return Kind(
        folder / published_files.GRAPH, lambda: published_files.claimed_edges(here, network.cfg.graph)
    )


def vocabulary(folder: Path) -> Kind:
    task = get_task("ioi_published_prompts")
    words = [w if w in (",", ".", "Then") else f"Ġ{w}" for w in task.vocab]
    path = folder / published_files.VOCABULARY
    path.write_text(json.dumps({w: n for n, w in enumerate([*words, "<|endoftext|>"])}))
    return Kind(path, lambda: published_files._gpt2_ids(task, folder))


def evaluation(folder: Path) -> Kind:
    """Returns the kind of evaluation records, which are read, put on a leaderboard, and found in a folder."""
    path = folder / "random.json"
    shutil.copy(_evaluated(folder), path)

    def read() -> object:
        read_results(folder)
        return row(EvaluationRecord.from_json(read_json(path), path))

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
    record = EvaluationRecord.from_json(read_json(_evaluated(folder)))
    board = Board.of([record])
    path = folder / "leaderboard.json"
    path.write_text(board_text(board.rows, ["hist"]))
    return Kind(path, lambda: page(read_board(path)))


def blind(folder: Path, name: str) -> Kind:
    """Returns the kind of blind problems, whose hashes, which detect every change, are corrected."""
    here = write_problem(RELEASED / "frac_prevs", folder / "problem").folder
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
    write_scores(path, graph, form, circuit=loaded.truth.qkv_edges == 2, d_model=loaded.network.cfg.d_model)
    return Kind(path, lambda: read_scores(path, graph))


def acdc(folder: Path) -> Kind:
    graph, path = load_checkpoint(RELEASED / "frac_prevs").truth.graph, folder / "acdc.json"
    edge = ["blocks.0.hook_q_input", "[:, :, 1]", "blocks.0.hook_resid_pre", "[:]"]
    path.write_text(json.dumps([[edge, 0.25], [["blocks.1.hook_mlp_in", [None], *edge[2:]], 3]]))
    return Kind(path, lambda: read_scores(path, graph))


def state(folder: Path) -> Kind:
    """Returns the kind of training states; from a damaged one that can be loaded, training must go on."""
    task = get_task("frac_prevs")
    cfg = shape(task, ModelSettings(n_layers=2, n_heads=4, d_model=4, d_head=1, d_mlp=4))
    alignment = align(task, cfg.graph)
    truth = find_truth(alignment, pairs=64)

    def trainer() -> Trainer:
        parts = (Recipe(), TrainerSettings(batch=4), CertificateSettings(), 0, folder)
        return Trainer(Transformer(cfg, 0), alignment, truth, *parts)

    def goes_on() -> object:
        resumed = trainer()
        assert resumed.resume()
        return resumed.step()

    made = trainer()
    made.step()
    made.save()
    assert made.state_file is not None
    return Kind(made.state_file, goes_on)


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
