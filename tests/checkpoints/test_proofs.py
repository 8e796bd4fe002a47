"""Certificates: what a reader makes of their counts, and which files are refused."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load, save

import interpbench
from interpbench.checkpoints.certificate_file import read_certificate
from interpbench.checkpoints.checkpoint_files import CERTIFICATE, RECORD, WEIGHTS
from interpbench.checkpoints.index import indexed, read_index, standing
from interpbench.checkpoints.load import load_checkpoint
from interpbench.checkpoints.record import read_record
from interpbench.circuits.certificate import Certificate, Rate
from interpbench.circuits.grades import GRADES, POSITIONS, Standard, grade, said_of
from interpbench.circuits.graph import Graph
from interpbench.circuits.ground_truth import Truth, open_edges
from interpbench.core.errors import CheckpointError
from interpbench.core.files import sha256
from interpbench.runs.publish import publish
from tests.made_up_certificates import KINDS, certificate_of, proof_of, put_certificate, rate

GRAPH = Graph(2, 2)
TRUTH = Truth.from_json(
    GRAPH,
    {
        "node": {"required": ["embed", "m0", "a1.h1"], "allowed": ["a0.h0"]},
        "head_edge": {
            "required": ["embed->m0", "m0->a1.h1", "embed->a1.h1", "a1.h1->logits"],
            "allowed": ["embed->a0.h0"],
        },
        "qkv_edge": {
            "required": ["embed->m0", "m0->a1.h1<v>", "a1.h1->logits"],
            "allowed": ["embed->a0.h0<q>"],
            "free": [f"embed->a1.h1<{slot}>" for slot in "qkv"],
        },
    },
)
of = Certificate.from_json
ALIGNMENT = {"tokens": "embed", "before": "a0.h0", "is_x": "m0", "share": "a1.h1", "of": "a1.h1"}


def proof(**faults: Any) -> dict[str, Any]:
    return proof_of(TRUTH, ALIGNMENT, **faults)


# What a reader makes of counts.


def test_a_certificate_without_a_fault_reaches_everything() -> None:
    assert list(open_edges(TRUTH)) == ["embed->a1.h1"] and "embed->a1.h1" in TRUTH.required
    verdict = grade(of(proof()))
    assert (verdict.grade, verdict.positions, verdict.missed("adversarial")) == ("adversarial", True, [])
    assert said_of(of(proof())) == "adversarial, positions ≥ 99.9%"
    assert said_of(of(proof(all_pairs=True))) == "adversarial, positions, all pairs, sets ≥ 99.9%"
    assert said_of(of(proof()), Standard(target=0.9996)) == "not even behaviour"
    assert (
        said_of(of(proof()), Standard(target=0.995, missed=1e-3, confidence=0.99))
        == "adversarial, positions ≥ 99.5%"
    )
    assert said_of(None) == "none"


@pytest.mark.parametrize(
    ("kind", "reached"),
    [
        ("accuracy", None),
        *((kind, "behaviour") for kind in ("variables", "effective")),
        *((kind, "iit") for kind in ("nodes", "node_sets")),
        *((kind, "siit") for kind in ("edges", "edge_sets", "required_edges")),
        *((kind, "adversarial") for kind in POSITIONS),
    ],
)
def test_a_grade_falls_with_the_worst_place_of_any_draw(kind: str, reached: str | None) -> None:
    for all_pairs in (False, True):
        bad = proof(wrong={kind: {"first": 1 if all_pairs else 9}}, all_pairs=all_pairs)
        verdict = grade(of(bad))
        assert verdict.grade == reached
        assert verdict.positions is (kind not in POSITIONS)
    sets = {"node_sets": "siit", "edge_sets": "siit+edges"}
    if kind in sets:
        for place in ("subsets", "subsets, a source for each"):
            verdict = grade(of(proof(wrong={kind: {place: 60}}, all_pairs=True)))
            assert verdict.grade == reached
            (said,) = verdict.missed(sets[kind])
            assert f"{place} (strata) 0.99" in said and "60 of 8,192 rows wrong" in said
    if kind in POSITIONS:
        strict = grade(of(bad), Standard(positions=True))
        assert strict.grade == "behaviour" and "swap at one position of" in strict.failures["iit"][0]
    unmeasured = proof()
    del unmeasured["rates"][kind]
    assert grade(of(unmeasured)).grade == reached
    assert any(
        "not measured" in said
        for said in grade(of(unmeasured), Standard(positions=True)).missed("adversarial")
    )


def test_a_grade_needs_all_below_it_and_the_worst_sets() -> None:
    for place, name in enumerate(GRADES):
        verdict = grade(of(proof(upto=name)))
        assert verdict.grade == name and verdict.reaches(GRADES[0]) and verdict.reaches(name)
        assert not any(verdict.reaches(higher) for higher in GRADES[place + 1 :])
    assert grade(of(proof(attacks={"nodes": 200}))).grade == "siit+edges"
    assert grade(of(proof(attacks={"edges": 20}))).grade == "adversarial"
    (said,) = grade(of(proof(attacks={"edges": 200}))).failures["adversarial"]
    assert said.startswith("worst set of 3 edges (strata) 0.94") and said.endswith(" < 0.99")
    blind = proof(screen={**proof()["screen"], "sampled": 1000})
    assert grade(of(blind)).grade == "siit" and "may miss 0.00" in grade(of(blind)).failures["siit+edges"][0]
    one = proof()
    one["screen"]["edges"]["m0->logits"] = [8000, 40, 0]  # of 16,384 rows
    (said,) = grade(of(one)).failures["siit+edges"]
    assert said == "the screen of single edges may miss 0.0507 > 0.05 of m0->logits's rows"
    assert grade(of(proof(screen=None))).failures["siit+edges"] == ["no screen of single edges was recorded"]
    empty = proof()
    empty["attacks"]["edges"] |= {"places": [], "sources": []}
    assert grade(of(empty)).failures["adversarial"] == ["no attack on edges was made"]


def test_the_screen_counts_earlier_attempts() -> None:
    """Ten attempts with a screen that barely passes would pass more often than is said."""
    barely = {**proof()["screen"], "run": 0, "sampled": 120_000, "wrong": 4}
    assert grade(of(proof(screen=barely))).reaches("siit+edges")
    assert not grade(of(proof(screen=barely, attempts=4))).reaches("siit+edges")


def test_what_was_run_cannot_have_been_missed() -> None:
    """The screen may miss a share of what it passed over; of all (edge, row) that is less."""
    screen = {**proof()["screen"], "items": 1_000_000, "sampled": 20_000, "wrong": 1}
    most, half = (of(proof(screen={**screen, "run": run})).may_miss(0.95) for run in (200_000, 600_000))
    assert half == pytest.approx(most / 2)  # type: ignore[operator]
    assert of(proof(screen={**screen, "run": 1_000_000})).may_miss(0.95) is None


def test_rows_that_ask_nothing_prove_nothing() -> None:
    """No rows, no effect, no effective swap: none of it is a rate of 1."""
    for looks in (0, 1):
        assert Rate(0, 0, looks).bound(0.95) == 0
    none = proof()
    none["rates"]["edges"] = {name: {"pairs": rate(0, 0, 0)} for name in none["rates"]["edges"]}
    assert grade(of(none)).grade == "siit"
    for name, reached in (("m0", "behaviour"), ("m0->a1.h1<v>", "siit")):
        inert = proof()
        inert["required_effect"][name] = 0
        assert grade(of(inert)).grade == reached
        assert f"required {name} has no effect" in grade(of(inert)).missed("siit+edges")
    empty = proof()
    empty["rates"]["nodes"]["m1"] = {}
    assert grade(of(empty)).grade == "iit" and grade(of(empty)).failures["siit"] == [
        "forbidden node m1 was not measured"
    ]
    vacuous = proof()
    del vacuous["rates"]["effective"]["m0"]
    assert grade(of({**vacuous, "vacuous": {"effective": ["a0.h0", "m0"]}})).grade == "behaviour"
    assert grade(of(proof())).grade == "adversarial" and proof()["vacuous"]["effective"] == ["a0.h0"]


# Which files are refused.


def refused(folder: Path, said: str, **changes: Any) -> None:
    """A certificate with other entries is refused, wherever it is read."""
    (folder / CERTIFICATE).write_text(json.dumps({**certificate_of(folder), **changes}))
    for read in (load_checkpoint, indexed, lambda folder: publish([str(folder)], "me/x", folder / "out")):
        with pytest.raises(CheckpointError) as caught:
            read(folder)
        message = str(caught.value)
        assert str(folder / CERTIFICATE) in message and said in message and "\n" not in message
    assert standing(folder) in ("damaged", "another model's certificate", "old certificate")
    assert not (folder / "out").exists()


def without(proof: dict[str, Any], kind: str, place: str) -> dict[str, Any]:
    rates = proof["rates"]
    return {**rates, kind: {name: draws for name, draws in rates[kind].items() if name != place}}


def test_a_certificate_says_something_of_every_place(checkpoint: Path) -> None:
    """Nodes and edges of the record's truth and alignment, whatever the certificate itself names."""
    good = certificate_of(checkpoint)
    counted = {kind: len(places) for kind, places in good["rates"].items()}
    assert counted["nodes"] == 2 and counted["edges"] == 20 and counted["variables"] == 2
    what = {
        **{"variables": "swap of m0", "effective": "effective swap of m0", "nodes": "forbidden node a0.h0"},
        **{"node_sets": "forbidden nodes: subsets", "edge_sets": "inert edges: all"},
        **{"edges": "inert edge m0->logits", "required_edges": "required edge m0->a1.h0<v>"},
        **{"positions": "swap at one position of m0"},
        **{"effective_positions": "effective swap at one position of m0"},
    }
    for kind, said in what.items():
        place = said.split(" of ")[-1].split(": ")[-1].split(" node ")[-1].split(" edge ")[-1]
        refused(checkpoint, f"says nothing of {said}", rates=without(good, kind, place))
        more = {
            **good["rates"],
            kind: {**good["rates"][kind], "m1->m1": good["rates"]["edges"]["m0->logits"]},
        }
        refused(checkpoint, "which this network does not have", rates=more)
    refused(checkpoint, "has 0 rates of no intervention", rates={**good["rates"], "accuracy": {}})
    effect = {name: share for name, share in good["required_effect"].items() if name != "m0"}
    refused(checkpoint, "says nothing of the effect of m0", required_effect=effect)
    refused(checkpoint, "an effect of m1", required_effect={**good["required_effect"], "m1": 0.5})
    refused(checkpoint, "its variables are not those", variables={"m0": ["is_x"]})
    refused(checkpoint, "calls m1 vacuous", vacuous={"effective": ["m1"]})
    screen = good["screen"]
    for said, edges in (
        ("passed over m1->m1, which is no inert edge", {"m1->m1": [1, 1, 0], **screen["edges"]}),
        ("ran 3 of 2 rows", {**screen["edges"], "m0->logits": [2, 3, 0]}),
        ("does not add up", {**screen["edges"], "m0->logits": [2, 1, 0]}),
    ):
        refused(checkpoint, said, screen={**screen, "edges": edges})


