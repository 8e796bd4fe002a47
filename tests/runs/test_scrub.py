"""`interpbench scrub`: certified and compiled networks keep their loss, and wrong hypotheses lose it."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

import interpbench
from interpbench.alignment.alignment import align
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.checkpoints.find import find_checkpoint
from interpbench.checkpoints.load import load_checkpoint, load_pairs
from interpbench.circuits.graph import Graph
from interpbench.circuits.ordered_scores import edge_scores
from interpbench.circuits.scores import Scores
from interpbench.core.errors import ConfigError, InterpBenchError, ScoresError, TaskError
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
from interpbench.scrubbing.by_hand import circuit_hypothesis
from interpbench.scrubbing.classes import Classes
from interpbench.scrubbing.path_draws import PathDraws
from interpbench.scrubbing.program_claims import PROGRAM_LEVELS, attended_sources, structure_hypothesis
from interpbench.scrubbing.residual import ScrubbedNetwork, network_parents
from interpbench.tasks.catalogue import get_task
from tests import ROOT
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
    assert report.example is not None and not report.example.about
    assert set(report.claims) == set(report.single) == {"a1.h0", "a1.h1", "m1"} and not report.negative
    only = report.single["a1.h1"].percent
    assert only is not None and (only.value > 99) == (second == "closed"), "the claim that is wrong is known"


def test_the_hypothesis_of_the_readme(tmp_path: Path) -> None:
    text = (ROOT / "interpbench/scrubbing/README.md").read_text()
    (code,) = re.findall("```python\n(.*?)```", text, re.DOTALL)
    assert 15 <= len(code.splitlines()) <= 22, "twenty lines"
    (tmp_path / "shares.py").write_text(code)
    report = scrub_checkpoint("paren_balance", hypothesis=f"{tmp_path}/shares.py:shares", **FEW)
    percent = report.results["shares"]["node"].percent
    assert percent is not None and percent.value > 99
    assert all(one.alone < 0.9 for one in report.claims.values()) and len(report.claims) == 4


def by_hand(tmp_path: Path, name: str, edges: list[str], values: str) -> str:
    """Returns a hypothesis in a file, with `count` the numbers of tokens so far."""
    file = tmp_path / f"{name}.py"
    file.write_text(
        SHARES.partition("EDGES")[0]
        + f'@hypothesis("{name}")\ndef by_hand(tokens, variables):\n'
        + "    alone, count = np.arange(len(tokens)), np.arange(1, tokens.shape[1] + 1)\n"
        + f"    return circuit_hypothesis({edges}, {values})\n"
    )
    return f"{file}:{name}"


BALANCE = ["embed->m0", "m0->a1.h0<v>", "m0->a1.h1<v>", "a1.h0->m1", "a1.h1->m1", "m1->logits"]


def test_claims_on_which_no_two_inputs_agree_are_named(tmp_path: Path, caplog, capsys) -> None:
    """S17: a hypothesis that exchanges nothing recovers all, and is said to be vacuous."""
    values = "dict.fromkeys(('m0', 'a1.h0', 'a1.h1', 'm1'), alone)"
    written = by_hand(tmp_path, "numbers_of_inputs", BALANCE, values)
    with caplog.at_level("INFO", "interpbench"):
        run_subcommand(
            ["scrub", "paren_balance", "--hypothesis", written, "--inputs", "256", "--samples", "99"]
        )
    assert (
        "vacuous, as at least 90 % of the inputs agree with no other: m0 (100%), a1.h0 (100%)" in caplog.text
    )
    assert "inputs alone" in capsys.readouterr().out
    plain = by_hand(tmp_path, "without_values", BALANCE, "{}")
    assert not scrub_checkpoint("paren_balance", hypothesis=plain, **FEW).claims, "they say nothing of values"


def refined(tmp_path: Path, *arguments: str) -> list[dict]:
    """Returns the refinements of `paren_balance` that the command writes."""
    out = tmp_path / "report.json"
    settings = ["--inputs", "256", "--samples", "200", "--refine", "--json", str(out)]
    assert run_subcommand(["scrub", "paren_balance", *arguments, *settings]) == 0
    return json.loads(out.read_text())["refinements"]


def test_a_refinement_names_the_feature_that_a_hypothesis_left_out(tmp_path: Path, capsys) -> None:
    file = tmp_path / "shares.py"
    file.write_text(SHARES.replace("NAME", "left_out").replace("SECOND", "opened").replace("FIRST", "0"))
    found = refined(tmp_path, "--hypothesis", f"{file}:left_out")
    assert (found[0]["kind"], found[0]["claim"]) == ("feature", "a1.h1") and len(found) > 10
    assert found[0]["change"][0] > 5 and found[0]["change"][1] > 0, "an interval without 0"
    assert "change of % (node)" in capsys.readouterr().out
    right = scrub_checkpoint("hist", refine=True, **FEW)
    assert right.refinements and all(abs(one.change.value) < 0.1 for one in right.refinements)


def test_a_refinement_names_the_node_that_a_hypothesis_left_out(tmp_path: Path) -> None:
    """S16: the head that counts what closes has no claim; of all features, what closes tells most of it."""
    edges = [edge for edge in BALANCE if "a1.h1" not in edge]
    values = "{'a1.h0': (tokens == 0).cumsum(1) / count, 'm1': variables['balance']}"
    found = refined(tmp_path, "--hypothesis", by_hand(tmp_path, "half", edges, values))
    largest = [one for one in found if one["change"][0] > 0.9 * found[0]["change"][0]]
    assert all((one["kind"], one["claim"]) == ("node", "a1.h1") for one in largest)
    alone = {one["feature"]: one["alone"] for one in largest}
    assert alone["all of the input"] == 1 and alone["is_close"] < 0.5
    assert found[0]["change"][0] > 20


@pytest.mark.parametrize(("lost", "first"), [("m0->a1.h1<v>", "a1.h1<v>"), ("a1.h1->m1", "a1.h1")])
def test_a_refinement_names_what_a_circuit_lacks(tmp_path: Path, lost: str, first: str) -> None:
    circuit = tmp_path / "circuit.csv"
    circuit.write_text("edge\n" + "".join(f"{edge}\n" for edge in BALANCE if edge != lost))
    found = refined(tmp_path, "--circuit", str(circuit))
    assert (found[0]["kind"], found[0]["claim"]) == ("node", first) and found[0]["change"][0] > 20


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
    assert report.example is not None
    said = [one.agrees for one in report.example.inputs]
    assert {"True", "False", "1", "0"} & set(said) and any(value.startswith("-") for value in said)


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


class Nesting(HTMLParser):
    """Notes elements that are closed in another order than opened, or that are where they may not be."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        above = self.open[-1] if self.open else ""
        if (tag == "li") != (above == "ul") or (tag == "tr") != (above == "table"):
            self.wrong.append(f"{above} {tag}")
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"/{tag}")


