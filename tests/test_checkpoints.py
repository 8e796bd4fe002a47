"""Checkpoints: what was written is read, what is damaged is refused in one line, and how they are found."""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save

from interpbench.checkpoints.find import RECORD, find_checkpoints, released
from interpbench.checkpoints.format import (
    CERTIFICATE,
    DATA,
    FORMAT,
    WEIGHTS,
    load_checkpoint,
    load_pairs,
    read_record,
    save_checkpoint,
)
from interpbench.circuits.graph import Graph
from interpbench.circuits.truth import LEVELS
from interpbench.core.errors import CheckpointError, InterpBenchError
from interpbench.core.files import sha256, write_bytes, write_json
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.data import draw_pairs
from interpbench.transformer.model import Transformer

Edit = Callable[[dict[str, Any]], object]


def edit(folder: Path, change: Edit) -> None:
    """Changes the record."""
    data = json.loads((folder / RECORD).read_text())
    change(data)
    (folder / RECORD).write_text(json.dumps(data))


def replace_weights(folder: Path, weights: bytes) -> None:
    """Writes other weights, and their hash."""
    (folder / WEIGHTS).write_bytes(weights)
    edit(folder, lambda record: record.update(sha256=sha256(weights)))


def refused(folder: Path, name: str, load: Callable[[Path], object] = load_checkpoint) -> str:
    """Returns the one line with which loading is refused."""
    with pytest.raises(CheckpointError) as caught:
        load(folder)
    message = str(caught.value)
    assert "\n" not in message
    assert str(folder / name) in message
    return message


# Round trips.


@pytest.mark.parametrize("compiled", ["frac_prevs"], indirect=True)
def test_what_training_wrote_is_read(compiled_checkpoint: Path, compiled: Any) -> None:
    network, alignment, truth = compiled
    loaded = load_checkpoint(compiled_checkpoint)
    assert loaded.model.cfg == network.cfg
    for ours, theirs in zip(loaded.model.parameters(), network.parameters(), strict=True):
        assert torch.equal(ours, theirs) and not ours.requires_grad
    assert (loaded.task, loaded.record.legacy_id, loaded.record.kind) == ("frac_prevs", 3, "compiled")
    assert loaded.record.vocabulary == ["a", "b", "c", "x", "BOS", "PAD"] and loaded.record.classes is None
    assert loaded.record.alignment == {name: str(node) for name, node in alignment.nodes.items()}
    for level in LEVELS:
        assert (loaded.truth.at(level) == truth.at(level)).all()
    assert loaded.certificate == json.loads((compiled_checkpoint / CERTIFICATE).read_text())
    assert loaded.certificate["certified"] is True
    pairs, wanted = load_pairs(compiled_checkpoint), draw_pairs(alignment.task, 512)
    for ours, theirs in zip(vars(pairs).values(), vars(wanted).values(), strict=True):
        assert ours.dtype == theirs.dtype and torch.equal(ours, theirs)


@pytest.mark.parametrize("normalization", [None, "LN", "LNPre"])
def test_any_network_round_trips_bit_for_bit(
    random_transformer: Callable[..., Transformer],
    checkpoint: Path,
    tmp_path: Path,
    normalization: str | None,
) -> None:
    network = random_transformer(7, n_heads=4, normalization=normalization)
    record = json.loads((checkpoint / RECORD).read_text())
    pairs = draw_pairs(get_task("hist"), 5)
    save_checkpoint(tmp_path / "new", network, {**record, "steps": 17}, None, pairs)
    loaded = load_checkpoint(tmp_path / "new")
    assert loaded.model.cfg == network.cfg and loaded.certificate is None and loaded.record.steps == 17
    state = loaded.model.state_dict()
    assert state.keys() == network.state_dict().keys()
    assert all(torch.equal(state[name], value) for name, value in network.state_dict().items())
    assert torch.equal(load_pairs(tmp_path / "new").corrupted, pairs.corrupted)


# Damage: what is done to a file, and what the user reads.


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "damaged or changed"),
        (lambda path: path.write_bytes(b""), "damaged or changed"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1] + b"\x01"), "damaged or changed"),
        (lambda path: path.unlink(), "cannot read .*No such file"),
        (lambda path: replace_weights(path.parent, path.read_bytes()[:-1]), "does not fit the shape"),
        (lambda path: replace_weights(path.parent, b"\x80\x04pickled"), "does not fit the shape"),
        (
            lambda path: replace_weights(path.parent, save({"embed.W_E": torch.zeros(3)})),
            "does not fit the shape",
        ),
    ],
    ids=["truncated", "empty", "one byte", "missing", "truncated, hashed", "foreign", "other tensors"],
)
def test_damaged_weights_are_refused(
    checkpoint: Path, damage: Callable[[Path], object], message: str
) -> None:
    damage(checkpoint / WEIGHTS)
    assert re.search(message, refused(checkpoint, WEIGHTS))


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
    ids=["empty", "cut", "no text", "deep", "list", "foreign", "no number", "incomplete", "newer", "missing"],
)
def test_damaged_records_are_refused(checkpoint: Path, data: bytes | None, message: str) -> None:
    (checkpoint / RECORD).unlink()
    if data is not None:
        (checkpoint / RECORD).write_bytes(data)
    assert re.search(message, refused(checkpoint, RECORD))