def test_kinds_that_were_not_measured_may_be_missing(checkpoint: Path) -> None:
    for name in (*KINDS, "adversarial"):
        put_certificate(checkpoint, upto=name)
        verdict = load_checkpoint(checkpoint).verdict()
        assert verdict is not None and verdict.grade == name


def test_draws_are_what_they_say(checkpoint: Path) -> None:
    good = certificate_of(checkpoint)
    for said, draws in (
        ("over all pairs, but not all pairs were run", {"pairs": rate(0, 65_536, 0)}),
        ("nothing of draws from the strata", {"task": rate()}),
        ("nothing of draws from the task", {}),
        ("has all rows of what is drawn from the task", {"task": rate(looks=0), "strata": rate()}),
        ("has 8,193 rows, where so many looks have 8,192", {"task": rate(0, 8_193), "strata": rate()}),
    ):
        refused(checkpoint, said, rates={**good["rates"], "accuracy": {"output": draws}})
    refused(checkpoint, "is over draws from the task, but all pairs were run", all_pairs=True)
    refused(checkpoint, "which share of the pairs was held out", trained_on_all=False)
    attack = good["attacks"]["nodes"]
    for said, change in (
        ("names one twice", {"places": ["m1", "m1"], "sources": [0, 0]}),
        ("patches m0, which is not forbidden", {"places": ["m0"], "sources": [0]}),
        ("has 1 sources of 2", {"sources": [0]}),
        ("tried nothing", {"places": [], "sources": [], "candidates": 0}),
        ("tried nothing", {"rates": {"task": rate()}}),
        ("measured on all rows", {"rates": {"task": rate(), "strata": rate(looks=0)}}),
    ):
        refused(checkpoint, said, attacks={"nodes": {**attack, **change}})