def page_of(tmp_path: Path, *arguments: str) -> str:
    page = tmp_path / "page.html"
    assert run_subcommand(["scrub", "detect_abc", "--samples", "50", "--page", str(page), *arguments]) == 0
    return page.read_text()


def test_the_page_has_the_hypothesis_and_the_inputs_of_every_path(tmp_path: Path) -> None:
    text = page_of(tmp_path)
    report = scrub_checkpoint("detect_abc", samples=50)
    assert report.example is not None
    assert len(report.example.inputs) == report.paths["features"] == text.count("<code")
    assert all(f"<b>{name}</b>" in text for name in ("logits", "m2", "a1.h0&lt;v&gt;"))
    assert "script" not in text and "http:" not in text, "it loads nothing"
    nesting = Nesting()
    nesting.feed(text)
    assert not nesting.wrong and nesting.open == []
    network, paths = (ElementTree.fromstring(svg) for svg in re.findall("<svg.*?</svg>", text))
    boxes = network.findall("g")
    claimed = {box.findtext("text") for box in boxes if box.get("class") == "box claimed"}
    assert claimed == {"embed", "m0", "m1", "a1.h0", "a1.h1", "m2", "logits"}
    graph = Graph(report.example.layers, report.example.heads)
    assert len(boxes) == len(graph.nodes) + 1, "nodes without a claim are there, too"
    wires = [wire.findtext("title") for wire in network.findall("path")]
    assert set(wires) == {f"{a}->{b}" for a, b in report.example.edges if "<" not in a}
    shown = paths.findall("g")
    assert len(shown) == len(report.example.inputs)
    heights: dict[str | None, float] = {}
    for box in shown:
        (rectangle,) = box.findall("rect")
        heights[box.findtext("text")] = float(rectangle.get("y", ""))
    order = ["logits", "m2", "m1", "a1.h0", "a1.h0<v>", "m0", "embed"]
    assert sorted(order, key=lambda name: heights[name]) == order


