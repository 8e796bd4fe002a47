"""The JSON format of EAP-IG and MIB: `cfg`, `nodes` and `edges`, with `score` and `in_graph`.

A mapping from edges to scores, or to true and false, can be read as well, and so can the record of an
evaluation, whose scores are in the order of the graph.
"""

import json
from typing import ClassVar

import numpy as np

from interpbench.circuits.io.form import JSON, Contents, form
from interpbench.circuits.io.found import FoundScores, finite_number, short
from interpbench.circuits.naming import eap_name
from interpbench.circuits.ordered_scores import OrderedScores
from interpbench.core.config import checked
from interpbench.core.errors import ScoresError


@form("eap_ig")
class EapIgGraph:
    """A graph as EAP-IG writes it."""

    title: ClassVar[str] = "a graph of EAP-IG"
    suffix: ClassVar[str] = JSON

    def recognises(self, document: object) -> bool:
        """Returns whether a document is a mapping."""
        return isinstance(document, dict)

    def read(self, document: object, found: FoundScores) -> None:
        """Reads the scores of a graph's nodes and edges, and which of them are in the circuit."""
        assert isinstance(document, dict)
        whole = document if {"edges", "nodes"} & set(document) else {"edges": document}
        parts = {key: whole.get(key) or {} for key in ("cfg", "nodes", "edges")}
        for key, things in (("nodes", found.graph.nodes), ("edges", found.graph.edges)):
            if isinstance(part := parts[key], dict) and part.keys() == {"order", "values"}:
                ordered = checked(OrderedScores, part, f"its {key!r}", ScoresError)
                parts[key] = dict(zip(map(str, things), ordered.array(things).tolist()))
        for key, part in parts.items():
            if not isinstance(part, dict):
                raise ScoresError(f"its {key!r} is not a mapping")
        for key, ours in (("n_layers", found.graph.n_layers), ("n_heads", found.graph.n_heads)):
            if (theirs := parts["cfg"].get(key, ours)) != ours:
                raise ScoresError(f"the file is of a network with {key}={short(theirs)}; this one has {ours}")
        for name, entry in parts["edges"].items():
            found.edge(name, *_entry(name, entry))
        for name, entry in parts["nodes"].items():
            if name != "logits":
                found.node(name, _entry(name, entry, unscored=True)[0])
        problem = whole.get("problem")
        found.problem = problem if isinstance(problem, str) else None

    def write(self, contents: Contents) -> str:
        """Returns a graph. EAP-IG needs scores: without any, edges in the circuit have 1 and others 0."""
        graph, scores, circuit = contents.graph, contents.scores, contents.circuit
        inside = np.zeros_like(graph.legal) if circuit is None else circuit & graph.legal
        shape = {"n_layers": graph.n_layers, "n_heads": graph.n_heads, "d_model": contents.d_model}
        nodes: dict[str, dict[str, bool | float]] = {
            eap_name(node): {"in_graph": bool(inside[:, index].any())}
            for index, node in enumerate(graph.nodes)
        }
        if scores is not None and scores.own_nodes is not None:
            for entry, score in zip(nodes.values(), scores.own_nodes):
                entry["score"] = float(score)
        nodes["logits"] = {"in_graph": True}
        values = inside if scores is None else scores.edges
        edges = {
            eap_name(edge): {"score": float(values[at]), "in_graph": bool(inside[at])}
            for edge, at in contents.places.items()
        }
        data = {"cfg": {**shape, "parallel_attn_mlp": False}, "nodes": nodes, "edges": edges}
        return json.dumps(data, allow_nan=False) + "\n"


def _entry(name: str, entry: object, unscored: bool = False) -> tuple[float | None, bool | None]:
    """Returns the score of an edge or node, and whether it is in the circuit; None for what is not said.

    Args:
        name: its name, for error messages.
        entry: a number, true or false, or a mapping with `score` and `in_graph`.
        unscored: whether a score may be NaN, which stands for no score.
    """
    if isinstance(entry, bool):
        return None, entry
    if not isinstance(entry, dict):
        return finite_number(name, entry, unscored), None
    member = entry.get("in_graph")
    if member is not None and not isinstance(member, bool):
        raise ScoresError(f"{short(name)}: in_graph is {short(member)}, not true or false")
    score = entry.get("score")
    return None if score is None else finite_number(name, score, unscored), member
