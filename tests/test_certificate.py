"""Certificates: what they measure, in which order, and what they find."""

import copy
import dataclasses

import pytest
import torch

from interpbench.training.certificate import CertificateSettings, certify, lower_bound
from interpbench.training.evaluate import Evaluation
from interpbench.training.objective import Objective
from interpbench.training.validation import validate
from tests.test_training import FEW, setting


def test_the_compiled_network_is_certified(compiled):
    """Tracr's own weights are the program by construction: a certificate that fails them is wrong."""
    network, alignment, truth = compiled
    certificate = certify(
        Evaluation(network, alignment), truth, CertificateSettings(enumerate_up_to=1, pairs=3500)
    )
    assert certificate["certified"], certificate["failures"]


def test_a_certificate_finds_a_planted_fault():
    """An untrained network misses its target everywhere, and the certificate says where."""
    network, alignment, truth = setting("max_with_previous")
    certificate = certify(Evaluation(network, alignment), truth, FEW)
    assert not certificate["certified"]
    assert certificate["accuracy"]["rate"] < 0.5
    assert any(failure.startswith("edge ") for failure in certificate["failures"])


def test_edges_are_patched_alone_on_their_own_number_of_pairs():
    """What costs little is measured first, so that a hopeless attempt never comes to single edges."""
    network, alignment, truth = setting("max_with_previous")
    settings = dataclasses.replace(FEW, edge_pairs=16)
    told: list[tuple[int, int]] = []
    parts = Evaluation(network, alignment), truth, settings
    certificate = certify(*parts, progress=lambda done, total: told.append((done, total)))
    assert told == [(64, 80), (80, 80)]
    assert {entry["rows"] for entry in certificate["edges"].values()} == {16}
    assert {certificate[key]["rows"] for key in ("accuracy", "siia_all_nodes", "all_edges")} == {64}
    given_up = certify(*parts, give_up=True)
    assert {entry["rows"] for entry in given_up["edges"].values()} == {0} and not given_up["certified"]


def test_a_few_edges_that_miss_on_few_pairs_are_measured_again_on_others(compiled, monkeypatch):
    network, alignment, truth = compiled
    settings = dataclasses.replace(FEW, pairs=6_000, edge_pairs=3_000, enumerate_up_to=1)
    evaluation, wrong = Evaluation(network, alignment), {"edges": 5}
    single = Evaluation.single_edges

    def unlucky(self, base, patch, edges):
        """The first edge is wrong on one row of each of five chunks, but for rows without an answer."""
        for number, predictions in single(self, base, patch, edges):
            if number == 0 and wrong["edges"] and len(edges) == truth.idle.sum():
                wrong["edges"] -= 1
                predictions = predictions.copy()
                predictions[0] = -1 if predictions.dtype.kind == "i" else 1e3
            yield number, predictions

    monkeypatch.setattr(Evaluation, "single_edges", unlucky)
    certificate = certify(evaluation, truth, settings, demands=("accuracy", "edges"))
    name, entry = next(iter(certificate["edges"].items()))
    assert 2 <= entry["first_look"]["wrong"] <= 5 and entry["first_look"]["rows"] == 3_000
    assert (entry["wrong"], entry["rows"]) == (0, 6_000) and certificate["certified"], name
    others = list(certificate["edges"].values())[1:]
    assert {other["rows"] for other in others} == {3_000} and not any("first_look" in o for o in others)


def test_a_certificate_sees_one_leaking_edge(compiled):
    """A query input that reads tokens, where the program's reads positions, is the worst of all edges."""
    network, alignment, truth = compiled
    if alignment.task.name != "trend_to_next":
        return
    leaking = copy.deepcopy(network)
    attention = leaking.blocks[0].attn
    with torch.no_grad():  # the head's query reads tokens: where they are large, it attends to BOS instead
        attention.W_Q[0] += 20 * torch.randn(
            attention.W_Q[0].shape, generator=torch.Generator().manual_seed(0)
        )
    certificate = certify(Evaluation(leaking, alignment), truth, FEW)
    failed = [failure for failure in certificate["failures"] if failure.startswith("edge ")]
    assert failed[0].startswith("edge embed->a0.h0<q>")


def test_validation_agrees_with_the_certificate(compiled):
    network, alignment, truth = compiled
    found = validate(Evaluation(network, alignment), truth, Objective(), 256, 0, 1)
    assert found.lowest == 1.0


def test_lower_bounds_are_clopper_pearson():
    assert lower_bound(0, 10, 0.95) == 0
    assert lower_bound(100, 100, 0.95) == pytest.approx(0.05 ** (1 / 100))
    low = lower_bound(90, 100, 0.95)
    from scipy.stats import binom

    assert binom.sf(89, 100, low) == pytest.approx(0.05)
