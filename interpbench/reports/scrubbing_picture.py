"""Pictures of causal scrubbing as SVG: a hypothesis over its network, and its paths in one sample.

Both have the embedding below and the logits on top. In the first every node stands in its place and the edges
that are claimed are drawn; in the second each path from the output has a box of its own, with the input that
its node gets.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from textwrap import shorten, wrap

from interpbench.circuits.graph import Graph
from interpbench.circuits.naming import (
    SLOTS,
    Edge,
    Node,
    Reader,
    destination_name,
    edge_name,
    is_head_input,
    parse_edges,
    parse_node,
)
from interpbench.core.text import printable
from interpbench.reports.layout import HEIGHT, PORT, TIP, WIDTH, Layout, Point, Wire
from interpbench.scrubbing.path_draws import PATH
from interpbench.scrubbing.residual import LOGITS

SCALE = 92
"""Pixels in an inch of the layout."""
COLOURS = 8
"""The number of colours of wires, `--c0` to `--c7` of the page's style."""
SLOT, GAP, CHARACTERS, LINES, LINE = 148, 12, 21, 3, 13
"""The width and gap of boxes of paths, in pixels; the characters, number and height of lines of an input."""
ABOVE = 46
"""Pixels between a box of a path and the next row."""
EDGE = 4
"""Pixels above and below a picture."""
ABOUT = 22
"""The number of characters of what a claim is about that fit into a box."""


@dataclass(frozen=True)
class PathInput:
    """The input that a node gets on a path, in one sample.

    Attributes:
        path: the names of the claims from the output down to the node.
        image: the name of the node.
        tokens: the input.
        changed: whether it is another one than that of the node above, which reads this one.
        agrees: what the claim's value is on it, the same as on the input above; empty if all of it counts.
        rest: the input on which all else that the node reads takes its value; empty if there is nothing else.
    """

    path: str
    image: str
    tokens: str
    changed: bool = False
    agrees: str = ""
    rest: str = ""


@dataclass(frozen=True)
class ScrubbedSample:
    """A sample: a hypothesis, and the inputs that nodes get on all paths from the output.

    Attributes:
        number: the number of the sample, from 1.
        layers: the number of layers of the network.
        heads: the number of heads in each layer.
        edges: the edges that are claimed, as the names of the node that is read and the one that reads.
        inputs: the inputs on all paths, the output's first.
        about: what claims are about, by node: the names of variables, if they are known.
        unimportant: the nodes that a node reads, and of which that does not matter, by its name.
    """

    number: int
    layers: int
    heads: int
    edges: tuple[tuple[str, str], ...]
    inputs: tuple[PathInput, ...]
    about: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    unimportant: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    @property
    def graph(self) -> Graph:
        """The network's graph."""
        return Graph(self.layers, self.heads)


def said(text: str) -> str:
    """Returns text as it may stand in a page."""
    return escape(printable(text))


def network_svg(sample: ScrubbedSample) -> str:
    """Returns the hypothesis over the network."""
    layout = Layout(sample.graph)
    width, height = layout.size
    claimed = {destination_name(name) for edge in sample.edges for name in edge}
    inputs = {name for edge in sample.edges for name in edge if is_head_input(name)}
    parts: list[str] = []

    def at(point: Point) -> str:
        return f"{SCALE * point[0]:.1f},{SCALE * (height - point[1]) + EDGE:.1f}"

    def text(point: Point, kind: str, words: str) -> None:
        x, y = at(point).split(",")
        parts.append(f'<text class="{kind}" x="{x}" y="{y}">{said(words)}</text>')

    for layer in range(sample.layers):
        text((0.02, sum(layout.band(layer)) / 2), "layer", f"layer {layer}")
    wires = [Wire(edge, "claimed") for edge in _network_edges(sample)]
    sources = list(dict.fromkeys(wire.edge.source for wire in wires))
    for wire, curves in layout.route(wires).items():
        colour = f"w{sources.index(wire.edge.source) % COLOURS}"
        x, y = curves[-1][-1]
        tip = " ".join(at(point) for point in ((x - 0.05, y), (x, y + TIP), (x + 0.05, y)))
        line = f"M{at(curves[0][0])}" + "".join(
            f"C{' '.join(at(point) for point in curve[1:])}" for curve in curves
        )
        parts.append(f'<path class="wire {colour}" d="{line}"><title>{said(str(wire.edge))}</title></path>')
        parts.append(f'<polyline class="wire {colour}" points="{tip}"/>')
    for node, (x, y) in (*layout.nodes.items(), (LOGITS, layout.logits)):
        name, about = str(node), " ".join(sample.about.get(str(node), ()))
        left, upper = at((x - WIDTH / 2, y + HEIGHT / 2)).split(",")
        parts.append(f'<g class="{"box claimed" if name in claimed else "box"}">')
        parts.append(f"<title>{said(f'{name}: {about}' if about else name)}</title>")
        size = f'width="{SCALE * WIDTH:.1f}" height="{SCALE * HEIGHT:.1f}"'
        parts.append(f'<rect x="{left}" y="{upper}" {size} rx="6"/>')
        text((x, y + (0.1 if about else -0.03)), "name", name)
        text((x, y - 0.09), "small", about if len(about) <= ABOUT else f"{about[: ABOUT - 1]}…")
        for slot, shift in zip(SLOTS, (-PORT, 0, PORT)):
            if isinstance(node, Node) and str(Reader(node.layer, slot, node.head)) in inputs:
                text((x + shift, y - HEIGHT / 2 + 0.05), "small", slot)
        parts.append("</g>")
    return _svg(SCALE * width, SCALE * height + 2 * EDGE, "The hypothesis over the network", parts)


