"""Where the boxes and wires of a circuit drawing go, in inches; nothing here knows how they are painted.

Boxes stand in rows, bottom-up: the embedding, then for each layer its heads and, above and to the right of
them, its MLP; the logits on top. A wire whose straight way is blocked by a box climbs in a lane of a gutter
between two columns; wires of one source and style share their lane.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from interpbench.circuits.graph import Graph
from interpbench.circuits.naming import EMBED, SLOTS, Edge, Node, Reader

WIDTH, HEIGHT = 1.14, 0.66
GUTTER, GAP, MARGIN = 0.34, 0.44, 0.42
LANE, PORT, TIP = 0.075, 0.36, 0.1
PITCH = WIDTH + GUTTER

Point = tuple[float, float]
Bezier = tuple[Point, Point, Point, Point]


class Wire(NamedTuple):
    """An edge and the style in which it is to be drawn."""

    edge: Edge
    style: str


@dataclass(frozen=True)
class Layout:
    """Places for a graph, in inches from the lower left corner.

    Attributes:
        graph: whose nodes are placed.
        nodes: each node to the centre of its box.
        logits: the centre of the box of the logits.
    """

    graph: Graph
    nodes: dict[Node, Point] = field(init=False)
    logits: Point = field(init=False)

    def __post_init__(self) -> None:
        graph = self.graph
        middle = self._column((graph.n_heads - 1) / 2)
        nodes = {node: (self._column(self._place(node)), self._row(node)) for node in graph.nodes}
        nodes[EMBED] = (middle, nodes[EMBED][1])
        object.__setattr__(self, "nodes", nodes)
        object.__setattr__(self, "logits", (middle, self._height_of(2 * graph.n_layers + 1)))

    def _place(self, node: Node) -> int:
        return self.graph.n_heads if node.head is None else node.head

    def _column(self, place: float) -> float:
        return MARGIN + GUTTER + WIDTH / 2 + place * PITCH

    def _height_of(self, row: int) -> float:
        return HEIGHT / 2 + row * (HEIGHT + GAP)

    def _row(self, node: Node) -> float:
        return self._height_of(0 if node == EMBED else 2 * node.layer + (2 if node.head is None else 1))

    @property
    def size(self) -> Point:
        """Width and height of the whole drawing."""
        right = self._column(self.graph.n_heads) + WIDTH / 2 + GUTTER
        return right, self.logits[1] + HEIGHT / 2

    def band(self, layer: int) -> tuple[float, float]:
        """Returns the lower and upper end of a layer."""
        edge = HEIGHT / 2 + GAP * 0.28
        return self._height_of(2 * layer + 1) - edge, self._height_of(2 * layer + 2) + edge

    def entrance(self, reader: Reader) -> Point:
        """Returns the point at the bottom of a box where `reader` reads."""
        x, y = self.logits if reader.slot == "logits" else self.nodes[Node(reader.layer, reader.head)]
        shift = (SLOTS.index(reader.slot) - 1) * PORT if reader.slot in SLOTS else 0
        return x + shift, y - HEIGHT / 2

    def exit(self, node: Node) -> Point:
        """Returns the point at the top of a box from which its wires leave."""
        x, y = self.nodes[node]
        return x, y + HEIGHT / 2

    def route(self, wires: Iterable[Wire]) -> dict[Wire, list[Bezier]]:
        """Returns the Bézier curves of each wire, from its source's top to where its arrow head starts."""
        wires = list(wires)
        lanes = self._lanes(wires)
        arrivals = self._arrivals(wires, lanes)
        curves: dict[Wire, list[Bezier]] = {}
        for wire in wires:
            start, end = self.exit(wire.edge.source), arrivals[wire]
            if wire not in lanes:
                curves[wire] = [_bend(start, end)]
                continue
            low, high = (lanes[wire], start[1] + GAP), (lanes[wire], end[1] + TIP - GAP)
            curves[wire] = [_bend(start, low), (low, low, high, high), _bend(high, end)]
        return curves

    def _blocked(self, edge: Edge) -> bool:
        """Returns whether a box stands in the way of a single bend."""
        start, end = self.exit(edge.source), self.entrance(edge.target)
        left, right = min(start[0], end[0]) - WIDTH / 2, max(start[0], end[0]) + WIDTH / 2
        return any(left < x < right and start[1] < y < end[1] for x, y in self.nodes.values())

    def _lanes(self, wires: list[Wire]) -> dict[Wire, float]:
        """Gives every blocked wire the x of a lane, such that no two bundles overlap."""
        bundles: dict[tuple[int, Node, str], list[Wire]] = {}
        for wire in wires:
            if self._blocked(wire.edge):
                start, end = self.exit(wire.edge.source), self.entrance(wire.edge.target)
                gutter = self._gutter(start[0], end[0])
                bundles.setdefault((gutter, wire.edge.source, wire.style), []).append(wire)
        used: dict[int, list[float]] = {}
        numbers: dict[tuple[int, Node, str], int] = {}
        for key, bundle in sorted(
            bundles.items(), key=lambda item: (self.nodes[item[0][1]][1], str(item[0]))
        ):
            start = self.exit(key[1])[1]
            tops = used.setdefault(key[0], [])
            number = next((n for n, top in enumerate(tops) if top < start), len(tops))
            tops[number : number + 1] = [max(self.entrance(wire.edge.target)[1] for wire in bundle)]
            numbers[key] = number
        lanes: dict[Wire, float] = {}
        for key, bundle in bundles.items():
            count = len(used[key[0]])
            step = min(LANE, (GUTTER - LANE) / max(count - 1, 1))
            x = self._column(key[0]) - PITCH / 2 + (numbers[key] - (count - 1) / 2) * step
            lanes |= dict.fromkeys(bundle, x)
        return lanes

    def _gutter(self, start: float, end: float) -> int:
        """Returns the gutter with the shortest way, and of several such the one nearest to the end."""

        def cost(gutter: int) -> tuple[float, float]:
            x = self._column(gutter) - PITCH / 2
            return round(abs(start - x) + abs(end - x), 6), abs(end - x)

        return min(range(self.graph.n_heads + 2), key=cost)

    def _arrivals(self, wires: list[Wire], lanes: dict[Wire, float]) -> dict[Wire, Point]:
        """Spreads the wires that enter at one point, in the order in which they come from the left."""
        entering: dict[Reader, list[Wire]] = {}
        for wire in wires:
            entering.setdefault(wire.edge.target, []).append(wire)
        places: dict[Wire, Point] = {}
        for reader, group in entering.items():
            x, y = self.entrance(reader)
            room = PORT * 0.6 if reader.slot in SLOTS else WIDTH * 0.8
            step = min(0.12, room / max(len(group) - 1, 1))
            group.sort(key=lambda wire: lanes.get(wire, self.exit(wire.edge.source)[0]))
            offsets = (np.arange(len(group)) - (len(group) - 1) / 2) * step
            places |= {wire: (x + float(offset), y - TIP) for wire, offset in zip(group, offsets)}
        return places


def _bend(start: Point, end: Point) -> Bezier:
    """Returns the S-curve that leaves and arrives vertically."""
    half = (start[1] + end[1]) / 2
    return start, (start[0], half), (end[0], half), end
