"""`interpbench scrub`: certified and compiled networks keep their loss, and wrong hypotheses lose it."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import interpbench
from interpbench.alignment.alignment import align
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.checkpoints.find import find_checkpoint
from interpbench.checkpoints.load import load_checkpoint, load_pairs
from interpbench.circuits.ordered_scores import edge_scores
from interpbench.circuits.scores import Scores
from interpbench.core.errors import InterpBenchError, ScoresError, TaskError
from interpbench.rasp.compile import compile_program
from interpbench.rasp.weights import compiled_network
from interpbench.runs.cli import run_subcommand
from interpbench.runs.score import convert_file
from interpbench.runs.scrub import BY_POSITION, SAMPLINGS, SOURCES, inputs_of, scrub_checkpoint, scrub_program
from interpbench.runs.scrub_circuit import percent_recovered, scrubbed_circuit
from interpbench.runs.subject import subject_of
from interpbench.scoring.behaviour import Behaviour
from interpbench.scoring.curves import compare
from interpbench.scoring.evaluation_record import EvaluationRecord
from interpbench.scrubbing.classes import Classes
from interpbench.scrubbing.path_draws import PathDraws
from interpbench.scrubbing.program_claims import PROGRAM_LEVELS, attended_sources, structure_hypothesis
from interpbench.scrubbing.residual import ScrubbedNetwork
from interpbench.tasks.catalogue import get_task
from tests.builders import setting
from tests.oracles import scoring as oracle
from tests.oracles.scrubbing import scrubbed_logits

FEW = {"inputs": 256, "samples": 200}


@pytest.mark.parametrize("name", ["hist", "detect_abc", "frac_prevs", "equals_two_back[regime=normed]"])
def test_certified_networks_keep_their_loss_at_all_levels(name: str) -> None:
    report = scrub_checkpoint(name, **FEW)
    assert tuple(report.results) == (*PROGRAM_LEVELS, *BY_POSITION)
    for level, by_sampling in report.results.items():
        assert tuple(by_sampling) == (("node", "exact") if level in BY_POSITION else SAMPLINGS)
        for found in by_sampling.values():
            assert found.percent is not None and found.percent.value > 99, level
            assert found.changed.value < 0.01 and found.scrubbed.value < found.constant
    for claim, test in report.negative.items():
        assert test.right.value > 0.98 and test.kept.value > 0.98, claim


@pytest.mark.parametrize("name", ["hist", "paren_balance", "sum_last_two", "frac_prevs"])
def test_compiled_networks_keep_their_loss(name: str) -> None:
    task = replace(get_task(name), alignment={})  # variables are where Tracr places them
    network = compiled_network(compile_program(task.program))
    alignment = align(task, network.cfg.graph)
    truth = find_truth(alignment, pairs=500)
    report = scrub_program(network, alignment, truth.circuit, **FEW)
    for by_sampling in report.results.values():
        for found in by_sampling.values():
            assert found.percent is not None and found.percent.value == pytest.approx(100, abs=1)


def test_an_untrained_network_has_nothing_to_recover() -> None:
    network, alignment, truth = setting("hist")
    report = scrub_program(network, alignment, truth.circuit, samplings=("node",), **FEW)
    assert report.results["features"]["node"].network.value > report.results["features"]["node"].constant


def test_a_circuit_without_a_required_edge_loses_most() -> None:
    checkpoint = load_checkpoint(find_checkpoint("detect_abc"), certificate=False)
    subject = subject_of(checkpoint)
    circuit = subject.truth.circuit
    whole = scrub_program(checkpoint.network, subject.alignment, circuit, found=circuit, **FEW)
    assert whole.results["circuit"]["node"].percent.value > 99  # pyright: ignore[reportOptionalMemberAccess]
    assert not whole.claims and not whole.negative
    for reader, writer in np.argwhere(circuit):
        less = circuit.copy()
        less[reader, writer] = False
        found = scrub_program(
            checkpoint.network, subject.alignment, circuit, found=less, samplings=("node",), **FEW
        )
        percent = found.results["circuit"]["node"].percent
        assert percent is not None and percent.value < 90, (reader, writer)


def test_the_score_of_a_circuit_is_what_the_literal_recursion_recovers() -> None:
    checkpoint = load_checkpoint(find_checkpoint("equals_two_back"))
    graph, network = checkpoint.truth.graph, checkpoint.network
    behaviour = Behaviour(load_pairs(checkpoint.folder).problem(network, 12))
    circuit = checkpoint.truth.circuit.copy()
    circuit[tuple(np.argwhere(circuit)[0])] = False
    found = scrubbed_circuit(behaviour, circuit)
    assert found is not None and found.percent is not None

    rows, count = behaviour.problem.clean, 12
    draws = PathDraws(0, 512, Classes.of(np.zeros(count), count))
    hypothesis = structure_hypothesis(graph, circuit, split=True)
    few = replace(draws, samples=24)
    few.__dict__["root"] = draws.root[:24]
    classes = hypothesis.classes(count)
    with torch.no_grad():
        literal = scrubbed_logits(network, rows.tolist(), hypothesis, few, classes)
        quick = ScrubbedNetwork(network, rows).scrub(hypothesis, few)
    expected = torch.stack([torch.stack(logits) for logits in literal]).permute(2, 1, 0)
    torch.testing.assert_close(quick, expected, rtol=1e-4, atol=1e-4)

    own = behaviour.logits.argmax(0)
    logits = ScrubbedNetwork(network, rows).scrub(hypothesis, draws)

    def losses(outputs: torch.Tensor, inputs: np.ndarray) -> list[float]:
        each = []
        for sample, place in enumerate(inputs):
            at = behaviour.problem.scored[:, place].nonzero()[:, 0]
            chances = outputs[:, at, sample].double().log_softmax(0)
            each.append(-float(chances[own[at, place], torch.arange(len(at))].mean()))
        return each

    scrubbed = losses(logits, draws.root)
    network_losses = losses(behaviour.logits[..., draws.root], draws.root)
    assert found.scrubbed.value == pytest.approx(np.mean(scrubbed))
    percent = oracle.recovered(scrubbed, network_losses, [found.shuffled.value])
    assert found.percent.value == pytest.approx(percent) and percent < 95
    whole = percent_recovered(behaviour, checkpoint.truth.circuit)
    assert whole is not None and whole.value > 99


def test_claims_whose_values_are_given_to_other_inputs_lose() -> None:
    report = scrub_checkpoint("detect_abc", **FEW)
    permuted = report.claims["m2"].permuted
    assert permuted is not None and permuted.value < 50
    assert report.claims["m2"].alone < 0.2 and report.claims["m2"].effective_size > 5


def test_a_circuit_of_a_file_is_scrubbed(tmp_path: Path) -> None:
    convert_file("truth", tmp_path / "truth.json", "hist")
    out = tmp_path / "report.json"
    assert (
        run_subcommand(
            [
                "scrub",
                "hist",
                "--circuit",
                str(tmp_path / "truth.json"),
                "--samples",
                "100",
                "--json",
                str(out),
            ]
        )
        == 0
    )
    said = json.loads(out.read_text())
    assert said["results"]["circuit"]["node"]["percent"][0] > 99
    scores = tmp_path / "scores.csv"
    graph = load_checkpoint(find_checkpoint("hist"), certificate=False).network.cfg.graph
    scores.write_text(
        "edge,score\n" + "".join(f"{edge},{-place}\n" for place, edge in enumerate(graph.edges))
    )
    report = interpbench.scrub("hist", circuit=scores, **FEW)
    assert report.results["circuit"]["node"].percent.value < 50  # pyright: ignore[reportOptionalMemberAccess]


def test_claims_about_numbers_may_exchange_inputs_with_similar_ones() -> None:
    report = scrub_checkpoint("paren_balance", soft=0.05, donors=True, **FEW)
    exact, soft = (report.results[name]["node"].percent for name in ("features", "features, soft"))
    assert exact is not None and soft is not None and exact.value > 99
    assert 80 < soft.value <= exact.value, "a nearby number is not the same number"
    wider = scrub_checkpoint("paren_balance", soft=2.0, **FEW).results["features, soft"]["node"].percent
    assert wider is not None and wider.value < soft.value - 10
    with pytest.raises(TaskError, match="no claim is about numbers"):
        scrub_checkpoint("detect_abc", soft=0.1, **FEW)


def test_sources_that_a_head_attends_to_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    found = scrub_checkpoint("sum_last_two", **FEW).results[SOURCES]["node"].percent
    assert found is not None and found.value > 99

    def elsewhere(*given) -> dict[str, np.ndarray]:
        return {name: np.roll(table, 1, axis=1) for name, table in attended_sources(*given).items()}

    monkeypatch.setattr("interpbench.runs.scrub.attended_sources", elsewhere)
    wrong = scrub_checkpoint("sum_last_two", **FEW).results[SOURCES]["node"].percent
    assert wrong is not None and wrong.value < 50


def test_donors_make_claims_say_more() -> None:
    before, after = (scrub_checkpoint("hist", donors=donors, **FEW) for donors in (False, True))
    assert after.inputs > before.inputs
    for name in ("a0.h0", "m0"):
        assert after.claims[name].alone < 0.7 * before.claims[name].alone
    kept = after.results["features"]["node"].percent
    assert kept is not None and kept.value > 99
    with pytest.raises(TaskError, match="the inputs of docstring cannot be changed token by token"):
        scrub_checkpoint("docstring", donors=True, **FEW)


def test_the_size_of_pools_is_said(tmp_path: Path, caplog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interpbench.scrubbing.hypothesis.MOST_PATHS", 3)
    convert_file("truth", tmp_path / "truth.json", "hist")
    page = tmp_path / "page.html"
    settings = ["--inputs", "64", "--samples", "50", "--refine", "--page", str(page)]
    with caplog.at_level("INFO", "interpbench"):
        run_subcommand(["scrub", "hist", "--circuit", str(tmp_path / "truth.json"), *settings])
    assert "7 paths draw from pools of K = 128 scrubbed values of each input" in caplog.text
    assert "no refinement was tried" in caplog.text
    assert "No hypothesis was run path by path" in page.read_text()


def test_certificates_say_what_is_recovered_with_its_sampling(caplog) -> None:
    """S8: the sampling, the loss and the best constant stand beside the percentage."""
    with caplog.at_level("INFO", "interpbench"):
        assert run_subcommand(["certify", "equals_two_back", "--quick", "--grade", "behaviour"]) == 0
    (said,) = [line for line in caplog.messages if line.startswith("scrubbed:")]
    number = r"\d+\.\d( \[\d+\.\d, \d+\.\d\])?"
    loss = r"loss [\d.e-]+"
    levels = rf"{number} % \(features, node; {loss}\) and {number} % \(positions, node; {loss}\)"
    assert re.fullmatch(
        rf"scrubbed: recovers {levels} of the loss; the best constant has a loss of [\d.e-]+", said
    )


def test_the_same_seed_gives_the_same_numbers() -> None:
    first, second = (scrub_checkpoint("hist", seed=3, **FEW) for _ in range(2))
    assert first.results == second.results
    assert scrub_checkpoint("hist", seed=4, **FEW).results != first.results


def test_inputs_have_an_answer() -> None:
    task = get_task("frac_prevs")
    assert len(inputs_of(task, 64, 0)) == 64 and len(inputs_of(task, 10**6, 0)) == task.domain.size
    with pytest.raises(TaskError, match="fewer than two of"):
        inputs_of(task, 1, 0)


def test_a_record_of_another_network_is_refused(tmp_path: Path, caplog) -> None:
    checkpoint = load_checkpoint(find_checkpoint("hist"), certificate=False)
    graph, weights = checkpoint.network.cfg.graph, checkpoint.record.sha256
    scores = Scores(graph, np.where(graph.legal, 1.0, np.nan))
    levels = compare(subject_of(checkpoint).truth, scores)
    record = EvaluationRecord(*("hist", weights, "eap", {}, 0, False, levels, None, 1.0, edge_scores(scores)))
    file = tmp_path / "eap.json"
    for other, name, said in (
        (record, "frac_prevs", "is an evaluation on task hist, and the network is of frac_prevs"),
        (replace(record, checkpoint="0" * 64), "hist", "is of a network of hist with other weights than"),
    ):
        file.write_text(json.dumps(other.to_json()))
        with pytest.raises(ScoresError, match=said):
            scrub_checkpoint(name, circuit=file, **FEW)
    file.write_text(json.dumps(record.to_json()))
    scrub_checkpoint("hist", circuit=file, **FEW)
    assert not caplog.text, "it says of which network it is"
    convert_file("truth", file, "hist")
    scrub_checkpoint("hist", circuit=file, **FEW)
    assert "does not say of which network it is" in caplog.text


def test_a_damaged_circuit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "wrong.csv").write_text("edge,score\nembed->a9.h0<q>,1\n")
    with pytest.raises(InterpBenchError, match="a9"):
        scrub_checkpoint("hist", circuit=tmp_path / "wrong.csv", **FEW)
