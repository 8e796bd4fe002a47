"""The HTML page stands alone, stays small, and does in a browser what it says."""

import json
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from interpbench.circuits.graph import Graph
from interpbench.circuits.ground_truth import LEVELS, State, Truth
from interpbench.circuits.naming import Node
from interpbench.circuits.ordered_scores import OrderedScores, edge_scores, node_scores
from interpbench.circuits.scores import Scores
from interpbench.core.errors import CheckpointError, InterpBenchError
from interpbench.core.estimate import Estimate
from interpbench.core.files import write_json
from interpbench.reports.page import Network, write_page
from interpbench.runs.evaluations_page import PAGE, write_folder_page
from interpbench.runs.result_files import read_results
from interpbench.scoring.circuits_from_scores import SIZES
from interpbench.scoring.curves import compare
from interpbench.scoring.evaluation_record import EvaluationRecord
from interpbench.scoring.results import CircuitBehaviour, Faithfulness, RunCost
from interpbench.tasks.task_records import records
from tests.browser import SIZE, Browser, chromium, executable

SMALL = Graph(2, 2)
PLANTED = {
    "node": {"required": ["embed", "m0", "a1.h1"], "allowed": ["a0.h0"]},
    "head_edge": {"required": ["embed->m0", "m0->a1.h1", "a1.h1->logits"], "allowed": ["embed->a0.h0"]},
    "qkv_edge": {
        "required": ["embed->m0", "m0->a1.h1<v>", "a1.h1->logits"],
        "allowed": ["embed->a0.h0<q>"],
    },
}
NETWORKS = {
    "a": Network("planted </script><b>", Truth.from_json(SMALL, PLANTED), {Node(0): ("is_x", "count")}),
    "b": Network("ioi", Truth.from_json(Graph(6, 4), records()["ioi"].truth), {}),
}

AREAS = {"cpr": 0.5, "cmd": 0.25}


def result(
    network: str, method: str, values: np.ndarray, structural: bool = False, **more: Any
) -> EvaluationRecord:
    truth = NETWORKS[network].truth
    scores = Scores(truth.graph, np.where(truth.graph.legal, values, np.nan).astype(float), **more)
    cost = RunCost(1, 1234, 0, 0)
    levels = compare(truth, scores, structural)
    own = node_scores(scores)
    edges = edge_scores(scores)
    made = EvaluationRecord("x", network, method, {}, 0, structural, levels, cost, 1.5, edges, own)
    return replace(made, behaviour=behaviour(method)) if network == "a" else made


def behaviour(method: str) -> CircuitBehaviour:
    """A curve that rises linearly, but for one method's, which swings far out; none of structural results."""
    if method == "structural":
        return CircuitBehaviour()
    curve = np.array(SIZES) if method != "noise" else np.linspace(-7, 5, len(SIZES)) / 3
    lines = [tuple(line.tolist()) for line in (curve, curve - 0.1, curve + 0.1)]
    areas = [Estimate(at, at - 0.125, at + 0.125, "bootstrap") for at in AREAS.values()]
    return CircuitBehaviour(faithfulness=Faithfulness(SIZES, SIZES, *lines, *areas))


def noise(network: str, seed: int, distinct: int = 10_000) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(distinct, size=NETWORKS[network].truth.qkv_edges.shape) / 7


def evaluation() -> list[tuple[str, EvaluationRecord]]:
    """Perfect, tied, noisy, structural and node-level results on a small and a large network."""
    made: list[tuple[str, EvaluationRecord]] = []
    for name, network in NETWORKS.items():
        truth = network.truth
        positive = np.isin(truth.qkv_edges, (State.REQUIRED, State.FREE))
        nodes = np.random.default_rng(5).random(len(truth.graph.nodes))
        made += [
            ("perfect", result(name, "perfect", positive)),
            ("tied", result(name, "tied", noise(name, 1, distinct=4))),
            ("noise", result(name, "noise", noise(name, 2))),
            ("tiny", result(name, "tiny", 1 + 1e-12 * noise(name, 2))),
            ("with_nodes", result(name, "with_nodes", noise(name, 3), own_nodes=nodes)),
        ]
    return [*made, ("structural", result("a", "structural", noise("a", 4), structural=True))]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / PAGE
    write_page(path, evaluation(), NETWORKS)
    return path


