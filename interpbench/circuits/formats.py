"""Reads scores and circuits from files of other projects; nothing that is read is executed.

    eap_ig  the JSON of EAP-IG and MIB: `cfg`, `nodes` and `edges`, with `score` and `in_graph`
    acdc    a JSON list of ACDC's edges, (child hook, index, parent hook, index), with effect sizes or without
    csv     `edge,score` (or `source,target,score`), a row an edge

Which of them a file is shows in the file. All are read against a graph, so that what is allocated is of the
graph's size, and every name has to be one of its own. An edge into a head without `<q>`, `<k>` or `<v>` is
all three.
"""

import csv
import math
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any, Literal

import numpy as np

from interpbench.circuits.components import Edge, Hook, parse_edges, parse_hooks, parse_node
from interpbench.circuits.graph import Graph
from interpbench.circuits.scores import Scores, edges_from_nodes
from interpbench.core.errors import InterpBenchError, ScoresError, did_you_mean
from interpbench.core.files import MOST_SCORES, JsonError, parse_json, read_bytes

Form = Literal["eap_ig", "acdc", "csv"]
FORMS: tuple[Form, ...] = ("eap_ig", "acdc", "csv")
MOST_BYTES = MOST_SCORES
"""The largest file that is read: far more than any network of this project needs."""


@dataclass(frozen=True)
class Imported:
    """What a file says.

    Attributes:
        scores: larger for more important; of a file without scores, 1 in the circuit and 0 outside.
        circuit: `[reader, writer]` bool, the edges in the circuit, if the file says so.
        form: what the file is.
        problem: the problem that the file says it answers, if it does.
    """

    scores: Scores
    circuit: np.ndarray | None
    form: Form
    problem: str | None = None


@dataclass
class _Found:
    """What has been read so far: numbers are NaN and membership -1 where nothing was said."""

    graph: Graph
    edges: np.ndarray = field(init=False)
    member: np.ndarray = field(init=False)
    nodes: dict[int, float] = field(default_factory=dict[int, float])

    def __post_init__(self) -> None:
        self.edges = np.full(self.graph.legal.shape, np.nan)
        self.member = np.full(self.graph.legal.shape, -1, np.int8)

    def edge(self, name: str, score: float | None, member: bool | None) -> None:
        """Takes one edge by its name, in the form of EAP-IG."""
        edges = [self._place(edge, name) for edge in parse_edges(name, self.graph.n_layers)]
        for place in edges:
            if not (np.isnan(self.edges[place]) and self.member[place] == -1):
                raise ScoresError(f"names {self.name(place)} twice")
            self.put(place, score, member)

    def put(self, place: tuple[int, int], score: float | None, member: bool | None) -> None:
        """Takes what is said of one edge."""
        if score is not None:
            self.edges[place] = score
        if member is not None:
            self.member[place] = member

    def hooks(self, child: Hook, parent: Hook) -> tuple[int, int] | None:
        """Returns the place of an edge of ACDC, None for a step within a head or an MLP."""
        edge = parse_hooks(child, parent, self.graph.n_layers)
        return None if edge is None else self._place(edge, str(edge))

    def node(self, name: str, score: float | None) -> None:
        """Takes one node; NaN, as in EAP-IG, for one that is always in the circuit."""
        index = self.graph.node_index.get(parse_node(name))
        if index is None:
            raise ScoresError(f"names {name!r}, which this network does not have")
        if index in self.nodes:
            raise ScoresError(f"names {name!r} twice")
        if score is not None:
            self.nodes[index] = score

    def name(self, place: tuple[int, int]) -> str:
        """Returns the name of the edge at a place."""
        return str(Edge(self.graph.nodes[place[1]], self.graph.readers[place[0]]))

    def _place(self, edge: Edge, name: str) -> tuple[int, int]:
        graph = self.graph
        reader, writer = graph.reader_index.get(edge.target), graph.node_index.get(edge.source)
        if reader is None or writer is None or not graph.legal[reader, writer]:
            near = did_you_mean(name, map(str, graph.edges))
            raise ScoresError(f"names {name!r}, an edge that this network does not have{near}")
        return reader, writer

    def finish(self, form: Form, problem: str | None = None) -> Imported:
        """Checks that the file is complete, and returns what it says."""
        legal = self.graph.legal
        nodes = self._own_nodes()
        missing = np.isnan(self.edges) & legal
        says = (self.member >= 0).any() if missing.any() else (self.member == 1).any()
        circuit = self.member == 1 if says else None
        if not missing.any():
            values = self.edges
        elif not missing[legal].all():
            first = self.name(tuple(np.argwhere(missing)[0]))
            raise ScoresError(
                f"gives no score to {missing.sum():,} of {legal.sum():,} edges, for one {first}"
            )
        elif nodes is not None:
            values = edges_from_nodes(self.graph, nodes)
        elif circuit is not None:
            values = np.where(legal, circuit, np.nan)
        else:
            raise ScoresError("holds neither scores nor a circuit")
        return Imported(Scores(self.graph, values, nodes), circuit, form, problem)

    def _own_nodes(self) -> np.ndarray | None:
        """Returns the nodes' scores; those that have none by intention, and the embedding, rank first."""
        given = np.array([self.nodes.get(index, np.nan) for index in range(len(self.graph.nodes))])
        if np.isnan(given).all():
            return None
        for index in range(1, len(given)):
            if index not in self.nodes:
                raise ScoresError(f"gives scores to nodes, but none to {self.graph.nodes[index]}")
        return np.where(np.isnan(given), np.nanmax(given), given)


