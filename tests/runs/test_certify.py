"""`interpbench certify`: the standard is the command's, and the checkpoint's own word counts for nothing."""

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load, save

from interpbench.checkpoints.checkpoint_files import CERTIFICATE, RECORD, WEIGHTS
from interpbench.checkpoints.index import standing
from interpbench.checkpoints.load import load_checkpoint
from interpbench.circuits.certificate import SETS
from interpbench.circuits.grades import Standard
from interpbench.core.files import sha256
from interpbench.runs import cli
from interpbench.runs.certify import certify_checkpoints
from interpbench.training.settings import CertificateSettings, TrainerSettings
from tests.made_up_certificates import certificate_of, put_certificate

FEW = CertificateSettings(enumerate_up_to=1, pairs=64, looks=1, checks=500, attacks=0)


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Returns the exit status of the command."""
    monkeypatch.setattr(sys, "argv", ["interpbench", "certify", *arguments])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert isinstance(end.value.code, int)
    return end.value.code


def edit(folder: Path, **changes: Any) -> None:
    record = json.loads((folder / RECORD).read_text())
    (folder / RECORD).write_text(json.dumps({**record, **changes}))


@pytest.fixture
def untrained(checkpoint: Path) -> Path:
    """A network with random weights, whose record and certificate are made to be theirs."""
    torch.manual_seed(0)
    weights = {k: torch.randn_like(v) for k, v in load((checkpoint / WEIGHTS).read_bytes()).items()}
    (checkpoint / WEIGHTS).write_bytes(save(weights))
    edit(checkpoint, sha256=sha256((checkpoint / WEIGHTS).read_bytes()))
    put_certificate(checkpoint, all_pairs=True)
    return checkpoint


@pytest.mark.parametrize(
    "training",
    [
        {"objective": {"behaviour": 1.0, "iit": 0.0, "strict": 0.0, "edge_strict": 0.0}},
        {"objective": {"behaviour": 0.0, "iit": 0.0, "strict": 0.0, "edge_strict": 0.0}},
        {"certificate": {"target": 0.0001, "confidence": 0.0, "pairs": 1, "enumerate_up_to": 1}},
        {"standard": {"target": 0.0001, "confidence": 0.01}, "certificate": {"pairs": 1, "looks": 1}},
    ],
)
def test_a_record_cannot_ask_for_less(
    untrained: Path, training: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    edit(untrained, training={**json.loads((untrained / RECORD).read_text())["training"], **training})
    assert run(monkeypatch, str(untrained), "--quick", "--grade", "behaviour") == 1
    assert "not even behaviour; asked for: 99.9% at 95% confidence" in capsys.readouterr().out


def test_an_untrained_network_is_not_certified_though_its_certificate_says_so(
    untrained: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, caplog: pytest.LogCaptureFixture
) -> None:
    assert standing(untrained) == "adversarial, positions, all pairs, sets ≥ 99.9%"  # its own word
    caplog.set_level("INFO", "interpbench")
    assert run(monkeypatch, str(untrained), "--save") == 1
    assert "0 / 65,536" not in capsys.readouterr().out
    assert "NOT siit+edges: not even behaviour" in caplog.text
    assert standing(untrained) == "not even behaviour"


def test_the_grade_that_is_reached_is_said_and_saved(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """A checkpoint that was trained for little is measured against the full standard."""
    edit(
        checkpoint, training={"objective": {"behaviour": 1.0, "iit": 0.0, "strict": 0.0, "edge_strict": 0.0}}
    )
    (checkpoint / CERTIFICATE).write_text('{"format": 2')  # which it does not need
    assert run(monkeypatch, str(checkpoint), "--grade", "adversarial", "--positions", "--save") == 0
    assert "adversarial, positions, all pairs" in capsys.readouterr().out
    saved = load_checkpoint(checkpoint).certificate
    assert saved is not None and saved.identity is not None
    assert asdict(saved.identity) == certificate_of(checkpoint)["identity"]
    assert saved.all_pairs and saved.rates["edges"]["m0->logits"]["pairs"].rows == 256**2


def test_the_standard_is_the_command_s(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    assert not certify_checkpoints(str(checkpoint), settings=FEW)
    out = capsys.readouterr().out
    assert "not even behaviour" in out and "0 / 64" in out
    lenient = Standard(target=0.9)
    assert certify_checkpoints(str(checkpoint), standard=lenient, settings=FEW)
    assert "siit+edges, positions ≥ 90%; asked for: 90%" in capsys.readouterr().out
    assert not certify_checkpoints(str(checkpoint), "adversarial", lenient, FEW)
    assert certify_checkpoints(str(checkpoint), "iit", lenient, FEW, quick=True)
    assert "forbidden node: not measured" in capsys.readouterr().out


def test_several_are_measured_though_one_fails(untrained: Path, tmp_path: Path, capsys: Any) -> None:
    folder = tmp_path / "several"
    for name in ("a", "b"):
        shutil.copytree(untrained, folder / name)
    assert not certify_checkpoints(str(folder), "behaviour", quick=True)
    assert capsys.readouterr().out.count("not even behaviour") == 2


def one_row(rates: dict[str, Any], kind: str) -> dict[str, Any]:
    """The same rates, but those of a kind are of a single pair each, said to be all there are."""
    pairs = {"pairs": {"wrong": 0, "rows": 1, "looks": 0}}
    some = {place: draws if place in SETS[1:] else pairs for place, draws in rates[kind].items()}
    return {**rates, kind: some}


def test_a_certificate_of_something_else_is_named(
    untrained: Path, caplog: pytest.LogCaptureFixture, capsys: Any
) -> None:
    """What is saved is not used; that it is of other weights, or of another task, is said."""
    good, whole = certificate_of(untrained), certificate_of(untrained, all_pairs=True)
    for said, identity in (
        ("is of other weights", {**good["identity"], "weights": "0" * 64}),
        ("is of another program or domain than task", {**good["identity"], "task": "0" * 64}),
    ):
        caplog.clear()
        (untrained / CERTIFICATE).write_text(json.dumps({**good, "identity": identity}))
        assert not certify_checkpoints(str(untrained), "behaviour", settings=FEW, quick=True)
        assert said in caplog.text
    for said, fault in (
        ("its strata are not those", {"strata": []}),
        (
            "trained_on_all is not so",
            {"trained_on_all": False, "held_out": {"bases": 1.0, "sources": 1.0}},
        ),
        *(
            ("where all pairs are", {"all_pairs": True, "rates": one_row(whole["rates"], kind)})
            for kind in whole["rates"]
            if not kind.endswith("positions") and kind != "effective_edges"
        ),
    ):
        caplog.clear()
        (untrained / CERTIFICATE).write_text(json.dumps({**good, **fault}))
        assert not certify_checkpoints(str(untrained), "behaviour", settings=FEW, quick=True)
        assert said in caplog.text


def test_training_may_start_from_weights_whose_certificate_says_nothing(
    trained_checkpoint: Callable[..., Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    few = {"max_steps": 1, "validation_rows": 64}
    made = trained_checkpoint(kind="trained", trainer=TrainerSettings(**few))
    start = Path(shutil.copytree(made, tmp_path / "start"))
    (start / CERTIFICATE).write_text('{"certified": true, "accuracy": {}, "iia": {}}')
    caplog.clear()
    folder = trained_checkpoint(kind="trained", trainer=TrainerSettings(**few), start=str(start), seed=1)
    assert load_checkpoint(folder).record.training["start"] == load_checkpoint(made).record.sha256
    assert "older format" not in caplog.text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--target", "1.5"], "certify: target: input should be less than or equal to 1 (got 1.5)"),
        (["--target", "nan"], "certify: target: "),
        (["--confidence", "1"], "certify: confidence: input should be less than 1 (got 1.0)"),
        (["--worst", "x"], "--worst"),
        (["--missed", "-1"], "certify: missed: "),
        (["--looks", "99"], "certify: looks: input should be less than or equal to 16 (got 99)"),
        (["--grade", "perfect"], "'perfect'"),
        (["--uncertified"], "'--uncertified'"),
    ],
)
def test_wrong_standards_are_one_line(
    checkpoint: Path, arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    assert run(monkeypatch, str(checkpoint), *arguments) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ") and err.count("\n") == 1 and said in err