class Links(HTMLParser):
    """Collects what a page would load."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.found += [str(value) for name, value in attrs if name in ("src", "href", "data", "action")]


def test_it_is_one_file_that_loads_nothing(page: Path) -> None:
    text, links = page.read_text(), Links()
    links.feed(text)
    assert links.found == [] and "link" not in links.tags and links.tags.count("script") == 2
    assert "default-src 'none'" in text and "@import" not in text and "url(" not in text
    assert (
        not {"/*STYLE*/", "/*DATA*/", "/*SCRIPT*/"} & set(text.split())
        and "<b>" not in text.split("data")[-1]
    )


def test_it_is_small_for_many_methods_on_a_large_network(tmp_path: Path) -> None:
    made = [(f"method_{seed:02}", result("b", f"method_{seed:02}", noise("b", seed))) for seed in range(20)]
    write_page(tmp_path / PAGE, made, NETWORKS)
    assert len(NETWORKS["b"].truth.graph.edges) == 1108
    assert (tmp_path / PAGE).stat().st_size < 400_000


def test_the_same_evaluation_is_the_same_page(page: Path, tmp_path: Path) -> None:
    write_page(tmp_path / PAGE, list(reversed(evaluation())), NETWORKS)
    assert (tmp_path / PAGE).read_bytes() == page.read_bytes()


def test_a_record_of_another_network_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="is of another network"):
        write_page(
            tmp_path / PAGE,
            [("x", replace(evaluation()[0][1], edges=OrderedScores.of(["m0"], [1.0])))],
            NETWORKS,
        )


def test_records_are_gathered_from_a_folder(tmp_path: Path) -> None:
    with pytest.raises(InterpBenchError, match="there are no records"):
        write_folder_page(tmp_path)
    for label, record in evaluation():
        write_json(tmp_path / record.checkpoint / f"{label}.json", record.to_json())
    write_json(tmp_path / "other.json", {"not": "a record"})
    assert {label for label, _ in read_results(tmp_path)[0]} == {label for label, _ in evaluation()}
    with pytest.raises(InterpBenchError, match=r"none of the networks .* is here"):
        write_folder_page(tmp_path)
    write_json(tmp_path / "z.json", {"method": "x", "checkpoint": "a", "levels": {}, "edges": {}})
    assert {label for label, _ in read_results(tmp_path)[0]} == {label for label, _ in evaluation()}
    (said,) = read_results(tmp_path)[1]
    assert said.startswith(f"{tmp_path / 'z.json'} is damaged: task: required")


needs_chromium = pytest.mark.skipif(
    executable() is None, reason="no Chromium is installed: apt-get install chromium"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def opened(browser: Browser, page: Path) -> Iterator[Browser]:
    """A browser that has opened the page; whatever a test does, nothing may complain or be asked for."""
    browser.open(page)
    yield browser
    assert browser.complaints == []
    assert browser.requests == [page.resolve().as_uri()]


def choose(browser: Browser, **what: Any) -> None:
    browser.run(f"select({json.dumps({'cut': None, **what})})")


def drawn(browser: Browser, style: str) -> list[str]:
    return browser.run(f"[...document.querySelectorAll('.wire.{style}')].map(wire => wire.dataset.edge)")


def verdict(browser: Browser) -> str:
    return browser.run("document.getElementById('verdict').textContent")


def places(browser: Browser) -> tuple[dict[str, int], dict[str, int]]:
    """Returns where methods and models are in the page's lists."""
    methods = browser.run("DATA.methods")
    titles = browser.run("DATA.models.map(model => model.title)")
    by_title = {network.title: name for name, network in NETWORKS.items()}
    return {name: i for i, name in enumerate(methods)}, {by_title[t]: i for i, t in enumerate(titles)}


@needs_chromium
def test_it_opens_with_a_method_on_the_first_network(opened: Browser) -> None:
    assert "planted </script><b>" in opened.run("document.getElementById('heat').textContent")
    assert opened.run("document.querySelectorAll('#heat td button').length") == 11
    assert opened.run("document.querySelectorAll('#methods tbody tr').length") == 6
    assert opened.run("document.querySelectorAll('#circuit .box').length") == 31 + 1
    assert "required found" in verdict(opened)


@needs_chromium
def test_its_curves_are_those_of_the_records(opened: Browser) -> None:
    methods, models = places(opened)
    for label, record in evaluation():
        for level in LEVELS:
            model, method = models[record.checkpoint], methods[label]
            result = f"resultOf({model}, {method})"
            cuts, curve = opened.run(f"ranking({model}, {result}, '{level}').cuts"), record.levels[level]
            assert [cuts[-1]["hits"], cuts[-1]["wrong"]] == [curve.positives, curve.negatives], (label, level)
            assert opened.run(f"{result}.auroc['{level}']") == pytest.approx(curve.auroc, abs=1e-6)
            np.testing.assert_allclose(opened.run(f"{result}.roc['{level}']"), curve.roc, atol=1e-4)
            for cut in cuts:
                hits, wrong = cut["hits"], cut["wrong"]
                wanted = [hits / curve.positives, wrong / curve.negatives]
                assert [cut["recall"], cut["forbidden"]] == pytest.approx(wanted, abs=1e-6)
                precision = hits / (hits + wrong) if hits + wrong else None
                assert cut["precision"] == pytest.approx(precision, abs=5.1e-4), (label, level, cut)


