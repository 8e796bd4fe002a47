"""Certificates in columns, and pairs as small integers: what is read is what was counted, or is refused."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save as save_arrays

from interpbench.checkpoints.certificate_columns import packed, text_of, unpacked
from interpbench.checkpoints.certificate_file import parse_certificate
from interpbench.checkpoints.checkpoint_files import CERTIFICATE, DATA, released
from interpbench.checkpoints.format import read_pairs
from interpbench.checkpoints.load import load_checkpoint
from interpbench.checkpoints.tensor_files import packed_tokens
from interpbench.core.errors import CheckpointError

MODELS = released()
Damage = Callable[[dict[str, Any]], object]


def plain(name: str = "frac_prevs") -> dict[str, Any]:
    certificate = load_checkpoint(MODELS[name]).certificate
    assert certificate is not None
    return certificate.to_json()


@pytest.mark.parametrize("name", ["frac_prevs", "hist", "ioi"])
def test_columns_hold_what_the_plain_form_holds(name: str) -> None:
    data = plain(name)
    again = unpacked(json.loads(text_of(packed(data))))
    assert again == data and json.dumps(again) == json.dumps(data), "in the same order, too"


def test_a_certificate_of_the_former_format_is_read() -> None:
    data = plain()
    assert data["format"] == 2
    assert parse_certificate(data, Path("x")) == load_checkpoint(MODELS["frac_prevs"]).certificate


def test_places_without_a_draw_stay_without() -> None:
    rate = {"wrong": 1, "rows": 8, "looks": 2}
    data = plain()
    data["rates"]["effective"] = {"a0.h0": {"task": rate}, "m0": {"strata": rate}, "m1": {}}
    assert unpacked(packed(data)) == data


DAMAGES: dict[str, tuple[Damage, str]] = {
    "no places": (lambda d: d["rates"]["nodes"].pop("places"), "rates.nodes.places is not a list of names"),
    "a place twice": (lambda d: d["rates"]["nodes"].update(places=["a0.h1"] * 2), "names one twice"),
    "a column missing": (
        lambda d: d["rates"]["nodes"]["task"].pop("rows"),
        "has not the columns wrong, rows",
    ),
    "a column too many": (lambda d: d["rates"]["nodes"]["task"].update(more=0), "has not the columns"),
    "a short column": (lambda d: d["rates"]["nodes"]["task"].update(wrong=[0]), "has 1 numbers of"),
    "a text": (lambda d: d["rates"]["nodes"]["task"].update(wrong="low"), "rates.nodes"),
    "wrong without rows": (lambda d: d["rates"]["nodes"]["task"].update(rows=None), "rates.nodes"),
    "no rates": (lambda d: d.update(rates=7), "rates is not an object"),
    "a list for a draw": (lambda d: d["rates"]["nodes"].update(task=[]), "rates.nodes.task is not an object"),
    "an unknown draw": (
        lambda d: d["rates"]["nodes"].update(guess=d["rates"]["nodes"]["task"]),
        "guess",
    ),
    "a screen of text": (lambda d: d.update(screen="none"), "screen is not an object"),
    "edges without a column": (
        lambda d: d["screen"]["edges"].pop("wrong"),
        "screen.edges has not the columns",
    ),
}


@pytest.mark.parametrize("how", DAMAGES)
def test_damaged_columns_are_refused_in_one_line(how: str) -> None:
    data = copy.deepcopy(packed(plain("hist")))
    change, said = DAMAGES[how]
    change(data)
    with pytest.raises(CheckpointError, match="x is damaged: ") as refused:
        parse_certificate(data, Path("x"))
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_columns_are_a_third_of_the_plain_form() -> None:
    data = plain("hist")
    assert len(text_of(packed(data))) < len(json.dumps(data, indent=1)) / 3


@pytest.mark.parametrize(
    ("most", "kind"), [(0, np.uint8), (255, np.uint8), (256, np.int16), (40_000, np.int64)]
)
def test_tokens_are_stored_in_the_smallest_type(most: int, kind: type[np.generic]) -> None:
    tokens = np.array([[0, most]], np.int64)
    stored = packed_tokens(tokens)
    assert stored.dtype == kind and (stored == tokens).all()


def test_pairs_of_the_former_type_are_read(tmp_path: Path) -> None:
    record = load_checkpoint(MODELS["hist"]).record
    pairs = read_pairs(MODELS["hist"] / DATA, record.shape)
    assert pairs.clean.dtype == torch.int64
    arrays = {name: value.numpy() for name, value in vars(pairs).items()}
    (tmp_path / DATA).write_bytes(save_arrays(arrays))
    again = read_pairs(tmp_path / DATA, record.shape)
    assert all(torch.equal(getattr(again, name), getattr(pairs, name)) for name in arrays)
    assert (tmp_path / DATA).stat().st_size > 4 * (MODELS["hist"] / DATA).stat().st_size
    (tmp_path / DATA).write_bytes(save_arrays({**arrays, "clean": arrays["clean"].astype(np.float32)}))
    with pytest.raises(CheckpointError, match="clean is float32, not int64"):
        read_pairs(tmp_path / DATA, record.shape)


def test_files_of_released_models_are_in_this_form() -> None:
    for folder in MODELS.values():
        assert json.loads((folder / CERTIFICATE).read_text())["format"] == 3, folder.name