def read_scores(path: Path, graph: Graph) -> Imported:
    """Reads scores or a circuit from a file of any of the forms.

    Raises:
        ScoresError: in one line, for a file that is missing, too large, damaged, incomplete, or not of this
            graph.
    """
    text = _text(path)
    try:
        return _csv(text, graph) if path.suffix.lower() == ".csv" else _json(text, graph)
    except InterpBenchError as error:
        raise ScoresError(f"{path}: {error}") from None


def _text(path: Path) -> str:
    if path.suffix.lower() in (".pt", ".pth", ".pkl", ".pickle"):
        raise ScoresError(
            f"{path}: a pickle, which could execute code, is not read; save JSON (EAP-IG: Graph.to_json)"
        )
    try:
        return read_bytes(path, MOST_BYTES, ScoresError).decode()
    except UnicodeDecodeError:
        raise ScoresError(f"{path}: not a text file") from None


def _json(text: str, graph: Graph) -> Imported:
    try:
        data = parse_json(text, constants=True)
    except JsonError as error:
        raise ScoresError(str(error)) from None
    except ValueError:
        raise ScoresError("not readable as JSON") from None
    if isinstance(data, list):
        return _acdc(data, graph)
    if not isinstance(data, dict):
        raise ScoresError("neither a graph of EAP-IG nor a list of edges")
    return _eap_ig(data, graph)


def _eap_ig(data: dict[str, Any], graph: Graph) -> Imported:
    """Reads `cfg`, `nodes` and `edges`; or a plain mapping of edges to scores."""
    whole = data if {"edges", "nodes"} & set(data) else {"edges": data}
    parts = {key: whole.get(key) or {} for key in ("cfg", "nodes", "edges")}
    for key, part in parts.items():
        if not isinstance(part, dict):
            raise ScoresError(f"its {key!r} is not a mapping")
    for key, ours in (("n_layers", graph.n_layers), ("n_heads", graph.n_heads)):
        if (theirs := parts["cfg"].get(key, ours)) != ours:
            raise ScoresError(f"of a network with {key}={_short(theirs)}; this one has {ours}")
    found = _Found(graph)
    for name, entry in parts["edges"].items():
        found.edge(_name(name), *_entry(name, entry))
    for name, entry in parts["nodes"].items():
        if name != "logits":
            found.node(_name(name), _entry(name, entry, unscored=True)[0])
    problem = whole.get("problem")
    return found.finish("eap_ig", problem if isinstance(problem, str) else None)


def _entry(name: str, entry: Any, unscored: bool = False) -> tuple[float | None, bool | None]:
    """Returns score and membership from what stands beside a name: both, a number, or true or false."""
    if isinstance(entry, bool):
        return None, entry
    if not isinstance(entry, dict):
        return _number(name, entry, unscored), None
    member = entry.get("in_graph")
    if member is not None and not isinstance(member, bool):
        raise ScoresError(f"{_short(name)}: in_graph is {_short(member)}, not true or false")
    score = entry.get("score")
    return None if score is None else _number(name, score, unscored), member


