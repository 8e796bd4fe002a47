"""Tables, pictures and reports of a small synthetic evaluation."""

import re
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread
from rich.console import Console
from rich.table import Table

from interpbench.alignment.alignment import align
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.circuits.certificate import Certificate
from interpbench.circuits.grades import Standard
from interpbench.circuits.graph import Graph
from interpbench.circuits.ground_truth import State, Truth
from interpbench.circuits.naming import EMBED, SLOTS, Edge, Node, Reader
from interpbench.core.estimate import Estimate
from interpbench.reports.certificates import certificate_table
from interpbench.reports.drawing import _legend, _summary, draw_circuit, found_edges
from interpbench.reports.labels import NOTHING, method_labels, share, task_labels
from interpbench.reports.layout import HEIGHT, TIP, WIDTH, Layout, Wire
from interpbench.reports.plots import roc_figure
from interpbench.reports.report import write_report
from interpbench.reports.tables import circuit_lines, order_rows, records_table, rows_table, sweep_facts
from interpbench.scoring.leaderboard_rows import row
from interpbench.tasks.catalogue import get_task
from tests.evaluation_records import GRAPH, PERFECT, REQUIRED, TIED, TRUTH, record, scores
from tests.made_up_certificates import proof_of


def certificate(**faults: Any) -> Certificate:
    alignment = {"tokens": "embed", "before": "a0.h0", "is_x": "m0", "share": "a1.h1"}
    return Certificate.from_json(proof_of(TRUTH, alignment, **faults))


def text(table: Table, width: int = 120) -> str:
    console = Console(width=width, file=StringIO())
    with console.capture() as shown:
        console.print(table)
    return shown.get()


def test_records_table_holds_numbers_means_and_dashes() -> None:
    other = replace(TIED, task="reverse")
    empty = replace(TIED.levels["node"], metrics={})
    shown = text(
        records_table([PERFECT, TIED, other, replace(PERFECT, levels={**PERFECT.levels, "node": empty})])
    )
    assert "1.000 / 1.000" in shown and "0.500 / " in shown
    assert "1,234" in shown and "1.50" in shown and NOTHING in shown
    assert "mean of 2" in shown and "mean of 1" in shown
    assert "mean of" not in text(records_table([PERFECT, TIED]))
    assert max(map(len, shown.splitlines())) <= 120


def test_what_matters_only_with_others_has_a_table_of_its_own(tmp_path: Path) -> None:
    """Where copies vote, AUROC says 1.000 of who loses a third of the voters."""
    assert order_rows([PERFECT, TIED]) == []
    levels = dict(PERFECT.levels)
    level = levels[PERFECT.headline_level]
    told = {
        "auroc_all_orders": Estimate(0.987),
        "recall_order_0": Estimate(1),
        "recall_order_1": Estimate(0.667),
    }
    levels[PERFECT.headline_level] = replace(level, metrics={**level.metrics, **told})
    rows = order_rows([TIED, replace(PERFECT, levels=levels)])
    assert [list(row.values())[2:] for row in rows] == [["0.987", "1.000", "0.667"]]
    page = write_report(tmp_path, [TIED, replace(PERFECT, levels=levels)], {}, {}).read_text()
    assert "| AUROC of all orders | found of order 0 | found of order 1 |" in page and "| 0.667 |" in page
    assert "all orders" not in write_report(tmp_path, [TIED], {}, {}).read_text()


def test_seconds_are_cpu_seconds_everywhere(tmp_path: Path) -> None:
    """Of a record that was made before they were measured, the wall-clock time stands in."""
    assert PERFECT.cost is not None and PERFECT.cpu_seconds == PERFECT.seconds == 1.5
    both = replace(PERFECT, cost=replace(PERFECT.cost, cpu_seconds=7.25))
    assert both.cpu_seconds == row(both).cost.seconds == 7.25
    assert replace(PERFECT, cost=None).cpu_seconds is None
    table = text(records_table([both, replace(both, task="reverse")]))
    assert "CPU" in table and "7.25" in table and "1.50" not in table
    page = write_report(tmp_path, [both], {}, {}).read_text()
    assert "CPU seconds" in page and "7.25" in page and "1.50" not in page


