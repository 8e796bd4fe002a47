"""Certificates: what they measure, in which order, what they find, and which wrong networks do not pass."""

import dataclasses

import numpy as np
import pytest

from interpbench.alignment.alignment import align
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.circuits.certificate import ALL, OWN_SOURCES, SUBSETS, Rate, level
from interpbench.circuits.grades import Standard, grade
from interpbench.core import seeds
from interpbench.core.clopper_pearson import lower_bound
from interpbench.tasks.catalogue import get_task
from interpbench.training.draws import Draws
from interpbench.training.intervention_tests import SPARSE, Chunk, InterventionTests
from interpbench.training.interventional_accuracy import Evaluation
from interpbench.training.measure_certificate import _Certificate, certify
from interpbench.training.recipe import Recipe
from interpbench.training.settings import CertificateSettings
from interpbench.training.validation import validate
from tests.builders import FEW, evaluation_of, margin_of, setting
from tests.wrong_networks import (
    canary,
    cancelling_heads,
    conspiracy,
    one_token_only,
    right_network,
    without_gradients,
)

PAIRS = CertificateSettings().pairs
MANY = CertificateSettings(enumerate_up_to=1, attacks=0)


def test_the_compiled_network_reaches_every_grade(compiled):
    """Tracr's own weights are the program by construction: a certificate that fails them is wrong."""
    network, alignment, truth = compiled
    settings = dataclasses.replace(MANY, attacks=1, attack_steps=2, attack_rows=64)
    certificate = certify(Evaluation(network, alignment), truth, settings)
    verdict = grade(certificate, Standard(positions=True))
    assert verdict.grade == "adversarial", verdict.failures
    assert set(certificate.required_effect.values()) != {0.0}


def test_a_certificate_finds_a_planted_fault():
    """An untrained network misses its target everywhere, and the certificate says where."""
    network, alignment, truth = setting("max_with_previous")
    certificate = certify(Evaluation(network, alignment), truth, FEW)
    verdict = grade(certificate)
    assert verdict.grade is None
    assert certificate.rates["accuracy"]["output"]["task"].share < 0.5
    assert any(failure.startswith("inert edge ") for failure in verdict.failures["siit+edges"])


# Wrong networks.


def test_heads_that_cancel_each_other_are_found_by_subsets():
    """Each alone and all together do nothing: a certificate of these two says that nothing is wrong."""
    name = "identity_by_attention"
    evaluation, truth = evaluation_of(name, cancelling_heads(name, 0.8 * margin_of(name)))
    certificate = certify(evaluation, truth, dataclasses.replace(MANY, looks=1), upto="siit")
    rates = certificate.rates
    for draw in ("task", "strata"):
        assert all(rate[draw].wrong == 0 for rate in rates["nodes"].values())
        assert rates["node_sets"][ALL][draw].wrong == 0
        assert rates["node_sets"][SUBSETS][draw].wrong > 50
        assert rates["node_sets"][OWN_SOURCES][draw].wrong > 50
    assert grade(certificate).grade == "iit"


def test_what_is_wrong_on_rare_inputs_is_found_by_strata():
    """Inputs of one token throughout are a five-thousandth of the domain, and a stratum of their own."""
    name = "identity_by_attention"
    evaluation, truth = evaluation_of(name, one_token_only(name, -100))
    certificate = certify(evaluation, truth, dataclasses.replace(MANY, looks=1), upto="behaviour")
    accuracy = certificate.rates["accuracy"]["output"]
    assert accuracy["task"].bound(0.95) > 0.998 > 0.97 > accuracy["strata"].share
    assert grade(certificate).grade is None


def test_the_adversary_finds_what_random_sets_hardly_hit():
    """Heads that matter only if just one of ten signs is swapped: the gradient leads there."""
    name = "identity_by_attention"
    settings = dataclasses.replace(FEW, attacks=2, attack_rows=64, pairs=512)
    size = 0.9 * margin_of(name)
    evaluation, truth = evaluation_of(name, cancelling_heads(name, size))
    attack = certify(evaluation, truth, settings).attacks["nodes"]
    assert all(rate.wrong > 0.2 * rate.rows for rate in attack.rates.values())
    heads = {"a1.h0": 1, "a1.h1": 1, "a1.h2": -1, "a1.h3": -1}
    signs = sum(heads.get(place, 0) for place in attack.places)
    assert len(attack.places) == len(attack.sources) and attack.candidates > 64
    assert signs or len(set(attack.sources)) > 1, "one sign, or two signs from two sources"