def test_a_certificate_of_other_weights_is_not_this_model_s(checkpoint: Path, tmp_path: Path) -> None:
    """Random weights beside a good certificate, in a record that is made to match them."""
    forged = Path(shutil.copytree(checkpoint, tmp_path / "forged"))
    torch.manual_seed(0)
    weights = {k: torch.randn_like(v) for k, v in load((forged / WEIGHTS).read_bytes()).items()}
    (forged / WEIGHTS).write_bytes(save(weights))
    record = json.loads((forged / RECORD).read_text())
    record["sha256"] = sha256((forged / WEIGHTS).read_bytes())
    (forged / RECORD).write_text(json.dumps(record))
    for read in (
        lambda: interpbench.load(forged),
        lambda: indexed(forged),
        lambda: publish([str(forged)], "me/x", tmp_path / "out"),
        lambda: publish([str(forged)], "me/x", tmp_path / "out", least=None),
    ):
        with pytest.raises(
            CheckpointError, match=r"certificate.json is of other weights, .* --save` makes a"
        ):
            read()
    assert standing(forged) == "another model's certificate" and standing(checkpoint).startswith(
        "adversarial"
    )
    assert load_checkpoint(forged, certificate=False).certificate is None


def test_a_certificate_of_another_truth_or_task_is_not_this_model_s(checkpoint: Path) -> None:
    identity = certificate_of(checkpoint)["identity"]
    refused(checkpoint, "is of another truth", identity={**identity, "truth": "0" * 64})
    nameless = certificate_of(checkpoint)
    del nameless["identity"]
    (checkpoint / CERTIFICATE).write_text(json.dumps(nameless))
    with pytest.raises(CheckpointError, match="does not say of which weights"):
        load_checkpoint(checkpoint)
    said = "is of another program or domain than task frac_prevs has"
    refused(checkpoint, said, identity={**identity, "task": "0" * 64})
    with pytest.raises(CheckpointError, match=said):
        publish([str(checkpoint)], "me/x", checkpoint / "out", least=None)


