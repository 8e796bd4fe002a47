"""Pictures of circuits: what the truth is and, beside it, what methods found."""

from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import NotRequired, TypedDict

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import FancyBboxPatch, PathPatch, Polygon
from matplotlib.path import Path

from interpbench.circuits.ground_truth import State, Truth
from interpbench.circuits.naming import SLOTS, Edge, Node, Reader
from interpbench.circuits.order_arrays import orders_of
from interpbench.circuits.scores import Scores
from interpbench.core.text import mathtext
from interpbench.reports.layout import HEIGHT, MARGIN, TIP, WIDTH, Bezier, Layout, Point, Wire
from interpbench.reports.palette import BLUE, GREEN, SKY, VERMILLION, Picture, save

HEAD, LEGEND = 0.62, 0.5


class _Line(TypedDict):
    """How wires of a style are drawn, as matplotlib calls it."""

    color: str
    linewidth: float
    linestyle: NotRequired[tuple[int, tuple[int, int]]]


class _Box(TypedDict):
    """How boxes of a state are drawn, as matplotlib calls it."""

    facecolor: str
    edgecolor: str
    linewidth: float


LINES: dict[str, _Line] = {
    "required": {"color": BLUE, "linewidth": 1.8},
    "allowed": {"color": SKY, "linewidth": 1.1},
    "together": {"color": GREEN, "linewidth": 1.6},
    "free": {"color": BLUE, "linewidth": 1.1, "linestyle": (0, (1, 1))},
    "forbidden": {"color": VERMILLION, "linewidth": 1.6},
    "missed": {"color": BLUE, "linewidth": 1.4, "linestyle": (0, (3, 2))},
}
BOXES: dict[State, _Box] = {
    State.REQUIRED: {"facecolor": "#D6E9F8", "edgecolor": BLUE, "linewidth": 1.4},
    State.ALLOWED: {"facecolor": "#F1F8FD", "edgecolor": SKY, "linewidth": 1.0},
    State.FORBIDDEN: {"facecolor": "#F4F4F4", "edgecolor": "#D0D0D0", "linewidth": 0.8},
}
TOGETHER: _Box = {"facecolor": "#E3F4EC", "edgecolor": GREEN, "linewidth": 1.4}
"""The box of a node that is required of a higher order: allowed, and needed where others are patched, too."""
TRUTH_LEGEND = {
    "required": "required",
    "together": "required of a higher order: with others",
    "free": "free: one of q, k, v, or several",
    "allowed": "allowed: changes no output",
}
FOUND_LEGEND = {
    "required": "required",
    "missed": "required, missed",
    "forbidden": "forbidden, found",
    "allowed": "allowed (in the program, changes no output)",
}


def draw_circuit(
    truth: Truth,
    path: FilePath,
    variables: Mapping[Node, tuple[str, ...]] | None = None,
    found: Mapping[str, Scores] | None = None,
    title: str = "",
) -> None:
    """Draws the circuit and writes it as PNG.

    Args:
        truth: the states of nodes and q/k/v edges; forbidden edges are not drawn.
        path: the file to write.
        variables: the variables that each node carries, to be written into its box.
        found: draw also, in a panel each, what methods found: name to scores (see `found_edges`).
        title: what to write above.
    """
    save(circuit_figure(truth, variables, found, title), path)


def circuit_figure(
    truth: Truth,
    variables: Mapping[Node, tuple[str, ...]] | None = None,
    found: Mapping[str, Scores] | None = None,
    title: str = "",
) -> Picture:
    """Draws the circuit as a figure; see `draw_circuit`.

    Args:
        truth: the states of nodes and q/k/v edges.
        variables: the variables that each node carries.
        found: what methods found: name to scores.
        title: what to write above.
    """
    layout = Layout(truth.graph)
    width, height = layout.size
    panels = [("truth", _true_wires(truth))]
    for name, scores in (found or {}).items():
        chosen = found_edges(truth, scores)
        panels.append((f"{name} found {_summary(truth, scores, chosen)}", _found_wires(truth, chosen)))
    figure = Picture(figsize=(len(panels) * width, height + HEAD + LEGEND))
    for place, (heading, wires) in enumerate(panels):
        axes = figure.add_axes((place / len(panels), 0, 1 / len(panels), 1))
        axes.set(xlim=(0, width), ylim=(-LEGEND, height + HEAD))
        axes.axis("off")
        _panel(axes, layout, truth, variables or {}, wires)
        axes.text(MARGIN, height + 0.14, mathtext(heading), fontsize=9, color="0.3")
        if place == 0:
            axes.text(MARGIN, height + 0.36, mathtext(title), fontsize=12, weight="bold")
    legend = _legend(truth, bool(found))
    figure.legend(
        handles=[Line2D([], [], label=label, **LINES[style]) for style, label in legend.items()],
        loc="lower center",
        ncols=len(legend) if len(panels) * width > 8 else 2,
        frameon=False,
        fontsize=8.5,
        handlelength=2.6,
    )
    return figure


