"""The type of certificates: what is written is read, to the byte, and nothing else is taken."""

import json
import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from interpbench.checkpoints.certificate_file import parse_certificate, write_certificate
from interpbench.checkpoints.checkpoint_files import CERTIFICATE, in_regimes, released
from interpbench.circuits.certificate import Certificate, Rate, level
from interpbench.circuits.grades import Verdict
from interpbench.core.clopper_pearson import lower_bound
from interpbench.core.errors import CheckpointError
from interpbench.core.files import read_json
from tests.evaluation_records import TRUTH
from tests.made_up_certificates import proof_of

MODELS = {**released(), **in_regimes()}
Damage = Callable[[dict[str, Any]], object]


def made_up() -> dict[str, Any]:
    places = {"tokens": "embed", "before": "a0.h0", "is_x": "m0", "share": "a1.h1"}
    held_out = {"bases": 0.75, "sources": 1.0}
    return proof_of(TRUTH, places, trained_on_all=False, held_out=held_out, seed=7)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_released_certificate_is_written_as_it_was_read(name: str, tmp_path: Path) -> None:
    path = MODELS[name] / CERTIFICATE
    certificate = parse_certificate(read_json(path), path)
    assert certificate.identity is not None
    write_certificate(tmp_path / CERTIFICATE, certificate, certificate.identity)
    assert (tmp_path / CERTIFICATE).read_bytes() == path.read_bytes()


def test_keys_that_a_file_leaves_out_are_left_out_again() -> None:
    data = made_up()
    del data["seed"]
    certificate = Certificate.from_json(data)
    assert certificate.identity is certificate.seed is None
    assert certificate.screen is not None and certificate.screen.proved is None
    assert certificate.to_json() == data and {"identity", "seed"}.isdisjoint(data)
    assert replace(certificate, seed=3).to_json() == {**data, "seed": 3}


DAMAGED: dict[str, tuple[Damage, str]] = {
    "a key is missing": (lambda data: data.pop("margin"), "margin: required, but missing"),
    "its format is missing": (lambda data: data.pop("format"), "format: required, but missing"),
    "another format": (lambda data: data.update(format=3), "format: input should be 2 (got 3)"),
    "a key that there is not": (lambda data: data.update(margins=1), "unknown key; did you mean margin"),
    "text for a number": (
        lambda data: data.update(attempts="0"),
        "attempts: input should be a valid integer",
    ),
    "a number for a flag": (lambda data: data.update(all_pairs=1), "all_pairs: input should be a valid bool"),
    "null for a missing key": (
        lambda data: data.update(seed=None),
        "seed: input may be missing, but not null",
    ),
    "null for what a certificate is of": (lambda data: data.update(identity=None), "identity: input may be"),
    "null in the screen": (lambda data: data["screen"].update(proved=None), "screen.proved: input may be"),
    "not finite": (lambda data: data.update(margin=math.inf), "margin: input should be a finite number"),
    "no number": (lambda data: data["screen"].update(largest=math.nan), "largest: input should be a finite"),
    "no share": (lambda data: data["held_out"].update(bases=1.5), "held_out.bases: input should be less"),
    "no seed": (lambda data: data.update(seed=2**64), "seed: input should be less than"),
    "too many looks": (
        lambda data: data["rates"]["accuracy"]["output"]["task"].update(looks=1001),
        "rates.accuracy.output.task.looks: input should be less than or equal to 1000 (got 1001)",
    ),
    "more wrong rows than rows": (
        lambda data: data["rates"]["accuracy"]["output"]["task"].update(wrong=9000),
        "rates.accuracy.output.task: 9000 of 8192 rows cannot be wrong",
    ),
    "an unknown kind": (lambda data: data["rates"].update(heads={}), "rates.heads.[key]: input should be"),
    "an unknown draw": (
        lambda data: data["rates"]["accuracy"]["output"].update(some={"wrong": 0, "rows": 1, "looks": 1}),
        "rates.accuracy.output.some.[key]: input should be 'task', 'strata' or 'pairs'",
    ),
    "no name of a place": (lambda data: data["required_effect"].update({"A b": 1.0}), "string should match"),
    "an attack on nothing known": (lambda data: data["attacks"].update(heads={}), "attacks.heads.[key]"),
    "two counts of an edge": (
        lambda data: data["screen"]["edges"].update({"m0->logits": [1, 1]}),
        "screen.edges.m0->logits.2: required, but missing",
    ),
    "counts by name": (
        lambda data: data["screen"]["edges"].update({"m0->logits": {"rows": 1, "run": 1, "wrong": 0}}),
        "screen.edges.m0->logits: input should be a valid array",
    ),
    "half an identity": (
        lambda data: data.update(identity={"weights": "0" * 64}),
        "identity.truth: required",
    ),
    "a setting that is a list": (lambda data: data["settings"].update(pairs=[1]), "settings.pairs"),
}


