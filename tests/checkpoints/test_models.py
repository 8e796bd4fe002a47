"""The released models: what their files say holds, and truth can be found in them."""

import hashlib

import numpy as np
import pytest

import interpbench
from interpbench.checkpoints.checkpoint_files import CERTIFICATE, WEIGHTS, in_regimes, released, seeds
from interpbench.checkpoints.load import load_checkpoint, load_pairs
from interpbench.circuits.grades import RELEASED
from interpbench.circuits.ground_truth import LEVELS
from interpbench.discovery.method import get_method
from interpbench.runs.certify import certify_checkpoints, check_task
from interpbench.runs.subject import subject_of
from interpbench.scoring.curves import compare
from interpbench.tasks.catalogue import catalogue, get_task
from interpbench.tasks.family import split_name
from interpbench.training.interventional_accuracy import Evaluation
from interpbench.training.measure_certificate import CertificateSettings, certify
from tests.builders import SAMPLE, some

MODELS = {**released(), **in_regimes()}


def test_every_model_has_a_task_and_those_in_regimes_a_clean_twin():
    assert set(released()) <= set(catalogue()) and in_regimes()
    for name, folder in in_regimes().items():
        assert get_task(name).name == name == load_checkpoint(folder, certificate=False).task
        assert split_name(name)[0] in released()


def test_what_regimes_promise_is_in_the_certificates():
    """Early patches move a tenth of whole ones, at most, and noise the dial's share of the margin."""
    for name, folder in in_regimes().items():
        task, certificate = get_task(name), load_checkpoint(folder).certificate
        if task.flat:
            assert certificate.effects.early <= 0.1 * certificate.effects.signal, name
        if task.noise:
            assert certificate.effects.noise > task.noise * certificate.margin, name


def test_no_model_of_another_seed_or_in_regimes_has_the_weights_of_another():
    """A second draw of the same circuit, copied among the same bystanders, would count one network twice.

    Tasks alone may differ in the names of their values, and have the same network.
    """
    alone, others = list(released().values()), [*seeds().values(), *in_regimes().values()]
    known, weights = (
        [hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest() for folder in folders]
        for folders in (alone, others)
    )
    assert len(set(weights)) == len(weights)
    assert not set(weights) & set(known)


def test_released_models_are_small():
    """60 MB without those in regimes, which are 40 MB at most."""

    def size(folders):
        return sum(file.stat().st_size for folder in folders for file in folder.iterdir() if file.is_file())

    assert size([*released().values(), *seeds().values()]) < 60e6
    assert size(in_regimes().values()) < 40e6


@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_model_reaches_the_grade_of_released_ones(name):
    """By the default standard."""
    checkpoint = load_checkpoint(MODELS[name])
    verdict = checkpoint.verdict()
    assert verdict is not None, "it has no certificate of this format"
    assert verdict.reaches(RELEASED), verdict.missed(RELEASED)
    assert checkpoint.certificate.attacks.keys() == {"nodes", "edges"}


@pytest.mark.parametrize("name", some(sorted(MODELS), 16, SAMPLE))
def test_certificates_are_of_the_truth_and_the_task_as_they_are_now(name):
    checkpoint = load_checkpoint(MODELS[name])
    check_task(MODELS[name] / CERTIFICATE, checkpoint.certificate, subject_of(checkpoint), checkpoint.network)


@pytest.mark.parametrize("name", [name for name in SAMPLE if name != "ioi"])
def test_certificate_holds_on_fresh_pairs(name):
    """A task whose inputs are drawn in another way than when its model was certified needs another model."""
    checkpoint = load_checkpoint(MODELS[name], certificate=False)
    subject = subject_of(checkpoint)
    settings = CertificateSettings(enumerate_up_to=1, pairs=64, looks=1, checks=500)
    certificate = certify(
        Evaluation(checkpoint.network, subject.alignment), subject.truth, settings, seed=7, upto="siit"
    )
    for kind in ("accuracy", "variables", "effective", "nodes", "node_sets"):
        for place, draws in certificate.rates[kind].items():
            assert min(rate.share for rate in draws.values()) > 0.97, (kind, place)


@pytest.mark.parametrize("name", SAMPLE)
def test_exact_patching_finds_the_truth(name):
    checkpoint = load_checkpoint(MODELS[name])
    problem = load_pairs(MODELS[name]).problem(checkpoint.network, 32)
    curves = compare(checkpoint.truth, get_method("exact")(problem))
    assert [curves[level].auroc for level in LEVELS] == [1.0, 1.0, 1.0]


def test_random_scores_average_one_half():
    values = []
    for name in SAMPLE:
        checkpoint = load_checkpoint(MODELS[name], certificate=False)
        pairs = load_pairs(MODELS[name])
        for seed in range(10):
            scores = get_method("random")(pairs.problem(checkpoint.network, 8, seed))
            values.append(compare(checkpoint.truth, scores)["qkv_edge"].auroc)
    error = np.std(values) / np.sqrt(len(values))
    assert abs(np.mean(values) - 0.5) < 3 * error


@pytest.mark.parametrize("name", some(sorted(MODELS), 4, SAMPLE))
def test_stored_pairs_are_alive(name):
    """The network answers otherwise on each corrupted input: no method is at 0.5 for lack of signal."""
    checkpoint, pairs = load_checkpoint(MODELS[name], certificate=False), load_pairs(MODELS[name])
    clean, corrupted = checkpoint.network(pairs.clean), checkpoint.network(pairs.corrupted)
    if checkpoint.record.classes is None:
        differs = (clean - corrupted).abs()[..., 0] > 0.02
    else:
        differs = clean.argmax(-1) != corrupted.argmax(-1)
    assert (differs & pairs.scored).any(1).float().mean() > 0.99


@pytest.mark.exhaustive
def test_a_certificate_can_be_recomputed():
    assert certify_checkpoints("trend_to_next", seed=1, quick=True)


def test_the_library_opens_them():
    checkpoint = interpbench.load("frac_prevs")
    scores = interpbench.discover(checkpoint, "eap", examples=64)
    assert interpbench.compare(checkpoint.truth, scores)["qkv_edge"].auroc == 1.0
    assert interpbench.load(3).record.sha256 == checkpoint.record.sha256