def test_a_sweep_s_table_says_scores() -> None:
    levels = ("nodes", "head edges", "q/k/v edges")
    assert sweep_facts([PERFECT]) == {
        **{f"AUROC / AP, {level}": "1.000 / 1.000" for level in levels},
        "CPU seconds": "1.50",
    }
    both = sweep_facts([PERFECT, replace(TIED, task="reverse")])
    assert both["AUROC / AP, nodes"].startswith("0.750 / ") and both["CPU seconds"] == "1.50"
    assert sweep_facts([]) == {}


def test_the_legend_has_free_where_the_truth_has() -> None:
    ioi = Truth.from_json(
        Graph(1, 1),
        {
            "node": {"required": ["embed", "a0.h0"], "allowed": []},
            "head_edge": {"required": ["embed->a0.h0", "a0.h0->logits"], "allowed": []},
            "qkv_edge": {
                "required": ["a0.h0->logits"],
                "allowed": [],
                "free": [f"embed->a0.h0<{slot}>" for slot in SLOTS],
            },
        },
    )
    assert all("free" in _legend(ioi, found) for found in (False, True))
    assert not any("free" in _legend(TRUTH, found) for found in (False, True))


def test_labels_tell_apart_what_differs() -> None:
    values = np.zeros_like(REQUIRED)
    records = [
        record("hist", "acdc", values, metric="kl", steps=5),
        record("hist", "acdc", values, metric="logit", steps=5),
        record("hist", "random", values, seed=0),
        record("hist", "random", values, seed=1),
        replace(record("hist", "eap", values), structural=True),
    ]
    assert method_labels(records) == [
        "acdc metric=kl",
        "acdc metric=logit",
        "random seed=0",
        "random seed=1",
        "eap structural",
    ]
    assert method_labels(records, seeds=False)[2:4] == ["random", "random"]
    several = [record("frac_prevs", "eap", values), record("hist", "eap", values)]
    several.append(replace(several[1], checkpoint="0f" * 32))
    assert task_labels(several) == ["frac_prevs", f"hist {several[1].checkpoint[:6]}", "hist 0f0f0f"]


def test_rates_are_rounded_down() -> None:
    assert [share(value) for value in (1.0, 0.999999, 0.5)] == ["1", "0.9999", "0.5000"]


def flat(shown: str) -> str:
    """Returns a table's text without its lines, and without line breaks."""
    return re.sub(r"[\s│]+", " ", shown)


@pytest.mark.parametrize("all_pairs", [True, False])
def test_certificate_table_names_what_is_wrong(all_pairs: bool) -> None:
    faults = {"nodes": {"m1": 70}, "edges": {"embed->a0.h0<q>": 7}, "node_sets": {"subsets": 9}}
    bad = certificate(wrong=faults, attacks={"edges": 99}, all_pairs=all_pairs)
    shown = {"good": text(certificate_table(certificate(all_pairs=all_pairs)), 100)}
    shown["bad"] = text(certificate_table(bad), 100)
    assert max(len(line) for text in shown.values() for line in text.splitlines()) <= 100
    good, bad = (flat(shown[name]) for name in ("good", "bad"))
    assert good.startswith(
        f"adversarial, positions{', all pairs, sets' if all_pairs else ''} ≥ 99.9%; asked for"
    )
    assert "swap of m0 = is_x" in good and "each of 3 forbidden nodes alone" in good and "Not " not in good
    assert bad.startswith("iit, positions")
    assert f"forbidden node m1 {'70 / 65,536' if all_pairs else '0 / 8,192'}" in bad
    assert "forbidden node m1" in bad and "inert edge embed->a0.h0<q>" in bad and "node a0.h1" not in bad
    assert (
        "Worst set of inert edges found (greedy, 100 tried on 9,999 rows): 3 of them, 0 of 4,096 draws wrong"
        in bad
    )
    assert "99 of 4,096 draws from strata wrong, at least 0.9" in bad
    assert "Vacuous, since no swap changes an answer: a0.h0." in bad and "Not siit: forb" in bad
    assert "Weakest of 5 required nodes and edges: m0, which changes 25% of the answers" in bad
    assert (
        re.search(r"at most [\d.e-]+ of all \(edge, row\) were missed, and of any one edge at most", bad)
        and "Largest error: 0.020." in bad
    )
    assert ("all pairs or draws" in good) == all_pairs and "its strata" in good