@pytest.mark.parametrize("how", DAMAGED)
def test_a_damaged_certificate_is_refused_in_one_line(how: str) -> None:
    change, said = DAMAGED[how]
    data = deepcopy(made_up())
    change(data)
    with pytest.raises(CheckpointError) as caught:
        Certificate.from_json(data, "c.json")
    message = str(caught.value)
    assert message.startswith("c.json is damaged: ") and said in message and "\n" not in message


@pytest.mark.parametrize("data", [None, [], 3, "x", {}])
def test_what_is_no_mapping_of_these_keys_is_refused(data: object) -> None:
    with pytest.raises(CheckpointError, match=r"^a certificate is damaged: "):
        Certificate.from_json(data)


def test_a_certificate_cannot_be_changed() -> None:
    certificate = Certificate.from_json(made_up())
    with pytest.raises(FrozenInstanceError):
        certificate.margin = 1.0  # type: ignore[misc]
    with pytest.raises(ValidationError):
        replace(certificate, attempts=-1)


def test_a_margin_that_overflows_is_shown_but_not_written(tmp_path: Path) -> None:
    certificate = replace(Certificate.from_json(made_up()), margin=math.inf)
    assert certificate.to_json()["margin"] == math.inf
    path = MODELS["hist"] / CERTIFICATE
    identity = parse_certificate(read_json(path), path).identity
    assert identity is not None
    with pytest.raises(ValueError, match="JSON compliant"):
        write_certificate(tmp_path / CERTIFICATE, certificate, identity)


def test_rates_count_what_is_wrong() -> None:
    rate = Rate(0, 0, 0)
    assert (rate.share, rate.bound(0.95)) == (1.0, 0.0)
    rate = rate.plus(1, 8).plus(1, 8).plus(0, -8)
    assert rate == Rate(2, 8, 0) and rate.share == rate.bound(0.95) == rate.bound(0.5) == 0.75
    drawn = replace(rate, looks=3)
    assert drawn.bound(0.95) == lower_bound(6, 8, level(0.95, 3)) < 0.75
    with pytest.raises(ValueError, match="3 of 2 rows cannot be wrong"):
        Rate(3, 2, 1)
    assert json.loads(json.dumps(Certificate.from_json(made_up()).to_json())) == made_up()


def test_after_many_attempts_a_certificate_can_still_be_written_and_hardly_pass() -> None:
    """A chain of runs that start from each other, each with attempts of its own."""
    late = Rate(wrong=0, rows=73_728, looks=300)
    assert lower_bound(late.rows, late.rows, level(0.95, late.looks)) < 0.999


def test_what_was_given_up_is_said_last() -> None:
    """Measuring ends where a grade is lost, which leaves every other rate without some of its draws."""
    given_up, low = "output was not measured on all draws", "node m0 0.99100 < 0.999, 9 of 1,024 rows wrong"
    verdict = Verdict(None, {"behaviour": [given_up], "iit": [low], "siit": ["later"]}, None)
    assert verdict.missed("behaviour") == [given_up]
    assert verdict.missed("iit") == [low, given_up]
