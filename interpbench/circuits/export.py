"""Writes scores and circuits in the forms that `formats.py` reads."""

import csv
import json
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from interpbench.circuits.components import Edge, Hook, acdc_hooks, eap_name
from interpbench.circuits.formats import Form
from interpbench.circuits.graph import Graph
from interpbench.circuits.scores import Scores
from interpbench.core.files import write_text

Places = Mapping[Edge, tuple[int, int]]


def write_scores(
    path: Path,
    graph: Graph,
    form: Form,
    *,
    scores: Scores | None = None,
    circuit: np.ndarray | None = None,
    d_model: int = 1,
) -> None:
    """Writes scores, a circuit, or both; ACDC's list and CSV then hold the circuit's edges only.

    Args:
        path: the file.
        graph: of the network.
        form: which of `FORMS`.
        scores: what to write; without, edges are only in the circuit or not. In EAP-IG's form these then have
            the scores 1 and 0, as its readers want one for every edge.
        circuit: `[reader, writer]` bool.
        d_model: the network's width, which EAP-IG wants to know.
    """
    rows, columns = np.nonzero(graph.legal)
    places = dict(zip(graph.edges, zip(rows.tolist(), columns.tolist())))
    if form == "eap_ig":
        text = _eap_ig(places, graph, scores, circuit, d_model)
    else:
        kept = {edge: at for edge, at in places.items() if circuit is None or circuit[at]}
        text = (_acdc if form == "acdc" else _csv)(kept, graph, scores)
    write_text(path, text)


def _eap_ig(
    places: Places, graph: Graph, scores: Scores | None, circuit: np.ndarray | None, d_model: int
) -> str:
    inside = np.zeros_like(graph.legal) if circuit is None else circuit & graph.legal
    shape = {"n_layers": graph.n_layers, "n_heads": graph.n_heads, "d_model": d_model}
    nodes: dict[str, dict[str, Any]] = {
        eap_name(node): {"in_graph": bool(inside[:, index].any())} for index, node in enumerate(graph.nodes)
    }
    if scores is not None and scores.own_nodes is not None:
        for entry, score in zip(nodes.values(), scores.own_nodes):
            entry["score"] = float(score)
    nodes["logits"] = {"in_graph": True}
    values = inside if scores is None else scores.edges
    edges = {
        edge.eap_name: {"score": float(values[at]), "in_graph": bool(inside[at])}
        for edge, at in places.items()
    }
    data = {"cfg": {**shape, "parallel_attn_mlp": False}, "nodes": nodes, "edges": edges}
    return json.dumps(data, allow_nan=False) + "\n"


def _acdc(places: Places, graph: Graph, scores: Scores | None) -> str:
    rows: list[Any] = []
    for edge, at in places.items():
        (child, below), (parent, above) = acdc_hooks(edge)
        row = [child, _index((child, below)), parent, _index((parent, above))]
        rows.append(row if scores is None else [row, float(scores.edges[at])])
    return "[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n"


def _index(hook: Hook) -> str:
    """Returns an index as ACDC writes it: `[:, :, 3]`."""
    return f"[{', '.join(':' if part is None else str(part) for part in hook[1])}]"


def _csv(places: Places, graph: Graph, scores: Scores | None) -> str:
    text = StringIO()
    write = csv.writer(text, lineterminator="\n").writerow
    write(["edge"] if scores is None else ["edge", "score"])
    for edge, at in places.items():
        write([str(edge)] if scores is None else [str(edge), repr(float(scores.edges[at]))])
    if scores is not None and scores.own_nodes is not None:
        for node, score in zip(graph.nodes, scores.own_nodes):
            write([str(node), repr(float(score))])
    return text.getvalue()