def _legend(truth: Truth, found: bool) -> dict[str, str]:
    """Returns the styles that a picture explains; of some kinds of edges only where the truth has any."""
    optional = {"free": truth.count("qkv_edge", State.FREE) > 0, "together": _together(truth).any()}
    legend = {**FOUND_LEGEND, **{style: TRUTH_LEGEND[style] for style in optional}} if found else TRUTH_LEGEND
    return {style: label for style, label in legend.items() if optional.get(style, True)}


def found_edges(truth: Truth, scores: Scores) -> np.ndarray:
    """Returns `[reader, writer]` bool: the best-scored edges, as many as are required.

    Allowed edges take no place of others: those that come before the last that counts are found besides,
    as in `precision_at_size`, and the free edges of one head edge take one place together. Ties are
    broken by the order of the graph.
    """
    claims, legal = _claims(truth), truth.graph.legal
    order = np.argwhere(legal)[np.argsort(-scores.edges[legal], kind="stable")]
    ordered = claims[tuple(order.T)]
    first = np.zeros(len(order), bool)
    first[np.unique(ordered, return_index=True)[1]] = True
    counts = (first & (ordered >= 0)).cumsum()
    size = len(_required(truth))
    found = np.zeros_like(legal)
    found[tuple(order[: int(np.searchsorted(counts, size)) + 1 if size else 0].T)] = True
    return found


def _claims(truth: Truth) -> np.ndarray:
    """Returns `[reader, writer]`: a number for each edge that counts (for a head edge, if free), or -1."""
    states = truth.qkv_edges
    claims = np.arange(states.size).reshape(states.shape)
    heads = (
        claims.size + truth.graph.reader_destination[:, None] * states.shape[1] + np.arange(states.shape[1])
    )
    claims = np.where(states == State.FREE, heads, claims)
    return np.where(np.isin(states, (State.REQUIRED, State.FREE, State.FORBIDDEN)), claims, -1)


def _required(truth: Truth) -> set[int]:
    """Returns the numbers of what has to be found."""
    return set(_claims(truth)[np.isin(truth.qkv_edges, (State.REQUIRED, State.FREE))].tolist())


def _summary(truth: Truth, scores: Scores, found: np.ndarray) -> str:
    """Says in a line how good the found edges are, and whether ties made the choice arbitrary."""
    claims, required = _claims(truth), _required(truth)
    counted, size = claims >= 0, len(required)
    hits = len(required & set(claims[found].tolist()))
    text = f"{hits} of {size} required edges among the top {size}"
    if not size:
        return text
    tied = counted & (scores.edges == scores.edges[found & counted].min())
    return text + (f" ({tied.sum()} edges tie for the last places)" if (tied & ~found).any() else "")


def _edges(truth: Truth, where: np.ndarray) -> list[Edge]:
    graph = truth.graph
    return [Edge(graph.nodes[w], graph.readers[r]) for r, w in np.argwhere(where)]


def _together(truth: Truth) -> np.ndarray:
    """Returns bool `[reader, writer]`, the edges that are required of order 1 or higher."""
    return orders_of(truth, "qkv_edge") > 0


def _true_wires(truth: Truth) -> list[Wire]:
    states, together = truth.qkv_edges, _together(truth)
    parts = {
        "allowed": (states == State.ALLOWED) & ~together,
        "free": states == State.FREE,
        "together": together,
        "required": states == State.REQUIRED,
    }
    return [Wire(edge, style) for style, where in parts.items() for edge in _edges(truth, where)]