def _network_edges(sample: ScrubbedSample) -> list[Edge]:
    """Returns the edges from node to node; of those into a head without its inputs, one in the middle."""
    found: list[Edge] = []
    for source, target in sample.edges:
        if not is_head_input(source):
            edges = parse_edges(edge_name(source, target), sample.layers)
            found.append(edges[len(edges) // 2])
    return found


def paths_svg(sample: ScrubbedSample) -> str:
    """Returns the paths over the network: in rows of its layers, each with the input that its node gets."""
    children: dict[str, list[PathInput]] = {}
    for one in sample.inputs:
        children.setdefault(one.path.rpartition(PATH)[0], []).append(one)
    columns: dict[str, float] = {}
    leaves = 0

    def place(one: PathInput) -> float:
        nonlocal leaves
        below = [place(child) for child in children.get(one.path, ())]
        if not below:
            leaves += 1
        columns[one.path] = (below[0] + below[-1]) / 2 if below else leaves - 1
        return columns[one.path]

    place(sample.inputs[0])
    ranks = sorted({_rank(one.image, sample) for one in sample.inputs}, reverse=True)
    rows = {rank: row for row, rank in enumerate(ranks)}
    texts = {one.path: wrap(printable(one.tokens), CHARACTERS, max_lines=LINES) for one in sample.inputs}
    box = 30 + LINE * (max(map(len, texts.values())) + any(one.rest for one in sample.inputs))
    corners: dict[str, tuple[float, float]] = {}
    for one in sample.inputs:
        row = rows[_rank(one.image, sample)]
        corners[one.path] = columns[one.path] * (SLOT + GAP) + GAP, row * (box + ABOVE) + EDGE
    parts: list[str] = []
    for one in sample.inputs[1:]:
        (x, y), (above_x, above_y) = corners[one.path], corners[one.path.rpartition(PATH)[0]]
        start, end = x + SLOT / 2, above_x + SLOT / 2
        half = (y + above_y + box) / 2
        parts.append(
            f'<path class="branch" d="M{start:.1f},{y:.1f}C{start:.1f},{half:.1f} {end:.1f},{half:.1f} '
            f'{end:.1f},{above_y + box:.1f}"/>'
        )
    for one in sample.inputs:
        x, y = corners[one.path]
        lines = [f'<text class="name" x="{x + SLOT / 2:.1f}" y="{y + 16:.1f}">{said(one.image)}</text>']
        for number, line in enumerate(texts[one.path]):
            down = y + 32 + LINE * number
            lines.append(f'<text class="datum" x="{x + SLOT / 2:.1f}" y="{down:.1f}">{said(line)}</text>')
        if one.rest:
            rest = shorten(f"rest: {printable(one.rest)}", CHARACTERS, placeholder=" …")
            below = f'x="{x + SLOT / 2:.1f}" y="{y + box - 8:.1f}"'
            lines.append(f'<text class="datum rest" {below}>{said(rest)}</text>')
        style = (
            "box changed" if one.changed else "box claimed" if one.path == sample.inputs[0].path else "box"
        )
        parts.append(
            f'<g class="{style}"><title>{said(_described(one))}</title><rect x="{x:.1f}" y="{y:.1f}" '
            f'width="{SLOT}" height="{box}" rx="6"/>{"".join(lines)}</g>'
        )
    width, height = leaves * (SLOT + GAP) + GAP, len(ranks) * (box + ABOVE) - ABOVE + 2 * EDGE
    return _svg(width, height, f"The inputs of sample {sample.number} on all paths", parts)


def leaf_count(sample: ScrubbedSample) -> int:
    """Returns how many paths end without a further one, which is the width of `paths_svg` in boxes."""
    return len(sample.inputs) - len({one.path.rpartition(PATH)[0] for one in sample.inputs[1:]})


def _described(one: PathInput) -> str:
    """Returns a path's node and its input in words."""
    value = f", where its value is {one.agrees}" if one.agrees else ""
    rest = f"; the rest that it reads on {one.rest}" if one.rest else ""
    return f"{one.image} on {one.tokens}{value}{rest}"


def _rank(image: str, sample: ScrubbedSample) -> int:
    """Returns how far up a node is: in each layer the inputs of heads, heads, the MLP."""
    if image == LOGITS:
        return 3 * sample.layers
    node = parse_node(destination_name(image))
    return 3 * node.layer + (2 if node.head is None else 0 if is_head_input(image) else 1)


def _svg(width: float, height: float, label: str, parts: Sequence[str]) -> str:
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    return f'<svg {size} role="img" aria-label="{said(label)}">{"".join(parts)}</svg>'
