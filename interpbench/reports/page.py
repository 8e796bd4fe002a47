"""The HTML page of an evaluation: one file that needs no network and no other file.

Tables, curves and pictures are drawn by the page's own script (`page.js`) from the data that is put into it:
every method's scores, as ranks and the distinct values they stand for, and each network's truth and layout.
Every metric, curve and mean is a record's or computed here. The script orders and counts, by ranks, which no
rounding of scores can change; for what is counted it looks shares and precision up.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np

from interpbench.circuits.ground_truth import LEVELS, Level, State, Truth
from interpbench.circuits.naming import Node
from interpbench.circuits.ordered_scores import scores_of
from interpbench.circuits.scores import Scores
from interpbench.core.errors import CheckpointError, ScoresError
from interpbench.core.files import write_text
from interpbench.reports.labels import LEVEL_NAMES
from interpbench.reports.layout import GAP, HEIGHT, PORT, TIP, WIDTH, Layout, Wire
from interpbench.scoring.curves import labels_and_scores
from interpbench.scoring.evaluation_record import EvaluationRecord
from interpbench.scoring.ranking_groups import Groups
from interpbench.scoring.results import Faithfulness

MOST_SHOWN = 80
"""The longest value of a setting that a page shows."""


@dataclass(frozen=True)
class Network:
    """What a page shows of a network.

    Attributes:
        title: what to call it.
        truth: the states of its nodes and edges.
        variables: what each node carries.
        says: what its task is, how it was made and what its certificate reaches, in sentences.
    """

    title: str
    truth: Truth
    variables: Mapping[Node, tuple[str, ...]]
    says: str = ""


@dataclass(frozen=True)
class _Ranking:
    """Each score's place among the distinct scores, from the lowest, and those to four digits."""

    ranks: list[int]
    values: list[float]


@dataclass(frozen=True)
class _Curve:
    """(share of edges, f, low, high) of each size, and (value, low, high) of the areas."""

    points: list[list[float]]
    cpr: list[float]
    cmd: list[float]


@dataclass(frozen=True)
class _Result:
    """One method on one network; `precision`, in thousandths, is that of what reaches each distinct score."""

    method: int
    structural: bool
    settings: str
    headline: Level
    auroc: dict[Level, float | None]
    average_precision: dict[Level, float | None]
    roc: dict[Level, list[tuple[float, float]]]
    precision: dict[Level, list[int]]
    faithfulness: _Curve | None
    forward_passes: int | None
    backward_passes: int | None
    cpu_seconds: float | None
    edges: _Ranking
    nodes: _Ranking | None

    def counts_at(self, level: Level) -> bool:
        """Returns whether a mean of a level takes it: not of q/k/v edges where head edges are compared."""
        return level != "qkv_edge" or self.headline == level


def write_page(
    path: Path,
    results: Sequence[tuple[str, EvaluationRecord]],
    networks: Mapping[str, Network],
    about: str = "",
) -> None:
    """Writes the page.

    Args:
        path: the file.
        results: what to call each method with its settings, and its record on one network.
        networks: the networks, by the `checkpoint` of their records; records on others are left out.
        about: a sentence for the page's head.

    Raises:
        CheckpointError: if a record's edges are not its network's.
    """
    kept = [(label, record) for label, record in results if record.checkpoint in networks]
    methods = sorted({label for label, _ in kept})
    found: dict[str, list[_Result]] = {}
    for checkpoint, network in networks.items():
        own = {label: record for label, record in kept if record.checkpoint == checkpoint}
        if own:
            found[checkpoint] = [
                _result(methods.index(label), one, network) for label, one in sorted(own.items())
            ]
    shown = sorted(found, key=lambda checkpoint: networks[checkpoint].title)
    models = [{**_network(networks[checkpoint]), "results": found[checkpoint]} for checkpoint in shown]
    every = [one for results in found.values() for one in results]
    means = [_means([one for one in every if one.method == method]) for method in range(len(methods))]
    counts = {count for checkpoint in found for count in _counts(networks[checkpoint].truth)}
    data = {
        **{"levels": LEVEL_NAMES, "methods": methods, "means": means, "models": models, "about": about},
        "shares": {n: [round(count / n, 6) for count in range(n + 1)] for n in sorted(counts) if n},
    }
    text = json.dumps(data, separators=(",", ":"), allow_nan=False, ensure_ascii=False, default=vars)
    page = _asset("page.html")
    for place, content in (
        ("/*STYLE*/", _asset("page.css")),
        ("/*SCRIPT*/", _asset("page.js")),
        ("/*DATA*/", text.replace("<", "\\u003c")),
    ):
        page = page.replace(place, content, 1)
    write_text(path, page)


def _asset(name: str) -> str:
    return files("interpbench.reports").joinpath(name).read_text(encoding="utf-8").strip()