def _found_wires(truth: Truth, found: np.ndarray) -> list[Wire]:
    states, claims = truth.qkv_edges, _claims(truth)
    open_, seen = states == State.FREE, np.isin(claims, claims[found])
    parts = {
        "allowed": found & (states == State.ALLOWED),
        "forbidden": found & (states == State.FORBIDDEN),
        "missed": ~seen & (open_ | (states == State.REQUIRED)),
        "required": found & (open_ | (states == State.REQUIRED)),
    }
    return [Wire(edge, style) for style, where in parts.items() for edge in _edges(truth, where)]


def _panel(
    axes: Axes, layout: Layout, truth: Truth, variables: Mapping[Node, tuple[str, ...]], wires: list[Wire]
) -> None:
    """Draws the boxes of one graph and some wires between them."""
    for layer in range(truth.graph.n_layers):
        low, high = layout.band(layer)
        axes.axhspan(low, high, 0.005, 0.985, facecolor="#F9F9F9", zorder=0)
        axes.text(0.1, (low + high) / 2, f"layer {layer}", rotation=90, va="center", fontsize=8, color="0.55")
    bundles = list(dict.fromkeys((wire.style, wire.edge.source) for wire in wires))
    for wire, curves in layout.route(wires).items():
        _wire(axes, curves, wire.style, 1 + bundles.index((wire.style, wire.edge.source)) / len(bundles))
    styles = {wire.edge.target: wire.style for wire in wires}
    for node, state, order in zip(truth.graph.nodes, truth.nodes, orders_of(truth, "node")):
        style = TOGETHER if order > 0 else BOXES[State(int(state))]
        _box(axes, layout.nodes[node], str(node), variables.get(node, ()), style)
        if node.head is not None:
            _slots(axes, layout, node, styles)
    _box(axes, layout.logits, "logits", (), BOXES[State.REQUIRED])


def _wire(axes: Axes, curves: list[Bezier], style: str, order: float) -> None:
    """Draws one wire, its arrow head and a white rim, so that crossings can be followed.

    Rims are below all wires of the same order, which share their source and may share a lane.
    """
    vertices = [curves[0][0], *(point for curve in curves for point in curve[1:])]
    codes = [Path.MOVETO, *[Path.CURVE4] * (len(vertices) - 1)]
    line = LINES[style]
    rim: _Line = {"color": "white", "linewidth": line["linewidth"] + 1.4}
    for place, look in ((order, rim), (order + 1e-4, line)):
        axes.add_patch(PathPatch(Path(vertices, codes), fill=False, zorder=place, **look))
    x, y = vertices[-1]
    head = [(x, y + TIP), (x - 0.04, y), (x + 0.04, y)]
    axes.add_patch(Polygon(head, color=line["color"], linewidth=0, zorder=2.5))


def _box(axes: Axes, centre: Point, name: str, variables: tuple[str, ...], style: _Box) -> None:
    """Draws a box with its name and, below it, what it carries."""
    x, y = centre
    corner = (x - WIDTH / 2, y - HEIGHT / 2)
    shape = FancyBboxPatch(
        corner, WIDTH, HEIGHT, boxstyle="round,pad=0,rounding_size=0.07", zorder=3, **style
    )
    axes.add_patch(shape)
    dark = "0.6" if style is BOXES[State.FORBIDDEN] else "0.1"
    lines = variables if len(variables) <= 2 else (variables[0], f"and {len(variables) - 1} more")
    lift = 0.21 if lines else 0.05
    axes.text(x, y + lift, name, ha="center", va="center", fontsize=8.5, weight="bold", color=dark, zorder=4)
    for place, text in enumerate(lines):
        short = mathtext(text if len(text) <= 20 else text[:19] + "…")
        axes.text(
            x, y + 0.06 - 0.125 * place, short, ha="center", va="center", fontsize=7, color=dark, zorder=4
        )


def _slots(axes: Axes, layout: Layout, node: Node, styles: Mapping[Reader, str]) -> None:
    """Writes q, k and v where a head reads, in the colour of what arrives there."""
    for slot in SLOTS:
        reader = Reader(node.layer, slot, node.head)
        x, y = layout.entrance(reader)
        colour = LINES[styles[reader]]["color"] if reader in styles else "0.78"
        axes.text(x, y + 0.075, slot, ha="center", va="center", fontsize=7, color=colour, zorder=4)