@needs_chromium
def test_it_draws_what_was_taken_and_what_was_missed(opened: Browser) -> None:
    methods, models = places(opened)
    truth, record = NETWORKS["a"].truth, dict(evaluation()[:5])["noise"]
    ranked = [str(truth.graph.edges[place]) for place in np.argsort(-np.array(record.edges.values))]
    required = set(truth.names("qkv_edge", State.REQUIRED))
    forbidden = set(truth.names("qkv_edge", State.FORBIDDEN))
    for cut in (0, 3, 11, len(ranked)):
        choose(opened, model=models["a"], method=methods["noise"], level="qkv_edge", cut=cut)
        taken = set(ranked[:cut])
        for style, expected in (
            ("required", taken & required),
            ("forbidden", taken & forbidden),
            ("missed", required - taken),
        ):
            assert {name.replace(" → ", "->") for name in drawn(opened, style)} == expected
        assert f"{len(taken & required)} of 3 required found, {len(taken & forbidden)} forbidden" in verdict(
            opened
        )
        assert opened.run("document.querySelectorAll('#roc .point').length") == 1


def drawn_curve(browser: Browser, chosen: str) -> np.ndarray:
    """Returns the points of a drawn faithfulness curve, as (share of edges, f), from their places."""
    path = browser.run(f"document.querySelector('#faithfulness .curve{chosen}').getAttribute('d')")
    zero, one = browser.run(
        "[...document.querySelectorAll('#faithfulness .chance')].map(line => line.getAttribute('d'))"
    )
    heights = [float(line.split(",")[1].split("h")[0]) for line in (zero, one)]
    points = np.array([place.split(",") for place in path[1:].split("L")], float)
    left, width = float(zero[1:].split(",")[0]), float(zero.split("h")[1])
    shares = 10 ** (3 * ((points[:, 0] - left) / width - 1))
    return np.stack([shares, (points[:, 1] - heights[0]) / (heights[1] - heights[0])], 1)


@needs_chromium
def test_faithfulness_is_that_of_the_records(opened: Browser) -> None:
    """For the model and method chosen, whatever the level; what was not measured is said."""
    methods, models = places(opened)
    count = "[...document.querySelectorAll('#faithfulness {}')].length".format
    areas, shown = "document.getElementById('areas').textContent", "$('faithfulness').style.display"
    for name in ("tied", "noise"):
        choose(opened, model=models["a"], method=methods[name], level="qkv_edge", cut=2)
        faithful = behaviour(name).faithfulness
        assert faithful is not None
        found = faithful.curve
        np.testing.assert_allclose(drawn_curve(opened, ".chosen"), np.stack([SIZES, found], 1), 0.02, 0.002)
        assert [opened.run(count(what)) for what in (".curve", ".interval", ".now")] == [5, 1, 1]
        assert opened.run(areas) == f"{name}: CPR 0.500 (0.375 to 0.625), CMD 0.250 (0.125 to 0.375)."
    choose(opened, model=models["a"], method=methods["noise"], level="node", cut=2)
    assert opened.run(count(".now")) == 0
    cells = "[...document.querySelectorAll('#key tr:has([aria-pressed=true]) td')].map(x => x.textContent)"
    assert opened.run(cells)[-2:] == ["0.500", "0.250"]
    for method in ("truth", methods["structural"]):
        choose(opened, model=models["a"], method=method)
        assert opened.run(count(".curve")) == 5 and opened.run(count(".interval")) == 0
        assert opened.run(areas) == "" and opened.run(shown) == ""
    choose(opened, model=models["b"], method=methods["noise"])
    assert opened.run(shown) == "none" and "was not measured" in opened.run(areas)


@needs_chromium
def test_the_truth_alone_has_every_state(opened: Browser) -> None:
    _, models = places(opened)
    choose(opened, model=models["a"], method="truth", level="qkv_edge")
    assert sorted(drawn(opened, "required")) == ["a1.h1 → logits", "embed → m0", "m0 → a1.h1<v>"]
    assert drawn(opened, "allowed") == ["embed → a0.h0<q>"] and drawn(opened, "forbidden") == []
    assert "is_x" in opened.run("document.querySelector('[data-node=m0]').textContent")
    choose(opened, model=models["b"], method="truth", level="qkv_edge")
    assert len(drawn(opened, "free")) == 15 and len(drawn(opened, "required")) == 1
    choose(opened, model=models["b"], method="truth", level="head_edge")
    assert len(drawn(opened, "required")) == 6


