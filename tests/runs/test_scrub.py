"""`interpbench scrub`: certified and compiled networks keep their loss, and wrong hypotheses lose it."""

import json
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
from interpbench.circuits.graph import Graph
from interpbench.core.errors import ConfigError, InterpBenchError, TaskError
from interpbench.rasp.compile import compile_program
from interpbench.rasp.weights import compiled_network
from interpbench.runs.cli import run_subcommand
from interpbench.runs.score import convert_file
from interpbench.runs.scrub import BY_POSITION, SAMPLINGS, SOURCES, inputs_of, scrub_checkpoint, scrub_program
from interpbench.runs.scrub_circuit import percent_recovered, scrubbed_circuit
from interpbench.runs.subject import subject_of
from interpbench.scoring.behaviour import Behaviour
from interpbench.scrubbing.by_hand import circuit_hypothesis
from interpbench.scrubbing.classes import Classes
from interpbench.scrubbing.path_draws import PathDraws
from interpbench.scrubbing.program_claims import PROGRAM_LEVELS, attended_sources, structure_hypothesis
from interpbench.scrubbing.residual import ScrubbedNetwork, network_parents
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


SHARES = """
import numpy as np
from interpbench.scrubbing.by_hand import circuit_hypothesis, hypothesis

EDGES = ["embed->m0", "m0->a1.h0<v>", "m0->a1.h1<v>", "a1.h0->m1", "a1.h1->m1", "m1->logits"]

@hypothesis("NAME")
def shares(tokens, variables):
    count = np.arange(1, tokens.shape[1] + 1)
    opened, closed = ((tokens == code).cumsum(1) / count for code in (0, 1))
    assert np.allclose(opened - closed, variables["balance"])
    return circuit_hypothesis(EDGES[FIRST:], {"a1.h0": opened, "a1.h1": SECOND, "m1": opened - closed})
"""


@pytest.mark.parametrize(("second", "least", "most"), [("closed", 99, 101), ("opened", -50, 95)])
def test_a_hypothesis_by_hand(tmp_path: Path, second: str, least: float, most: float) -> None:
    file = tmp_path / "shares.py"
    file.write_text(SHARES.replace("NAME", f"by_{second}").replace("SECOND", second).replace("FIRST", "0"))
    report = scrub_checkpoint("paren_balance", hypothesis=f"{file}:by_{second}", **FEW)
    (results,) = report.results.values()
    percent = results["node"].percent
    assert percent is not None and least < percent.value < most
    assert report.example and not report.claims


def test_a_refinement_names_the_feature_that_a_hypothesis_left_out(tmp_path: Path) -> None:
    file = tmp_path / "shares.py"
    file.write_text(SHARES.replace("NAME", "left_out").replace("SECOND", "opened").replace("FIRST", "0"))
    out = tmp_path / "report.json"
    settings = ["--inputs", "256", "--samples", "200", "--refine", "--json", str(out)]
    run_subcommand(["scrub", "paren_balance", "--hypothesis", f"{file}:left_out", *settings])
    said = json.loads(out.read_text())
    first = said["refinements"][0]
    assert first["claim"] == "a1.h1" and first["difference"] > 5 and len(said["refinements"]) > 10
    right = scrub_checkpoint("hist", refine=True, **FEW)
    assert right.refinements and all(abs(one.difference) < 0.1 for one in right.refinements)


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


def test_values_by_hand_may_be_one_for_each_input(tmp_path: Path) -> None:
    """A number, a truth value or a word; negative numbers are shown as they are."""
    file = tmp_path / "plain.py"
    file.write_text(
        SHARES.partition("EDGES")[0]
        + '@hypothesis("plain")\ndef plain(tokens, variables):\n'
        + '    values = {"m0": -1.5 * tokens[:, 0], "m1": tokens[:, 0] == 0}\n'
        + '    return circuit_hypothesis(["embed->m0", "m0->m1", "m1->logits"], values)\n'
    )
    report = scrub_checkpoint("paren_balance", hypothesis=f"{file}:plain", **FEW)
    assert any(one.agrees in ("True", "False", "1", "0") for one in report.example)
    assert any(one.agrees.startswith("-") for one in report.example)


def test_wrong_hypotheses_by_hand(tmp_path: Path) -> None:
    file = tmp_path / "wrong.py"
    file.write_text(
        SHARES.replace("NAME", "wrong").replace("SECOND", "closed").replace('"a1.h1->m1"', '"a1.h1"')
    )
    with pytest.raises(InterpBenchError, match="FIRST"):
        scrub_checkpoint("paren_balance", hypothesis=f"{file}:wrong", **FEW)
    with pytest.raises(TaskError, match="'shares' names no file"):
        scrub_checkpoint("paren_balance", hypothesis="shares")
    with pytest.raises(ConfigError, match="say one of them"):
        run_subcommand(["scrub", "hist", "--hypothesis", "a.py:b", "--circuit", str(file)])
    for edges, values, said in (
        (["m0"], {}, "'m0' is no edge"),
        (["m0->logits"], {"m1": np.zeros(3)}, "values of m1, which has no edge"),
    ):
        with pytest.raises(TaskError, match=said):
            circuit_hypothesis(edges, values)
    strange = circuit_hypothesis(["embed->m0", "m0->a0.h0", "a0.h0->logits"], {})
    with pytest.raises(TaskError, match=r"a0\.h0 does not read m0"):
        strange.check(network_parents(Graph(2, 2), False), "embed", "logits")


def test_the_page_has_the_inputs_of_every_path(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert run_subcommand(["scrub", "detect_abc", "--samples", "50", "--page", str(page)]) == 0
    text = page.read_text()
    report = scrub_checkpoint("detect_abc", samples=50)
    assert len(report.example) == report.paths["features"] == text.count("<code>")
    assert all(f"<b>{name}</b>" in text for name in ("logits", "m2", "a1.h0&lt;v&gt;"))
    assert "script" not in text and "http:" not in text, "it loads nothing"


def test_the_same_seed_gives_the_same_numbers() -> None:
    first, second = (scrub_checkpoint("hist", seed=3, **FEW) for _ in range(2))
    assert first.results == second.results
    assert scrub_checkpoint("hist", seed=4, **FEW).results != first.results


def test_inputs_have_an_answer() -> None:
    task = get_task("frac_prevs")
    assert len(inputs_of(task, 64, 0)) == 64 and len(inputs_of(task, 10**6, 0)) == task.domain.size
    with pytest.raises(TaskError, match="fewer than two of"):
        inputs_of(task, 1, 0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["hist", "--samples", "1"], "--samples 1 is not a number from 2"),
        (["hist", "--inputs", "0"], "--inputs 0 is not a number from 2"),
        (["hist", "--circuit", "nothing.json"], "there is no file nothing.json"),
    ],
)
def test_wrong_calls(arguments: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        run_subcommand(["scrub", *arguments])


def test_a_damaged_circuit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "wrong.csv").write_text("edge,score\nembed->a9.h0<q>,1\n")
    with pytest.raises(InterpBenchError, match="a9"):
        scrub_checkpoint("hist", circuit=tmp_path / "wrong.csv", **FEW)