def test_a_swap_that_acts_at_the_wrong_place_is_found_position_by_position():
    """Rolling what the heads of `frac_prevs` read by one place cancels where whole sequences are swapped."""
    network, alignment, truth = setting("frac_prevs")
    certificate = certify(Evaluation(network, alignment), truth, FEW)
    assert set(certificate.rates["positions"]) == set(map(str, alignment.aligned_nodes))
    verdict = grade(certificate, Standard(positions=True))
    assert verdict.positions is False and any("one position" in said for said in verdict.failures["iit"])


def wrong_alone(evaluation, truth, edge, base, source):
    """Returns how many rows one edge patched alone gets wrong."""
    writer, reader = edge.split("->")
    readers, nodes = list(map(str, truth.graph.readers)), list(map(str, truth.graph.nodes))
    place = np.array([[readers.index(reader), nodes.index(writer)]])
    ((_, predictions),) = evaluation.single_edges(base, source.stack, place)
    return int((~evaluation.right(predictions, base.trace[evaluation.causal_model.output])).sum())


@pytest.mark.exhaustive
def test_an_edge_that_the_screen_passes_over_is_run_once_its_sample_is_wrong():
    """Of a hundred edges one is wrong on 1 % of the rows: neither gradients nor random sets show it."""
    network, edge = canary("hist", 8, 0.815)
    evaluation, truth = evaluation_of("hist", network)
    settings = dataclasses.replace(MANY, pairs=576, looks=1, checks=80_000)
    certificate = certify(evaluation, truth, settings, upto="siit+edges")
    screen, rates = certificate.screen, certificate.rates["edges"]
    assert screen.wrong > 0 and screen.edges[edge][2] > 0
    assert any(rate.wrong > 0.003 * rate.rows for rate in rates[edge].values()), rates[edge]
    for name in (SUBSETS, OWN_SOURCES):
        assert sum(rate.wrong for rate in certificate.rates["edge_sets"][name].values()) < 10
    verdict = grade(certificate, Standard(target=0.99))
    assert verdict.grade == "siit" and edge in verdict.failures["siit+edges"][0]


def test_all_pairs_are_run_of_every_edge():
    """An edge that is wrong on few pairs is wrong on as many in the certificate."""
    network, edge = canary("frac_prevs", 1, 0.7)
    evaluation, truth = evaluation_of("frac_prevs", network)
    settings = dataclasses.replace(MANY, enumerate_up_to=1000)
    making = _Certificate(evaluation, truth, settings, Standard(), "siit+edges", None, None, 0)
    making._enumerate([("edges", edge)], 0)
    every = evaluation.activations(evaluation.task.domain.all())
    blocks = [evaluation.pair(every.rows(slice(first, first + 16)), every) for first in range(0, 256, 16)]
    wrong = sum(wrong_alone(evaluation, truth, edge, base, source) for base, source in blocks)
    assert 0 < wrong < 0.01 * 256**2
    assert making._by_kind()["edges"][edge]["pairs"] == Rate(wrong, 256**2, 0)


@pytest.mark.exhaustive
def test_what_a_certificate_does_not_see():
    """A conspiracy of ten heads, wrong only if five of them and no others are swapped, passes.

    Chance hits that set on one row of 2,772. The page on certificates says so.
    """
    name = "first_occurrences"
    task = get_task(name)
    tokens = task.domain.draw(np.random.default_rng(0), 512)
    network, members = conspiracy(name, 100)
    evaluation, truth = evaluation_of(name, network)
    settings = dataclasses.replace(FEW, pairs=PAIRS, looks=5, attacks=1, attack_rows=64, attack_steps=4)
    certificate = certify(evaluation, truth, settings, upto="siit")
    assert grade(certificate).grade == "siit", grade(certificate).failures
    base = evaluation.activations(tokens)
    source = evaluation.activations(np.random.default_rng(1).permutation(tokens))
    first = np.array([[(node.layer, node.head) in members[:5] for node in truth.graph.nodes]])
    ((_, predictions),) = evaluation.patched(base, source.stack, nodes=first)
    right = evaluation.right(predictions, base.trace[evaluation.causal_model.output])
    assert right.mean() < 0.9, "but that set is wrong, often"


# Rows.


def test_rows_without_an_answer_count_for_nothing_and_others_take_their_place():
    evaluation, truth = evaluation_of("induction", right_network("induction"))
    certificate = certify(evaluation, truth, FEW, upto="siit+edges")
    for kind in SPARSE:
        rows = [rate[draw].rows for rate in certificate.rates[kind].values() for draw in rate]
        assert set(rows) == {64}
    assert certificate.vacuous == {"effective": (), "effective_positions": ("a0.h1",)}


