"""Checkpoints: what was written is read, what is damaged is refused in one line, and how they are found."""

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load, save

from interpbench.checkpoints.checkpoint_files import RECORD, released
from interpbench.checkpoints.find import find_checkpoints
from interpbench.checkpoints.format import FORMAT, save_checkpoint
from interpbench.checkpoints.load import load_checkpoint, load_pairs
from interpbench.checkpoints.record import read_record
from interpbench.circuits.graph import Graph
from interpbench.circuits.ground_truth import LEVELS
from interpbench.core.errors import CheckpointError, InterpBenchError
from interpbench.core.files import sha256, write_bytes, write_json
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.data import draw_pairs
from interpbench.transformer.model import Transformer

WEIGHTS, CERTIFICATE, DATA = "model.safetensors", "certificate.json", "data.safetensors"
Edit = Callable[[dict[str, Any]], object]
Damage = Callable[[bytes], bytes | None]
SHAPE = ("n_layers", "n_heads", "d_model", "d_head", "d_mlp", "d_vocab", "d_out", "n_ctx")


def edit(folder: Path, change: Edit) -> None:
    """Changes the record."""
    data = json.loads((folder / RECORD).read_text())
    change(data)
    (folder / RECORD).write_text(json.dumps(data))


def damage(path: Path, how: Damage) -> None:
    """Replaces a file's bytes; None removes it."""
    data = how(path.read_bytes())
    path.unlink() if data is None else path.write_bytes(data)


def refused(folder: Path, name: str, read: Callable[[Path], object] = load_checkpoint) -> str:
    """Returns the one line with which reading is refused; it names the file."""
    with pytest.raises(CheckpointError) as caught:
        read(folder)
    message = str(caught.value)
    assert "\n" not in message
    assert str(folder / name) in message
    return message


@pytest.mark.parametrize("compiled", ["frac_prevs"], indirect=True)
def test_what_training_wrote_is_read(compiled_checkpoint: Path, compiled: Any) -> None:
    network, alignment, truth = compiled
    loaded = load_checkpoint(compiled_checkpoint)
    assert loaded.network.cfg == network.cfg
    for ours, theirs in zip(loaded.network.parameters(), network.parameters(), strict=True):
        assert torch.equal(ours, theirs) and not ours.requires_grad
    assert (loaded.task, loaded.record.legacy_id, loaded.record.kind) == ("frac_prevs", 3, "compiled")
    assert loaded.record.vocabulary == ["a", "b", "c", "x", "BOS", "PAD"] and loaded.record.classes is None
    assert loaded.record.alignment == {name: str(node) for name, node in alignment.nodes.items()}
    for level in LEVELS:
        assert (loaded.truth.at(level) == truth.at(level)).all()
    assert loaded.certificate.to_json() == json.loads((compiled_checkpoint / CERTIFICATE).read_text())
    verdict = loaded.verdict()
    assert verdict is not None and verdict.grade == "adversarial" and verdict.positions
    pairs, wanted = load_pairs(compiled_checkpoint), draw_pairs(alignment.task, 512)
    for ours, theirs in zip(vars(pairs).values(), vars(wanted).values(), strict=True):
        assert ours.dtype == theirs.dtype and torch.equal(ours, theirs)


@pytest.mark.parametrize("normalization", [None, "LN", "LNPre"])
def test_any_network_round_trips_bit_for_bit(
    random_transformer: Callable[..., Transformer], checkpoint: Path, normalization: str | None
) -> None:
    network, folder = random_transformer(7, n_heads=4, normalization=normalization), checkpoint / "new"
    pairs = draw_pairs(get_task("frac_prevs"), 5)
    cfg = network.cfg
    ends = {"vocabulary": list(range(cfg.d_vocab)), "classes": list(range(cfg.d_out))}
    save_checkpoint(folder, network, replace(read_record(checkpoint), steps=17, **ends), None, pairs)
    loaded = load_checkpoint(folder)
    assert loaded.network.cfg == network.cfg and loaded.certificate is None and loaded.record.steps == 17
    state = loaded.network.state_dict()
    assert state.keys() == network.state_dict().keys()
    assert all(torch.equal(state[name], value) for name, value in network.state_dict().items())
    assert torch.equal(load_pairs(folder).corrupted, pairs.corrupted)