def test_a_certificate_says_what_training_saw_and_what_was_not_measured() -> None:
    drawn = certificate(trained_on_all=False, held_out={"bases": 1.0, "sources": 0.75006}, attempts=2)
    shown = flat(text(certificate_table(drawn), 100))
    assert "Training could not draw 100% of the bases, and 75% of the sources." in shown
    assert "2 certificates were tried before" in shown and "2 strata: one token, ties." in shown
    few = flat(
        text(certificate_table(certificate(upto="iit", screen=None, vacuous={"effective": ["a0.h0"]})), 100)
    )
    assert few.startswith("iit, positions ≥") and "Training may draw every input." in few
    assert (
        "forbidden node: not measured" in few
        and "Not siit: node sets: not measured; nodes: not measured" in few
    )
    assert "No attack on inert edges was made." in few
    strict = Standard(target=0.9999, worst=1, positions=True)
    asked = flat(text(certificate_table(certificate(), strict), 100))
    assert asked.startswith(
        "not even behaviour; asked for: 99.99% at 95% confidence, of the worst sets 100%, also at one"
    )


def test_tasks_table_takes_any_rows() -> None:
    shown = text(rows_table([{"name": "x[/red]", "layers": 2}, {"name": "y", "legacy_id": None}]))
    assert "x[/red]" in shown and "legacy id" in shown and NOTHING in shown


def test_circuit_in_plain_text() -> None:
    task = get_task("frac_prevs")
    alignment = align(task, Graph(2, 4))
    lines = circuit_lines(find_truth(alignment), alignment)
    assert lines[0] == "embed = tokens, indices" and lines[-1] == "logits <- a1.h2"
    assert "        q   <- (embed)" in lines and "        v   <- m0" in lines
    assert any("outside the circuit: a1.h0 a1.h1 a1.h3 m1" in line for line in lines)


def test_found_edges_are_as_many_as_required() -> None:
    assert (found_edges(TRUTH, scores(REQUIRED)) == REQUIRED).all()
    allowed_first = REQUIRED + 2 * (TRUTH.qkv_edges == State.ALLOWED)
    found = found_edges(TRUTH, scores(allowed_first))
    assert found[REQUIRED].all() and found.sum() == REQUIRED.sum() + 1
    assert found_edges(TRUTH, scores(np.zeros_like(REQUIRED))).sum() in (3, 4)
    nothing = replace(TRUTH, qkv_edges=np.where(GRAPH.legal, 0, -1))
    assert not found_edges(nothing, scores(REQUIRED)).any()


def test_free_edges_of_one_head_edge_take_one_place() -> None:
    """The three inputs that one edge may go into, and one required edge: two places."""
    states = np.where(TRUTH.graph.legal, State.FORBIDDEN, State.ILLEGAL).astype(np.int8)
    graph = TRUTH.graph
    inputs = [graph.reader_index[Reader(1, slot, 0)] for slot in SLOTS]
    states[inputs, 0] = State.FREE
    states[-1, -1] = State.REQUIRED
    truth = replace(TRUTH, qkv_edges=states)
    values = np.zeros(states.shape)
    values[inputs[:2], 0] = 3, 2
    values[-1, -1] = 1
    found = found_edges(truth, scores(values))
    assert np.argwhere(found).tolist() == [
        [inputs[0], 0],
        [inputs[1], 0],
        [len(states) - 1, states.shape[1] - 1],
    ]
    assert _summary(truth, scores(values), found) == "2 of 2 required edges among the top 2"
    values[-1, -1], values[0, 0] = 0, 4
    assert _summary(truth, scores(values), found_edges(truth, scores(values))).startswith("1 of 2")


