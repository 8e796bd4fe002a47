"""The page of causal scrubbing: the hypothesis over the network, and the inputs of a sample."""

import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

from interpbench.circuits.graph import Graph
from interpbench.runs.cli import run_subcommand
from interpbench.runs.scrub import scrub_checkpoint


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
        example = scrub_checkpoint("hist", sample=number, inputs=300, samples=8).example
        assert example is not None and number in (None, example.number)
        above = {one.path: one.tokens for one in example.inputs}
        for one in example.inputs[1:]:
            assert one.changed == (one.tokens != above[one.path.rpartition("/")[0]])
        return sum(one.changed for one in example.inputs)

    assert changes(None) == max(changes(number) for number in range(1, 9)) > 0
    assert ">Sample 7, path by path<" in page_of(tmp_path, "--sample", "7")


def test_unimportant_parents_have_the_inputs_of_their_draw() -> None:
    example = scrub_checkpoint("detect_abc", samples=50, inputs=128).example
    assert example is not None
    for one in example.inputs:
        assert bool(one.rest) == bool(example.unimportant.get(one.image))
    assert "a0.h0" in example.unimportant["m0"] and "embed" not in example.unimportant["m0"]
    assert len({one.rest for one in example.inputs}) > 3, "each node has a draw of its own"
