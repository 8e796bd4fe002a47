"""The HTML page of an evaluation: one file that needs no network and no other file.

Tables, curves and pictures are drawn by the page's own script (`page.js`) from the data that is put into it:
every method's scores, as ranks and the distinct values they stand for, and each network's truth and layout.
AUROC, average precision and faithfulness are the records'; the script computes ROC, precision and counts from
ranks, which no rounding of scores can change.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from interpbench.circuits.ground_truth import LEVELS, Truth
from interpbench.circuits.naming import Node
from interpbench.core.errors import CheckpointError, ScoresError
from interpbench.core.files import write_text
from interpbench.reports.layout import GAP, HEIGHT, PORT, TIP, WIDTH, Layout, Wire
from interpbench.reports.text import LEVEL_NAMES
from interpbench.scoring.evaluation_record import EvaluationRecord
from interpbench.scoring.results import Faithfulness


@dataclass(frozen=True)
class Network:
    """What a page shows of a network.

    Attributes:
        title: what to call it.
        truth: the states of its nodes and edges.
        variables: what each node carries.
    """

    title: str
    truth: Truth
    variables: Mapping[Node, tuple[str, ...]]


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
    models: list[dict[str, Any]] = []
    for checkpoint, network in networks.items():
        own = {label: record for label, record in kept if record.checkpoint == checkpoint}
        if own:
            found = [_result(methods.index(label), record, network) for label, record in sorted(own.items())]
            models.append({**_network(network), "results": found})
    models.sort(key=lambda model: model["title"])
    data = {"levels": LEVEL_NAMES, "methods": methods, "models": models, "about": about}
    text = json.dumps(data, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
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


def _network(network: Network) -> dict[str, Any]:
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


def _states(truth: Truth, level: str) -> list[int]:
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


def _result(method: int, record: EvaluationRecord, network: Network) -> dict[str, Any]:
    """Returns the numbers and scores of one method on one network."""
    graph = network.truth.graph
    try:
        edges = record.edges.array(graph.edges)
        own = record.nodes and record.nodes.array(graph.nodes)
    except ScoresError:
        raise CheckpointError(
            f"the record of {record.method} on {record.task} is of another network"
        ) from None
    curves = {level: record.levels.get(level) for level in LEVELS}
    return {
        "method": method,
        "structural": record.structural,
        "auroc": {level: _short(curve and curve.auroc) for level, curve in curves.items()},
        "precision": {level: _short(curve and curve.average_precision) for level, curve in curves.items()},
        "faithfulness": _faithfulness(record.behaviour.faithfulness),
        "passes": [record.cost.forward_examples, record.cost.backward_examples]
        if record.cost
        else [None, None],
        "seconds": record.seconds if record.cost else None,
        **_ranks(edges),
        "own": None if own is None else _ranks(own),
    }


def _faithfulness(found: Faithfulness | None) -> dict[str, list[Any]] | None:
    """Returns (share of edges, f, low, high) of each size, and (value, low, high) of the areas."""
    if found is None:
        return None
    curves = zip(found.sizes, found.curve, found.curve_low, found.curve_high)
    areas = {"cpr": found.cpr, "cmd": found.cmd}
    return {
        "points": [[round(value, 4) for value in point] for point in curves],
        **{name: [round(x, 4) for x in (area.value, *area.ends)] for name, area in areas.items()},
    }


def _ranks(scores: np.ndarray) -> dict[str, list[Any]]:
    """Returns each score's place among the distinct scores, from the lowest, and those to four digits."""
    values, ranks = np.unique(scores, return_inverse=True)
    return {"ranks": ranks.tolist(), "values": [float(f"{value:.4g}") for value in values]}


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def _round(place: tuple[float, float]) -> tuple[float, float]:
    return round(place[0], 3), round(place[1], 3)