def test_which_rows_count_is_what_measuring_finds():
    evaluation, truth = evaluation_of("induction", right_network("induction"))
    tests, rng, domain = (
        InterventionTests(evaluation, truth),
        np.random.default_rng(0),
        evaluation.task.domain,
    )
    base = domain.draw(rng, 256)
    source = domain.sources(rng, base)
    at = rng.integers(base.shape[1], size=len(base))
    chunk = Chunk(evaluation.activations(base), (evaluation.activations(source),), rng, at)
    shares = []
    for outcome in tests.measure(chunk, {kind: tests.places[kind] for kind in SPARSE}):
        if outcome.kind not in SPARSE:
            continue
        counting = tests.counting(outcome.kind, outcome.place, base, source, at)
        np.testing.assert_array_equal(outcome.counts, counting)
        shares.append(counting.mean())
    assert min(shares) < 0.5 < max(shares)


def test_a_variable_without_effect_is_vacuous_not_certified():
    """`frequency_class` computes an indicator that is the same for every input of its length."""
    from interpbench.rasp.compile import compile_program
    from interpbench.rasp.weights import compiled_network

    task = get_task("frequency_class")
    network = compiled_network(compile_program(task.program)).requires_grad_(False)
    alignment = align(task, network.cfg.graph)
    certificate = certify(Evaluation(network, alignment), find_truth(alignment), FEW, upto="iit")
    assert certificate.vacuous == {"effective": ("a0.h1",), "effective_positions": ("a0.h1",)}
    assert all("a0.h1" not in certificate.rates[kind] for kind in certificate.vacuous)


def test_held_out_shares_are_said():
    evaluation, truth = evaluation_of("docstring", right_network("docstring"))
    certificate = certify(evaluation, truth, FEW, upto="behaviour")
    assert certificate.held_out.bases > 0.7 and certificate.held_out.sources > 0.7
    assert not certificate.trained_on_all and not certificate.all_pairs
    evaluation, truth = evaluation_of("hist", right_network("hist"))
    certificate = certify(evaluation, truth, FEW, upto="behaviour")
    assert certificate.held_out is None and certificate.trained_on_all and not certificate.all_pairs


def test_all_pairs_are_run_once_each_and_sets_are_drawn():
    network, alignment, truth = setting("frac_prevs")
    settings = dataclasses.replace(FEW, enumerate_up_to=1000, pairs=64)
    certificate = certify(Evaluation(network, alignment), truth, settings, upto="siit")
    rates = certificate.rates
    assert certificate.all_pairs and set(rates["accuracy"]["output"]) == {"pairs"}
    pairs = rates["nodes"]["a1.h0"]["pairs"]
    assert (pairs.rows, pairs.looks) == (256**2, 0)
    assert set(rates["node_sets"][SUBSETS]) == {"task", "strata"}


# Looks.


def test_lower_bounds_are_clopper_pearson():
    assert lower_bound(0, 10, 0.05) == 0
    assert lower_bound(100, 100, 0.05) == pytest.approx(0.05 ** (1 / 100))
    low = lower_bound(90, 100, 0.05)
    from scipy.stats import binom

    assert binom.sf(89, 100, low) == pytest.approx(0.05)


def test_the_levels_of_all_looks_add_up_to_the_error_that_is_said():
    levels = [level(0.95, look + attempt) for attempt in range(60) for look in range(1, 60)]
    assert sum(levels) == pytest.approx(0.05)


def accepted(p, rows, looks, tries, rng, standard):
    """Returns how often a rate of p wrong rows passes, looked at as a certificate does."""
    passed = 0
    for _ in range(tries):
        wrong, total = 0, 0
        for look in range(1, looks + 1):
            until = rows * 2 ** (look - 1)
            wrong, total = wrong + rng.binomial(until - total, p), until
            if Rate(wrong, total, look).bound(standard.confidence) >= standard.target:
                passed += 1
                break
    return passed / tries


def test_a_rate_at_the_target_passes_as_seldom_as_is_said():
    """Two looks at 5 % each passed a rate that just misses the target with probability 0.0947."""
    standard, rng = Standard(), np.random.default_rng(0)
    assert accepted(0.001, PAIRS, 5, 20_000, rng, standard) < 0.05 + 3 * (0.05 * 0.95 / 20_000) ** 0.5
    assert accepted(0.0001, PAIRS, 5, 2_000, rng, standard) > 0.99, "and a good one is not turned away"