def _number(name: str, value: Any, unscored: bool = False) -> float:
    """Returns a finite number, or NaN where that may stand for no score."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ScoresError(f"{_short(name)}: {_short(value)} is not a score")
    if isinstance(value, int) and abs(value) > 1e300:
        value = math.inf
    if not (math.isfinite(value) or (unscored and math.isnan(value))):
        raise ScoresError(f"{_short(name)}: the score is {value}, not a finite number")
    return float(value)


def _acdc(rows: list[Any], graph: Graph) -> Imported:
    """Reads rows `[child, index, parent, index]`, or pairs of such a row and an effect size.

    Edges that the list leaves out are not in the circuit, and rank last. Of an edge that comes twice, from
    the token and from the position embedding, the larger effect counts.
    """
    found, sizes = _Found(graph), dict[tuple[int, int], float | None]()
    for row in rows:
        pair = isinstance(row, list) and len(row) == 2 and isinstance(row[0], list)
        edge, effect = row if pair else (row, None)
        if not (isinstance(edge, list) and len(edge) == 4):
            raise ScoresError(f"{_short(row)} is not [child hook, index, parent hook, index]")
        place = found.hooks(_hook(*edge[:2]), _hook(*edge[2:]))
        size = None if effect is None else _number(str(edge[0]), effect)
        if place is not None:
            before = sizes.get(place)
            sizes[place] = size if before is None else before if size is None else max(before, size)
    if not sizes:
        raise ScoresError("holds no edge of the residual stream")
    effects = [size for size in sizes.values() if size is not None]
    scored = len(effects) == len(sizes)
    if scored:
        found.edges[graph.legal] = min(effects) - 1
    found.member[graph.legal] = False
    for place, size in sizes.items():
        found.put(place, size if scored else None, True)
    return found.finish("acdc")


def _hook(name: Any, index: Any) -> Hook:
    """Returns a place; its index is `[null, null, 3]`, or ACDC's text for that, `[:, :, 3]`."""
    if isinstance(index, str):
        parts = index.removeprefix("[").removesuffix("]").replace("COLON", ":").split(",")
        index = [None if part.strip() == ":" else _digits(part.strip()) for part in parts]
    good = isinstance(index, list) and len(index) <= 3
    if not (isinstance(name, str) and good and all(x is None or type(x) is int for x in index)):
        raise ScoresError(f"{_short(name)} {_short(index)} is not a hook and an index [:, :, 3]")
    return _name(name), tuple(index)


def _digits(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else text


def _csv(text: str, graph: Graph) -> Imported:
    """Reads rows `edge[,score]` or `source,target[,score]`, with a header or without.

    Without scores it is a circuit. A row may also name a node and its score.
    """
    found, circuit = _Found(graph), False
    try:
        rows = [[cell.strip() for cell in row] for row in csv.reader(StringIO(text)) if row]
    except csv.Error as error:
        raise ScoresError(f"not readable as CSV: {error}") from None
    if rows and rows[0][0].lower() in ("edge", "name", "source"):
        rows = rows[1:]
    for number, row in enumerate(rows, 1):
        apart = "->" not in row[0] and len(row) > 1 and not _is_number(row[1])
        name, *rest = ["->".join(row[:2]), *row[2:]] if apart else row
        if len(rest) > 1 or (number > 1 and circuit != (not rest)):
            raise ScoresError(f"row {number} has {len(row)} columns; write edge,score or source,target,score")
        circuit = not rest
        score = None if circuit else _number(name, _float(name, rest[0]))
        if "->" in name:
            found.edge(_name(name), score, True if circuit else None)
        else:
            found.node(_name(name), score)
    if circuit:
        found.member[graph.legal & (found.member < 0)] = False
    return found.finish("csv")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _float(name: str, text: str) -> float:
    if not _is_number(text):
        raise ScoresError(f"{_short(name)}: {_short(text)} is not a score")
    return float(text)


def _name(text: str) -> str:
    if len(text) > 80:
        raise ScoresError(f"{_short(text)} is not a name")
    return text


def _short(value: Any) -> str:
    """Returns a value for an error line."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
