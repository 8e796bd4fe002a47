"""Made-up certificates for any ground truth, which are complete, and good or with chosen faults."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interpbench.checkpoints.load import load_checkpoint
from interpbench.checkpoints.record import read_record
from interpbench.circuits.ground_truth import State, Truth
from interpbench.runs.certify import rows_of_all_pairs
from interpbench.runs.subject import subject_of
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.identity import task_sha256

SETS = ("all", "subsets", "subsets, a source for each")
EFFECTIVE = ("effective", "effective_positions")
KINDS = {
    "behaviour": ("accuracy",),
    "iit": ("variables", "effective", "positions", "effective_positions"),
    "siit": ("nodes", "node_sets"),
    "siit+edges": ("edges", "edge_sets", "required_edges", "effective_edges"),
}


def rate(wrong: int = 0, rows: int = 8192, looks: int = 1) -> dict[str, int]:
    return {"wrong": wrong, "rows": rows, "looks": looks}


def proof_of(
    truth: Truth,
    alignment: Mapping[str, str],
    wrong: Mapping[str, Mapping[str, int]] | None = None,
    upto: str = "adversarial",
    all_pairs: bool = False,
    attacks: Mapping[str, int] | None = None,
    **entries: Any,
) -> dict[str, Any]:
    """Returns a made-up certificate, whose rates are over 8,192 rows, or over 65,536 pairs.

    Args:
        truth: the ground truth of the network.
        alignment: the node of each variable.
        wrong: for each kind of rate and each node or edge (`first` for the first one of the kind), the number
            of wrong rows, of those from the strata or of all pairs.
        upto: the grade up to which rates are measured.
        all_pairs: whether rates are over all pairs, except those with random sets patched.
        attacks: for `nodes` or `edges`, on how many of 4,096 rows the worst set is wrong.
        **entries: values of the certificate's fields that replace the made-up ones.
    """
    carried: dict[str, list[str]] = {}
    for variable, node in alignment.items():
        if node != "embed":
            carried.setdefault(node, []).append(variable)
    nodes = [name for name in map(str, truth.graph.nodes) if name not in {"embed", *carried}]
    inert = [*truth.names("qkv_edge", State.FORBIDDEN), *truth.names("qkv_edge", State.ALLOWED)]
    required = truth.required
    vacuous = [name for name in carried if name in truth.names("node", State.ALLOWED)]
    places = {
        "accuracy": ["output"],
        **{kind: list(carried) for kind in ("variables", "positions")},
        **{kind: [name for name in carried if name not in vacuous] for kind in EFFECTIVE},
        **{"nodes": nodes, "edges": inert, "required_edges": required, "effective_edges": required},
        **{"node_sets": SETS if nodes else (), "edge_sets": SETS if inert else ()},
    }
    kinds = [kind for name in list(KINDS)[: [*KINDS, "adversarial"].index(upto) + 1] for kind in KINDS[name]]

    def draws(kind: str, place: str) -> dict[str, Any]:
        said = (wrong or {}).get(kind, {})
        bad = said.get(place, said.get("first", 0) if place == places[kind][0] else 0)
        if all_pairs and place not in SETS[1:]:
            return {"pairs": rate(bad, 65_536, 0)}
        return {"task": rate(), "strata": rate(bad)}

    found = {
        kind: {
            "rates": {"task": rate(0, 4096), "strata": rate((attacks or {}).get(kind, 0), 4096)},
            **{"places": names[:3], "sources": [0, 1, 2][: len(names[:3])]},
            **{"candidates": 100, "searched_rows": 9999, "by": "greedy"},
        }
        for kind, names in (("nodes", nodes), ("edges", inert))
        if names
    }
    each = 1 + 100_000 // max(1, len(inert))
    passed = {edge: [10 * each, each, 0] for edge in inert}
    run = 100_000 * len(inert)
    return {
        "format": 2,
        "all_pairs": all_pairs,
        "trained_on_all": True,
        "held_out": None,
        "strata": ["one token", "ties"],
        "variables": carried,
        "rates": {kind: {place: draws(kind, place) for place in places[kind]} for kind in kinds},
        "vacuous": dict.fromkeys(EFFECTIVE, vacuous),
        "required_effect": {
            name: 0.25 for name in [*truth.names("node", State.REQUIRED), *required] if name != "embed"
        },
        "screen": {
            **{"share": 0.2, "items": run + 10 * each * len(inert), "run": run},
            **{"sampled": each * len(inert), "wrong": 0, "largest": 0.01, "edges": passed},
        },
        "attacks": found if upto == "adversarial" else {},
        "margin": 0.02,
        "margin_kind": "largest error",
        "stress": {"zero": 0.5},
        "attempts": 0,
        "settings": {"pairs": 8192},
        **entries,
    }


def certificate_of(folder: Path, **faults: Any) -> dict[str, Any]:
    """Returns a made-up certificate of a checkpoint, with the identity of its network."""
    record = read_record(folder)
    truth, task = record.read_truth, get_task(record.task)
    identity = {"weights": record.sha256, "truth": truth.sha256, "task": task_sha256(task)}
    every = task.domain.enumerated
    held_out = None if every else {"bases": 1.0, "sources": 1.0}
    domain = {"strata": list(task.strata.names), "trained_on_all": every, "held_out": held_out}
    made = proof_of(truth, record.alignment, **{**domain, **faults})
    if made["all_pairs"]:
        checkpoint = load_checkpoint(folder, certificate=False)
        for (kind, place), rows in rows_of_all_pairs(subject_of(checkpoint), checkpoint.network).items():
            if "pairs" in (draws := made["rates"].get(kind, {}).get(place, {})):
                draws["pairs"]["rows"] = rows
    return {**made, "identity": identity}


def put_certificate(folder: Path, **faults: Any) -> dict[str, Any]:
    """Writes a made-up certificate of a checkpoint and returns it."""
    certificate = certificate_of(folder, **faults)
    (folder / "certificate.json").write_text(json.dumps(certificate))
    return certificate