def test_doubtful_rates_are_looked_at_again_and_others_are_not(compiled, monkeypatch):
    network, alignment, truth = compiled
    evaluation = Evaluation(network, alignment)
    settings = dataclasses.replace(MANY, looks=3)
    left = {"wrong": 2}
    right = Evaluation.right

    def unlucky(self, predictions, wanted):
        found = right(self, predictions, wanted)
        if left["wrong"]:
            left["wrong"] -= 1
            found = found.copy()
            found[0] = False
        return found

    monkeypatch.setattr(Evaluation, "right", unlucky)
    rates = certify(evaluation, truth, settings, upto="behaviour").rates["accuracy"]["output"]
    assert (rates["task"].looks, rates["task"].rows, rates["task"].wrong) == (2, 2 * PAIRS, 2)
    assert (rates["strata"].looks, rates["strata"].rows) == (1, PAIRS)


def test_failed_attempts_count_as_looks_and_have_rows_of_their_own(compiled):
    network, alignment, truth = compiled
    evaluation = Evaluation(network, alignment)
    first, second = (certify(evaluation, truth, FEW, upto="behaviour", attempt=attempt) for attempt in (0, 2))
    looks = [each.rates["accuracy"]["output"]["task"].looks for each in (first, second)]
    assert looks == [1, 3] and second.attempts == 2
    drawn = []
    for attempt in (0, 2):
        making = _Certificate(evaluation, truth, FEW, Standard(), "behaviour", None, None, attempt)
        seed = seeds.derive(0, "certificate", evaluation.task.name, attempt)
        drawn.append(making._tokens("task", seeds.generator(seed, "task"), 64, 1)[0])
    assert not np.array_equal(*drawn)


def test_a_hopeless_attempt_stops_at_once():
    network, alignment, truth = setting("max_with_previous")
    told: list[int] = []
    settings = dataclasses.replace(FEW, pairs=4096, looks=1)
    certificate = certify(
        Evaluation(network, alignment),
        truth,
        settings,
        give_up="siit",
        progress=lambda done, _: told.append(done),
    )
    assert len(told) == 1 and certificate.attacks == {}
    assert grade(certificate).grade is None


def test_what_is_given_up_in_a_look_has_had_it(compiled, monkeypatch):
    """The rows of a look that is broken off count as one; what was never drawn is missed."""
    network, alignment, truth = compiled
    settings = dataclasses.replace(FEW, pairs=64, looks=3, attacks=0)
    monkeypatch.setattr(
        _Certificate,
        "_lost",
        lambda self, claims, draw: any(self._rate(claim, draw).rows > settings.pairs for claim in claims),
    )
    certificate = certify(Evaluation(network, alignment), truth, settings, give_up="siit+edges")
    places = [draws for each in certificate.rates.values() for draws in each.values()]
    rates = [rate for draws in places for rate in draws.values()]
    assert any(rate.rows > settings.pairs for rate in rates)
    for rate in rates:
        assert rate.rows <= settings.pairs * 2 ** (rate.looks - 1)
    verdict = grade(certificate, Standard(target=0.5))
    assert verdict.grade is None, "all that was drawn is right"
    assert any(said.endswith("was not measured on all draws") for said in verdict.failures["behaviour"])


def test_the_same_seed_gives_the_same_certificate():
    network, alignment, truth = setting("frac_prevs")
    settings = dataclasses.replace(FEW, attacks=1, attack_steps=2, attack_rows=32)
    evaluation = Evaluation(network, alignment)
    one, other = (certify(evaluation, truth, settings) for _ in range(2))
    assert one == other != certify(evaluation, truth, settings, seed=1)


def test_validation_agrees_with_the_certificate(compiled):
    network, alignment, truth = compiled
    found, _ = validate(Evaluation(network, alignment), truth, Recipe(draws=Draws(positions=0.5)), 256, 0, 1)
    assert found.lowest == 1.0, found.worst


def test_an_attack_is_a_set_even_if_the_network_is_wrong_without_one():
    network, alignment, truth = setting("trend_to_next")
    settings = dataclasses.replace(FEW, attacks=2, attack_rows=64)
    attacks = certify(Evaluation(network, alignment), truth, settings).attacks
    assert all(attack.places and attack.candidates for attack in attacks.values())


def test_an_attack_without_gradients_is_none():
    """The set is found with gradients; where a unit makes them no numbers, nobody has searched."""
    wide = cancelling_heads("hist", 0.7 * margin_of("hist"), layer=0, added=True)
    settings = dataclasses.replace(FEW, attacks=1, attack_rows=64, attack_steps=3)
    for network, found in ((wide, True), (without_gradients(wide), False)):
        evaluation, truth = evaluation_of("hist", network)
        proof = certify(evaluation, truth, settings)
        assert ("nodes" in proof.attacks) == found
        assert not grade(proof).reaches("adversarial")
    assert "no attack on nodes was made" in grade(proof).failures["adversarial"]
