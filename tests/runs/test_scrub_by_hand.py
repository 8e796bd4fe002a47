"""`interpbench scrub --hypothesis` and `--refine`: claims in a file, and what they have left out."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from interpbench.circuits.graph import Graph
from interpbench.core.errors import ConfigError, InterpBenchError, TaskError
from interpbench.runs.cli import run_subcommand
from interpbench.runs.scrub import scrub_checkpoint
from interpbench.scrubbing.by_hand import circuit_hypothesis
from interpbench.scrubbing.residual import network_parents
from tests import ROOT

FEW = {"inputs": 256, "samples": 200}


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