def test_weights_that_half_precision_holds_take_half_the_bytes(
    random_transformer: Callable[..., Transformer], checkpoint: Path
) -> None:
    network, sizes = random_transformer(7), list[int]()
    ends = {"vocabulary": list(range(network.cfg.d_vocab)), "classes": list(range(network.cfg.d_out))}
    provenance = replace(read_record(checkpoint), **ends)
    for folder in (checkpoint / "single", checkpoint / "half"):
        save_checkpoint(folder, network, provenance, None)
        sizes.append((folder / WEIGHTS).stat().st_size)
        for ours, theirs in zip(load_checkpoint(folder).network.parameters(), network.parameters()):
            assert ours.dtype == torch.float32 and torch.equal(ours, theirs)
        network.load_state_dict({name: value.half() for name, value in network.state_dict().items()})
    assert sizes[1] < 0.7 * sizes[0]


@pytest.mark.parametrize("how", [lambda data: data[:-1], lambda data: b"", lambda data: data[:-1] + b"\x01"])
def test_changed_or_missing_weights_are_refused(checkpoint: Path, how: Damage) -> None:
    damage(checkpoint / WEIGHTS, how)
    assert "is damaged or changed: its SHA-256 is not" in refused(checkpoint, WEIGHTS)
    damage(checkpoint / WEIGHTS, lambda _: None)
    assert "does not exist" in refused(checkpoint, WEIGHTS)


@pytest.mark.parametrize(
    "how",
    [
        lambda data: data[:-1],
        lambda data: b"\x80\x04pickled",
        lambda data: save({"embed.W_E": torch.zeros(3)}),
        lambda data: save({name: tensor[..., :1].contiguous() for name, tensor in load(data).items()}),
    ],
)
def test_weights_that_do_not_fit_are_refused(checkpoint: Path, how: Damage) -> None:
    damage(checkpoint / WEIGHTS, how)
    edit(checkpoint, lambda record: record.update(sha256=sha256((checkpoint / WEIGHTS).read_bytes())))
    assert "does not fit the shape" in refused(checkpoint, WEIGHTS)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not readable JSON"),
        (b'{"format": 1, "task": "fr', "not readable JSON"),
        (b"\xff\xfe\x00", "not readable JSON"),
        (b"[" * 100_000, "not readable JSON"),
        (b"[1, 2]", "not a checkpoint of this project"),
        (b'{"name": "left-pad"}', "not a checkpoint of this project"),
        (b'{"format": "one"}', "not a checkpoint of this project"),
        (b'{"format": 1}', "is damaged: task"),
        (json.dumps({"format": FORMAT + 1}).encode(), f"has format {FORMAT + 1}; .* upgrade interpbench"),
        (None, "does not exist"),
    ],
    ids=range(10),
)
def test_damaged_records_are_refused(checkpoint: Path, data: bytes | None, message: str) -> None:
    damage(checkpoint / RECORD, lambda _: data)
    assert re.search(message, refused(checkpoint, RECORD))


@pytest.mark.parametrize("key", SHAPE)
@pytest.mark.parametrize("value", [-1, 0, 10**9])
def test_absurd_shapes_are_refused_before_anything_is_allocated(
    checkpoint: Path, key: str, value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(checkpoint, lambda record: record["shape"].update({key: value}))
    monkeypatch.setattr(Transformer, "__init__", lambda *_: pytest.fail("the network was built"))
    monkeypatch.setattr(Graph, "nodes", property(lambda _: pytest.fail("its graph was built")))
    assert "is damaged" in refused(checkpoint, RECORD)


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record["truth"]["node"]["required"].append("m9"),
        lambda record: record["truth"]["qkv_edge"]["allowed"].append("m1->embed"),
        lambda record: record["truth"].pop("head_edge"),
        lambda record: record["truth"]["node"].pop("allowed"),
        lambda record: record["truth"].update(node=["m0"]),
        lambda record: record.pop("sha256"),
        lambda record: record.update(surprise=1),
        lambda record: record.update(steps="many"),
        lambda record: record["shape"].update(activation="swish"),
    ],
)
def test_wrong_entries_are_refused(checkpoint: Path, change: Edit) -> None:
    edit(checkpoint, change)
    assert "is damaged" in refused(checkpoint, RECORD)
    refused(checkpoint, RECORD, read_record)