def test_every_wire_goes_from_its_source_to_its_reader_around_the_boxes() -> None:
    graph = Graph(3, 4)
    layout = Layout(graph)
    wires = [Wire(edge, "required") for edge in graph.edges]
    routes = layout.route(wires)
    times = np.linspace(0, 1, 40)[:, None]
    weights = np.concatenate(
        [(1 - times) ** 3, 3 * times * (1 - times) ** 2, 3 * times**2 * (1 - times), times**3], 1
    )
    for wire in wires:
        curves = np.array(routes[wire])
        points = np.concatenate(weights @ curves)
        assert np.allclose(curves[0, 0], layout.exit(wire.edge.source))
        x, y = layout.entrance(wire.edge.target)
        assert np.isclose(curves[-1, 3, 1], y - TIP) and abs(curves[-1, 3, 0] - x) < WIDTH / 2
        for box in [*layout.nodes.values(), layout.logits]:
            inside = (np.abs(points - box) < np.array([WIDTH, HEIGHT]) / 2 - 1e-6).all(1)
            assert not inside.any(), f"{wire.edge} runs through the box at {box}"
    assert routes == layout.route(wires)


def test_boxes_do_not_overlap() -> None:
    layout = Layout(Graph(6, 4))
    boxes = np.array([*layout.nodes.values(), layout.logits])
    apart = np.abs(boxes[:, None] - boxes[None]) >= np.array([WIDTH, HEIGHT])
    assert (apart.any(-1) | np.eye(len(boxes), dtype=bool)).all()
    assert layout.entrance(Reader(0, "q", 1)) < layout.entrance(Reader(0, "k", 1))
    assert Wire(Edge(EMBED, Reader(0, "mlp")), "x") not in layout.route([])


def test_pictures_are_written_and_repeat_exactly(tmp_path: Path) -> None:
    first, again, alone, roc = (
        tmp_path / "deep" / f"{name}.png" for name in ("first", "again", "alone", "roc")
    )
    for path in (first, again):
        draw_circuit(
            TRUTH, path, {Node(0): ("is_x", "b", "c")}, {"acdc": scores(-REQUIRED.astype(float))}, "a title"
        )
    draw_circuit(TRUTH, alone)
    assert first.read_bytes() == again.read_bytes()
    assert imread(first).shape[1] == 2 * imread(alone).shape[1]
    roc_figure([PERFECT, TIED, replace(TIED, levels={})], roc)
    assert imread(roc).std() > 0


def test_report_links_pictures_and_says_what_is_certified(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    picture = tmp_path / "my pictures" / "roc.png"
    path = write_report(
        folder,
        [PERFECT, TIED],
        {"hist": certificate(all_pairs=True), "reverse": certificate(wrong={"nodes": {"m1": 70}})},
        {"hist": [picture]},
    )
    report = path.read_text()
    assert path == folder / "report.md"
    assert "| hist | exact | 1.000 / 1.000 |" in report
    assert "![hist: roc](../my%20pictures/roc.png)" in report
    assert "**adversarial, positions, all pairs, sets ≥ 99.9%**; asked for: 99.9%" in report
    assert "No row came out wrong" in report and "**iit, positions ≥ 99.9%**" in report
    assert "Rows that came out wrong: 70 of 8,192 with forbidden node m1. Not *siit*: `forbidden" in report


@pytest.mark.parametrize(("width", "costs"), [(80, []), (90, ["CPU"]), (120, ["CPU", "forward", "backward"])])
def test_a_narrow_table_says_less_but_names_tasks_and_methods(width: int, costs: list[str]) -> None:
    console = Console(width=width, file=StringIO(), record=True)
    console.print(records_table([replace(PERFECT, task="reverse"), TIED], width))
    said = console.export_text()
    assert all(name in said for name in ("reverse", "hist", PERFECT.method, TIED.method, "q/k/v edges"))
    assert [name for name in ("CPU", "forward", "backward") if f" {name} " in said] == costs