@pytest.mark.parametrize(
    "key", ["n_layers", "n_heads", "d_model", "d_head", "d_mlp", "d_vocab", "d_out", "n_ctx"]
)
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
    ids=["node", "edge", "no level", "no state", "list", "no hash", "new key", "ill-typed", "unknown choice"],
)
def test_wrong_entries_are_refused(checkpoint: Path, change: Edit) -> None:
    edit(checkpoint, change)
    assert "is damaged" in refused(checkpoint, RECORD)
    refused(checkpoint, RECORD, read_record)


def test_a_damaged_certificate_is_refused(checkpoint: Path) -> None:
    (checkpoint / CERTIFICATE).write_text('{"certified": tr')
    assert "not readable JSON" in refused(checkpoint, CERTIFICATE)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(b"clean, corrupted"),
        lambda path: path.write_bytes(save({"clean": torch.zeros(2, 3)})),
        lambda path: path.write_bytes(save({**load_file(path), "scored": torch.zeros(1, 1)})),
    ],
    ids=["missing", "truncated", "foreign", "incomplete", "other shape"],
)
def test_damaged_pairs_are_refused(checkpoint: Path, damage: Callable[[Path], object]) -> None:
    damage(checkpoint / DATA)
    refused(checkpoint, DATA, load_pairs)
    load_checkpoint(checkpoint)  # which does not need them


# Finding.


@pytest.fixture
def models(checkpoint: Path, tmp_path: Path) -> Path:
    """Two released models, frac_prevs (3) and hist (7), beside a folder that is none."""
    for name, number in (("frac_prevs", 3), ("hist", 7)):
        folder = Path(shutil.copytree(checkpoint, tmp_path / "models" / name))
        edit(folder, lambda record, name=name, number=number: record.update(task=name, legacy_id=number))
    (tmp_path / "models" / "notes").mkdir()
    return tmp_path / "models"


def test_released_models_are_found_by_name_number_and_all(models: Path) -> None:
    both = [models / "frac_prevs", models / "hist"]
    assert list(released(models)) == ["frac_prevs", "hist"]
    assert find_checkpoints("all", models) == both
    assert find_checkpoints("hist", models) == find_checkpoints("7", models) == both[1:]


def test_checkpoints_are_found_by_path(models: Path, checkpoint: Path) -> None:
    assert find_checkpoints(str(checkpoint), models) == [checkpoint]
    assert find_checkpoints(str(checkpoint / WEIGHTS), models) == [checkpoint]
    runs = [Path(shutil.copytree(checkpoint, checkpoint.parent / "runs" / name)) for name in ("b/x", "a/y/z")]
    assert find_checkpoints(str(runs[0].parent), models) == [runs[0]]
    assert find_checkpoints(str(checkpoint.parent / "runs"), models) == sorted(runs)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("frac_prev", "no checkpoint 'frac_prev': .*; did you mean frac_prevs?"),
        ("99", "no checkpoint '99'"),
        ("models/notes", "no checkpoint"),
        ("nowhere/at/all", "no checkpoint 'nowhere/at/all'"),
    ],
)
def test_unknown_checkpoints_get_the_nearest_names(
    models: Path, name: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(models.parent)
    with pytest.raises(CheckpointError, match=message):
        find_checkpoints(name, models)


def test_no_models_at_all(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=f"there are no checkpoints in {tmp_path}"):
        find_checkpoints("all", tmp_path)


# Writing.


@pytest.mark.parametrize("where", ["file/model.json", "file/deeper/model.json"])
def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InterpBenchError, match=f"^cannot write {tmp_path / where}: "):
        write_json(tmp_path / where, {})
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def no_space(*_: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("before", [None, b"old"])
def test_a_failed_write_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, before: bytes | None
) -> None:
    path = tmp_path / "model.safetensors"
    if before is not None:
        path.write_bytes(before)
    monkeypatch.setattr(*((os, "fsync") if call == "fsync" else (Path, "replace")), no_space)
    with pytest.raises(InterpBenchError, match=f"cannot write {path}: No space left on device"):
        write_bytes(path, b"new")
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == (
        {path.name: before} if before else {}
    )


def test_numbers_that_json_has_not_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "x.json", {"margin": float("inf")})
    assert list(tmp_path.iterdir()) == []
