"""What benchmarks measure is what they say: a larger network, the former certificate, the clock of parts."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.certificates import PARTS, Former, spent
from benchmarks.random_training import settings_of
from benchmarks.random_training import table as random_table
from benchmarks.scaling import NOISE, widened
from interpbench.alignment.alignment import align
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.checkpoints.checkpoint_files import released
from interpbench.checkpoints.load import load_checkpoint
from interpbench.tasks.catalogue import get_task
from interpbench.training.interventional_accuracy import Evaluation
from interpbench.training.measure_certificate import certify
from interpbench.training.settings import CertificateSettings
from interpbench.transformer.model import Transformer


@pytest.fixture(scope="module")
def trained() -> Transformer:
    return load_checkpoint(released()["hist"], certificate=False).network


def larger(trained, noise):
    shape = replace(trained.cfg, n_layers=3, n_heads=5, d_model=48, d_head=24, d_mlp=192)
    return widened(trained, shape, noise).requires_grad_(False)


def test_a_larger_network_does_what_the_trained_one_does(trained):
    tokens = get_task("hist").domain.draw(np.random.default_rng(0), 256)
    ids = torch.from_numpy(get_task("hist").token_ids(tokens))
    expected = trained(ids)
    torch.testing.assert_close(larger(trained, 0.0)(ids), expected, rtol=1e-4, atol=1e-4)
    noisy = larger(trained, NOISE)(ids)
    assert torch.equal(noisy[:, 1:].argmax(-1), expected[:, 1:].argmax(-1))
    assert (noisy - expected).abs().max() > 0.1, "nodes that were added write something"


def test_the_parts_of_a_certificate_are_timed_and_both_certificates_find_nothing(trained):
    """Every name in `PARTS` is one that a certificate calls."""
    network = larger(trained, NOISE)
    alignment = align(get_task("hist"), network.cfg.graph)
    evaluation, truth = Evaluation(network, alignment), find_truth(alignment)
    settings = CertificateSettings(pairs=64, looks=1, checks=500, attacks=1, attack_rows=16, attack_steps=1)
    with spent(PARTS) as seconds:
        proof = certify(evaluation, truth, settings)
    assert all(value > 0 for value in seconds.values()), seconds
    rates = [rate for kind in proof.rates.values() for draws in kind.values() for rate in draws.values()]
    assert not any(rate.wrong for rate in rates)
    former = Former(evaluation, truth, pairs=64)
    former.measure()
    assert former.rows == 64
    assert (
        len(former.wrong)
        == 3 + len(alignment.aligned_nodes) + len(alignment.unaligned_nodes) + truth.inert.sum()
    )
    assert not any(former.wrong.values())
    assert all(former.affected.values())


def test_time_between_the_items_of_a_generator_is_not_its_own(monkeypatch):
    """The screen yields outcomes, and who counts them must not be counted."""
    clock = iter(range(0, 1000))
    monkeypatch.setattr("benchmarks.certificates.time.process_time", lambda: next(clock))
    monkeypatch.setattr("interpbench.training.measure_certificate.attack", lambda: (yield from "ab"))
    with spent({"part": ["measure_certificate.attack"]}) as seconds:
        from interpbench.training import measure_certificate

        for _ in measure_certificate.attack():
            for _ in range(10):
                next(clock)
    assert seconds == {"part": 3.0}, "three calls of next, each of one tick"


def test_random_programs_are_counted_by_their_settings_and_failures_are_named(tmp_path: Path) -> None:
    assert settings_of("random_rasp[seed=7,depth=3]") == "random_rasp[depth=3]"
    assert settings_of("random_rasp[seed=7]") == settings_of("random_rasp") == "random_rasp"
    made = load_checkpoint(released()["hist"])
    made = replace(made, record=replace(made.record, cpu_seconds=599.0))
    late = replace(made, record=replace(made.record, cpu_seconds=601.0))
    failed = replace(made, certificate=None)
    text = random_table([made, late, failed])
    assert "| `hist` | 3 | 2 | 1, 33% (1% to 91%) |" in text
    assert "Not certified:" in text and "no certificate was measured" in text
    assert "Not certified" not in random_table([made, late])
    assert made.certificate is not None
    hopeless = replace(made.certificate, rates={"accuracy": made.certificate.rates["accuracy"]})
    last = {"accuracy": 1.0, "iia": 0.97, "siia": 0.98, "edges": 0.9, "worst": "inert edges: all"}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(last) + "\n")
    text = random_table([replace(made, certificate=hopeless, folder=tmp_path)])
    assert "0.970 at the worst swap of an aligned node" in text and "worst: inert edges: all." in text