def _network(network: Network) -> dict[str, object]:
    """Returns truth and drawing; lengths are inches, from the lower left corner."""
    truth, graph, layout = network.truth, network.truth.graph, Layout(network.truth.graph)
    wires = [Wire(edge, "") for edge in graph.edges]
    routes = layout.route(wires)
    edges: list[list[float | int | None]] = []
    for wire in wires:
        curves = routes[wire]
        lane = round(curves[1][0][0], 3) if len(curves) > 1 else None
        source, reader = graph.node_index[wire.edge.source], graph.reader_index[wire.edge.target]
        edges.append([source, reader, lane, round(curves[-1][3][0], 3)])
    layers = range(graph.n_layers)
    return {
        "title": network.title,
        "about": f"{graph.n_layers} layers of {graph.n_heads} heads, {len(edges):,} edges",
        "nodes": [str(node) for node in graph.nodes],
        "readers": [str(reader) for reader in graph.readers],
        "edges": edges,
        "headline": truth.headline,
        "says": network.says,
        "truth": {level: _states(truth, level) for level in LEVELS},
        "drawing": {
            "size": _round(layout.size),
            "box": (WIDTH, HEIGHT),
            "gap": GAP,
            "tip": TIP,
            "port": PORT,
            "places": [_round(place) for place in (*(layout.nodes[n] for n in graph.nodes), layout.logits)],
            "entrances": [round(layout.entrance(reader)[1], 3) for reader in graph.readers],
            "bands": [_round(layout.band(layer)) for layer in layers],
            "carries": [list(network.variables.get(node, ())) for node in graph.nodes],
        },
    }


def _states(truth: Truth, level: Level) -> list[int]:
    """Returns the states of what there is at a level: of edges those that exist, by reader, then by writer.

    Head edges come in the order in which the graph's edges first name them.
    """
    graph = truth.graph
    if level == "node":
        return truth.nodes.tolist()
    if level == "qkv_edge":
        return truth.qkv_edges[graph.legal].tolist()
    places = dict.fromkeys((graph.reader_destination[r], w) for r, w in np.argwhere(graph.legal).tolist())
    return [int(truth.head_edges[place]) for place in places]


def _counts(truth: Truth) -> Iterator[int]:
    """Yields how many are required, required or allowed, and forbidden at each level."""
    for level in LEVELS:
        states = truth.at(level)[level == "node" :]  # the embedding does not count
        required, allowed, forbidden = (
            int((states == state).sum()) for state in (State.REQUIRED, State.ALLOWED, State.FORBIDDEN)
        )
        yield from (required, required + allowed, forbidden)


def _result(method: int, record: EvaluationRecord, network: Network) -> _Result:
    """Returns the numbers and scores of one method on one network."""
    truth, cost, levels = network.truth, record.cost, record.levels
    try:
        scores = scores_of(truth.graph, record.edges, record.nodes)
    except ScoresError:
        raise CheckpointError(
            f"the record of {record.method} on {record.task} is of another network"
        ) from None
    return _Result(
        method,
        record.structural,
        _settings(record),
        truth.headline,
        auroc={level: _short(levels[level].auroc) for level in LEVELS},
        average_precision={level: _short(levels[level].average_precision) for level in LEVELS},
        roc={level: [_round(point, 4) for point in levels[level].roc] for level in LEVELS},
        precision={level: _precision(truth, scores, level, record.structural) for level in LEVELS},
        faithfulness=_faithfulness(record.behaviour.faithfulness),
        forward_passes=cost and cost.forward_examples,
        backward_passes=cost and cost.backward_examples,
        cpu_seconds=record.cpu_seconds,
        edges=_ranking(scores.edges[truth.graph.legal]),
        nodes=None if scores.own_nodes is None else _ranking(scores.own_nodes),
    )


def _settings(record: EvaluationRecord) -> str:
    """Returns a method's settings and what else decides its numbers, as on a command line."""
    made = record.conditions
    kept = {"examples": made.examples, "data": made.data, "corruption": made.corruption}
    said = {**record.settings, **{name: value for name, value in kept.items() if value is not None}}
    return ", ".join(f"{name}={_plain(value)}" for name, value in {**said, "seed": record.seed}.items())


def _plain(value: object) -> str:
    """Returns a value of a setting in few characters."""
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


def _precision(truth: Truth, scores: Scores, level: Level, structural: bool) -> list[int]:
    required, values = labels_and_scores(truth, scores, level, structural)
    if not len(required):
        return []
    hits, taken = Groups(values).sums(np.stack([required, np.ones(len(required))])).cumsum(1)
    return np.floor(1000 * hits / taken + 0.5).astype(int).tolist()


def _means(results: Sequence[_Result]) -> list[float | list[float | None] | None]:
    """Returns a method's row of the page's table: on how many networks it was run, and means over them."""

    def mean(values: Iterable[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return sum(known) / len(known) if known else None

    faithful = [one.faithfulness for one in results if one.faithfulness]
    return [
        len(results),
        *(
            [
                mean(one.auroc[level] for one in results if one.counts_at(level)),
                mean(one.average_precision[level] for one in results if one.counts_at(level)),
            ]
            for level in LEVELS
        ),
        [mean(curve.cpr[0] for curve in faithful), mean(curve.cmd[0] for curve in faithful)],
        mean(one.forward_passes for one in results),
        mean(one.backward_passes for one in results),
        mean(one.cpu_seconds for one in results),
    ]


def _faithfulness(found: Faithfulness | None) -> _Curve | None:
    if found is None:
        return None
    points = zip(found.sizes, found.curve, found.curve_low, found.curve_high)
    numbers = (*points, (found.cpr.value, *found.cpr.ends), (found.cmd.value, *found.cmd.ends))
    *curve, cpr, cmd = [[round(x, 4) for x in some] for some in numbers]
    return _Curve(curve, cpr, cmd)


def _ranking(scores: np.ndarray) -> _Ranking:
    values, ranks = np.unique(scores, return_inverse=True)
    return _Ranking(ranks.tolist(), [float(f"{value:.4g}") for value in values])


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def _round(place: tuple[float, float], digits: int = 3) -> tuple[float, float]:
    return round(place[0], digits), round(place[1], digits)