@needs_chromium
def test_the_switches_work(opened: Browser) -> None:
    """With mouse and keyboard, as a reader uses them."""
    methods, models = places(opened)
    choose(opened, model=models["a"], method=methods["noise"], level="qkv_edge", cut=2)
    opened.page.click("#level input[value=node]")
    assert "nodes" in opened.run("document.getElementById('taken').textContent")
    assert opened.run("document.querySelectorAll('.box.taken').length") > 0
    opened.page.click("#level input[value=head_edge]")
    assert "head edges" in opened.run("document.getElementById('taken').textContent")

    opened.run("document.getElementById('cut').focus()")
    before = opened.run("choice.cut")
    opened.page.keyboard.press("ArrowRight")
    opened.page.keyboard.press("ArrowRight")
    assert opened.run("choice.cut") == before + 2
    opened.page.keyboard.press("Home")
    assert opened.run("choice.cut") == 0 and len(drawn(opened, "missed")) == 3
    opened.page.click("#missed")
    assert drawn(opened, "missed") == []
    opened.run("document.getElementById('cut').focus()")
    opened.page.keyboard.press("End")
    assert len(drawn(opened, "required")) == 3

    opened.page.click("#key tbody tr:last-child button")
    assert opened.run("document.querySelectorAll('#roc .curve.chosen').length") == 1
    assert opened.run("choice.method") != methods["noise"]
    opened.page.click("#heat tbody tr:first-child td:last-child button")
    assert opened.run("choice.model") == 1
    opened.run("document.getElementById('model').focus()")
    for selector, value in (("model", 0), ("method", methods["tied"])):
        change = "new Event('change', {bubbles: true})"
        opened.run(f"$('{selector}').value = {value}; $('{selector}').dispatchEvent({change})")
    assert opened.run("[choice.model, choice.method]") == [0, methods["tied"]]


@needs_chromium
def test_tables_are_sorted_as_asked(opened: Browser) -> None:
    names = "[...document.querySelectorAll('#methods tbody td:first-child')].map(cell => cell.textContent)"
    opened.page.click("#methods th:first-child button")
    assert opened.run(names) == sorted(opened.run("DATA.methods"))
    opened.page.click("#methods th:first-child button")
    assert opened.run(names) == sorted(opened.run("DATA.methods"), reverse=True)


@needs_chromium
def test_a_view_can_be_linked_to(browser: Browser, page: Path) -> None:
    """Opened anew, its address shows the same model, method, level and threshold; odd ones are left out."""
    browser.open(page)
    methods, models = places(browser)
    choose(browser, model=models["a"], method=methods["with_nodes"], level="node", cut=3)
    address, said = browser.run("location.href"), verdict(browser)
    assert "method=with_nodes" in address and "take=3" in address
    browser.page.goto("about:blank")
    browser.page.goto(address)
    assert browser.run("[choice.model, choice.method, choice.level, choice.cut]") == [
        *(models["a"], methods["with_nodes"], "node", 3)
    ]
    assert verdict(browser) == said
    browser.run("location.hash = 'model=ioi&method=&level=head_edge'")
    browser.page.wait_for_function("choice.level === 'head_edge'")
    assert browser.run("[choice.model, choice.method]") == [models["b"], "truth"]
    browser.page.goto("about:blank")
    browser.page.goto(f"{page.resolve().as_uri()}#model=<b>&method=nobody&level=constructor&take=99999999999")
    assert browser.run("choice.level") in LEVELS and browser.complaints == []


@needs_chromium
def test_light_dark_and_narrow(opened: Browser) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    opened.page.emulate_media(color_scheme="light")
    light = opened.run(colour)
    opened.page.emulate_media(color_scheme="dark")
    assert opened.run(colour) != light
    opened.page.set_viewport_size({"width": 400, "height": 800})
    assert opened.run("document.documentElement.scrollWidth") <= 400
    opened.page.set_viewport_size(SIZE)
    opened.page.emulate_media(color_scheme="light")


@needs_chromium
def test_the_page_of_nothing_opens(browser: Browser, tmp_path: Path) -> None:
    write_page(tmp_path / PAGE, [], NETWORKS)
    browser.open(tmp_path / PAGE)
    assert browser.complaints == []
    assert browser.run("document.getElementById('explorer').hidden")