def test_a_damaged_certificate_is_refused(checkpoint: Path) -> None:
    (checkpoint / CERTIFICATE).write_text('{"format": 2, "rates": tr')
    assert "not readable JSON" in refused(checkpoint, CERTIFICATE)


@pytest.mark.parametrize(
    "how",
    [
        lambda data: None,
        lambda data: data[:-1],
        lambda data: b"clean, corrupted",
        lambda data: save({"clean": torch.zeros(2, 3)}),
        lambda data: save({**load(data), "scored": torch.zeros(1, 1)}),
    ],
)
def test_damaged_pairs_are_refused(checkpoint: Path, how: Damage) -> None:
    damage(checkpoint / DATA, how)
    refused(checkpoint, DATA, load_pairs)
    load_checkpoint(checkpoint)  # which does not need them


@pytest.fixture
def models(checkpoint: Path, tmp_path: Path) -> Path:
    """Two released models beside a folder that is none."""
    for name, number in (("frac_prevs", 3), ("hist", 7)):
        folder = Path(shutil.copytree(checkpoint, tmp_path / "models" / name))
        edit(folder, lambda record, name=name, number=number: record.update(task=name, legacy_id=number))
    (tmp_path / "models" / "notes").mkdir()
    return tmp_path / "models"


def test_released_models_are_found_by_name_number_and_all(models: Path) -> None:
    both = [models / "frac_prevs", models / "hist"]
    assert list(released(models).values()) == both
    assert find_checkpoints("all", models) == both
    assert find_checkpoints("hist", models) == find_checkpoints("7", models) == both[1:]


def test_checkpoints_are_found_by_path(models: Path, checkpoint: Path) -> None:
    assert find_checkpoints(str(checkpoint), models) == [checkpoint]
    assert find_checkpoints(str(checkpoint / WEIGHTS), models) == [checkpoint]
    runs = [Path(shutil.copytree(checkpoint, checkpoint.parent / "runs" / name)) for name in ("b/x", "a/y/z")]
    assert find_checkpoints(str(runs[0].parent), models) == [runs[0]]
    assert find_checkpoints(str(checkpoint.parent / "runs"), models) == sorted(runs)


def test_unknown_checkpoints_get_the_nearest_names(models: Path) -> None:
    for name, hint in (("frac_prev", "; did you mean frac_prevs?"), ("99", ""), (str(models / "notes"), "")):
        with pytest.raises(CheckpointError) as caught:
            find_checkpoints(name, models)
        assert str(caught.value).startswith(f"no checkpoint {name!r}: ")
        assert str(caught.value).endswith(hint)
    with pytest.raises(CheckpointError, match=f"there are no checkpoints in {models / 'notes'}"):
        find_checkpoints("all", models / "notes")


@pytest.mark.parametrize("where", ["file/model.json", "file/deeper/model.json"])
def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InterpBenchError, match=f"^cannot write {tmp_path / where}: "):
        write_json(tmp_path / where, {})
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("call", [(os, "fsync"), (Path, "replace")], ids=["fsync", "replace"])
@pytest.mark.parametrize("before", [{}, {"model.safetensors": b"old"}], ids=["new", "existing"])
def test_a_failed_write_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: tuple[Any, str], before: dict[str, bytes]
) -> None:
    def no_space(*_: object) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "model.safetensors"
    for data in before.values():
        path.write_bytes(data)
    monkeypatch.setattr(*call, no_space)
    with pytest.raises(InterpBenchError, match=f"cannot write {path}: No space left on device"):
        write_bytes(path, b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("objective", "guided"),
    [
        ({"readout": 0.0, "attention": 0.0, "readout_until": None}, 0),
        ({"readout": 1.0, "attention": 0.0, "readout_until": 60}, 60),
        ({"readout": 1.0, "attention": 0.0, "readout_until": None}, 300),
        ({"readout": 1.0, "attention": 1.0, "readout_until": 60}, 300),
    ],
)
def test_guided_steps_of_an_older_version_are_counted(
    checkpoint: Path, objective: dict[str, float | None], guided: int
) -> None:
    path = checkpoint / "model.json"
    record = json.loads(path.read_bytes()) | {"steps": 300, "training": {"objective": objective}}
    record.pop("guided", None)
    path.write_text(json.dumps(record))
    assert read_record(checkpoint).guided == guided