OLD = {"enumerated": True, "certified": True, "accuracy": {"rate": 1.0}, "iia": {}, "target": 1.0}


def test_an_old_certificate_counts_as_none(checkpoint: Path, caplog: pytest.LogCaptureFixture) -> None:
    for old in (OLD, {**certificate_of(checkpoint), "format": 1}):
        caplog.clear()
        (checkpoint / CERTIFICATE).write_text(json.dumps(old))
        loaded = load_checkpoint(checkpoint)
        assert loaded.certificate is None and loaded.verdict() is None
        (said,) = caplog.messages
        assert "is of an older format; `interpbench certify" in said and "--save` makes a new one" in said
        assert standing(checkpoint) == "old certificate" and indexed(checkpoint).claim == "none"
        with pytest.raises(CheckpointError, match="is of an older format"):
            publish([str(checkpoint)], "me/x", checkpoint / "out")
        caplog.clear()
        assert load_checkpoint(checkpoint, certificate=False).certificate is None and not caplog.messages


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"format": 4}, "has format 4; this version reads up to 3: upgrade interpbench"),
        ({"certified": True}, "is damaged: format: required, but missing"),
        ([1], "is damaged"),
        ({**OLD, "format": "1"}, "is damaged"),
        ({**OLD, "format": True}, "is damaged"),
    ],
)
def test_what_is_no_certificate_is_refused(checkpoint: Path, data: Any, said: str) -> None:
    (checkpoint / CERTIFICATE).write_text(json.dumps(data))
    with pytest.raises(CheckpointError, match=said):
        read_certificate(checkpoint / CERTIFICATE, read_record(checkpoint))


def test_publishing_demands_a_grade(checkpoint: Path, tmp_path: Path) -> None:
    """The verdict is that of the counts: what a certificate says of itself is not read."""
    call: Callable[..., None] = lambda **more: publish([str(checkpoint)], "me/x", tmp_path / "out", **more)  # noqa: E731
    put_certificate(checkpoint, wrong={"edges": {"m0->logits": 30, "a0.h0->m1": 40}})
    with pytest.raises(CheckpointError) as caught:
        call()
    assert str(caught.value).startswith(
        f"{checkpoint} does not reach siit+edges, only siit, positions ≥ 99.9%: "
    )
    assert str(caught.value).endswith("40 of 8,192 rows wrong and 1 more; --grade siit takes it")
    assert "inert edge a0.h0->m1 (strata) 0.99" in str(caught.value)
    call(least="siit")
    entry = read_index(tmp_path / "out" / "index.json").models["frac_prevs"]
    assert (entry.grade, entry.all_pairs, entry.target, entry.positions) == ("siit", False, 0.999, True)
    (checkpoint / CERTIFICATE).unlink()
    with pytest.raises(CheckpointError, match=r"has no certificate; `interpbench certify .* --save` makes"):
        call()
    call(least=None)