def test_the_page_has_the_recovered_share_of_each_claim_with_its_interval(tmp_path: Path) -> None:
    rows = re.findall("<tr><td>(.*?)</td><td>(.*?)</td><td>(.*?)</td><td>(.*?)</td>", page_of(tmp_path))
    (others,) = [others for name, others, bar, _ in rows if name == "m2" and 'class="bar"' in bar]
    assert re.fullmatch(r"-?\d+\.\d \[-?\d+\.\d, -?\d+\.\d\]", others)


def test_the_sample_with_most_changes_is_shown_or_one_that_is_asked_for(tmp_path: Path) -> None:
    def changes(number: int | None) -> int:
        example = scrub_checkpoint("hist", sample=number, inputs=300, samples=20).example
        assert example is not None and number in (None, example.number)
        above = {one.path: one.tokens for one in example.inputs}
        for one in example.inputs[1:]:
            assert one.changed == (one.tokens != above[one.path.rpartition("/")[0]])
        return sum(one.changed for one in example.inputs)

    assert changes(None) == max(changes(number) for number in range(1, 21)) > 0
    assert ">Sample 7, path by path<" in page_of(tmp_path, "--sample", "7")


def test_unimportant_parents_have_the_inputs_of_their_draw() -> None:
    example = scrub_checkpoint("detect_abc", samples=50, inputs=128).example
    assert example is not None
    for one in example.inputs:
        assert bool(one.rest) == bool(example.unimportant.get(one.image))
    assert "a0.h0" in example.unimportant["m0"] and "embed" not in example.unimportant["m0"]
    assert len({one.rest for one in example.inputs}) > 3, "each node has a draw of its own"


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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["hist", "--samples", "1"], "--samples 1 is not a number from 2"),
        (["hist", "--inputs", "0"], "--inputs 0 is not a number from 2"),
        (["hist", "--inputs", "60000"], "--inputs 60000 is not a number from 2 to 50,000"),
        (["hist", "--soft", "0.1", "--inputs", "5000"], "--soft takes up to 4,096 inputs, not 5,000"),
        (["hist", "--soft", "nan"], "--soft nan is no width"),
        (["hist", "--samples", "9", "--sample", "10"], "--sample 10 is none of the samples 1 to 9"),
        (["hist", "--circuit", "nothing.json"], "there is no file nothing.json"),
    ],
)
def test_wrong_calls(arguments: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        run_subcommand(["scrub", *arguments])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"samples": 0}, "--samples 0 is not a number from 2"),
        ({"samples": 2.5}, "--samples 2.5 is not a number from 2"),
        ({"samples": 1}, "--samples 1 is not a number from 2"),
        ({"samples": True}, "--samples True is not a number from 2"),
        ({"inputs": 10**7}, "--inputs 10000000 is not a number from 2 to 50,000"),
        ({"seed": "x"}, "--seed x is not a whole number"),
        ({"soft": -1}, "--soft -1 is no width"),
        ({"sample": 0}, "--sample 0 is none of the samples"),
        ({"circuit": "a.json", "soft": 0.1}, "--soft is about the values of claims"),
        ({"circuit": "a.json", "hypothesis": "a.py:b"}, "say one of them"),
    ],
)
def test_wrong_numbers_are_refused_in_python_too(settings: dict, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        interpbench.scrub("hist", **settings)


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


def test_why_a_percentage_is_not_defined_is_said(caplog) -> None:
    """S7: two inputs with the same answer, so that outputs on the other input are as good."""
    settings = ["--inputs", "2", "--samples", "2", "--seed", "4"]
    with caplog.at_level("INFO", "interpbench"):
        assert run_subcommand(["scrub", "equals_mirror", *settings]) == 0
    (said,) = [line for line in caplog.messages if "not defined" in line]
    assert said.startswith("% recovered is not defined for merged (node), merged (edge)")
    assert said.endswith("the network's loss is that of its outputs on other inputs")
    with pytest.raises(TaskError, match="nothing can be refined: the network's loss"):
        scrub_checkpoint("equals_mirror", inputs=2, samples=2, seed=4, refine=True)


def test_a_damaged_circuit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "wrong.csv").write_text("edge,score\nembed->a9.h0<q>,1\n")
    with pytest.raises(InterpBenchError, match="a9"):
        scrub_checkpoint("hist", circuit=tmp_path / "wrong.csv", **FEW)
