"""Gathers the records in a folder of evaluations and writes them as one HTML page."""

import logging
from pathlib import Path
from typing import Any

from interpbench.checkpoints.find import find_checkpoints
from interpbench.checkpoints.format import ModelRecord, read_record
from interpbench.circuits.components import EMBED, Node, parse_node
from interpbench.circuits.truth import Truth
from interpbench.core.errors import InterpBenchError
from interpbench.core.files import read_json
from interpbench.reports.page import Network, write_page
from interpbench.scoring.curves import Curve
from interpbench.scoring.records import Record

log = logging.getLogger(__name__)
PAGE = "report.html"


def write_folder_page(folder: Path, checkpoint: str = "all", out: Path | None = None) -> Path:
    """Writes a page of all records below a folder and returns its path.

    Args:
        folder: where evaluations were written, `runs/evaluate`.
        checkpoint: where the networks are that they were made on, as `evaluate.py` takes it; those that are
            released are found in any case.
        out: the page; None for `report.html` in the folder.

    Raises:
        InterpBenchError: if there are no records, or none of a network that is found.
    """
    results = read_results(folder)
    if not results:
        raise InterpBenchError(
            f"there are no records of evaluations in {folder}; python evaluate.py makes some"
        )
    found: dict[str, ModelRecord] = {}
    for name in dict.fromkeys((checkpoint, "all")):
        for place in find_checkpoints(name):
            record = read_record(place)
            found.setdefault(record.sha256, record)
    networks = _networks(found, {record.checkpoint for _, record in results})
    missing = sorted({record.task for _, record in results if record.checkpoint not in networks})
    if missing:
        log.warning("left out, their networks are not here (--checkpoint FOLDER): %s", ", ".join(missing))
    if not networks:
        raise InterpBenchError(
            f"none of the networks that {folder} is about is here; say --checkpoint FOLDER"
        )
    path = out or folder / PAGE
    write_page(path, results, networks)
    log.info("page: %s", path)
    return path


def read_results(folder: Path) -> list[tuple[str, Record]]:
    """Returns every record below a folder, with the name of its file, which tells settings apart."""
    results: list[tuple[str, Record]] = []
    for path in sorted(folder.glob("**/*.json")):
        data = read_json(path)
        if isinstance(data, dict) and {"method", "checkpoint", "levels", "edges"} <= set(data):
            results.append((path.stem, _record(path, data)))
    return results


def _record(path: Path, data: dict[str, Any]) -> Record:
    try:
        data["levels"] = {name: Curve(**curve) for name, curve in data["levels"].items()}
        return Record(**data)
    except (TypeError, AttributeError):
        raise InterpBenchError(f"{path} is damaged, or the record of another version") from None


def _networks(found: dict[str, ModelRecord], wanted: set[str]) -> dict[str, Network]:
    """Returns the networks that are wanted; several of one task are told apart by seed and weights."""
    chosen = {key: record for key, record in found.items() if key in wanted}
    tasks = [record.task for record in chosen.values()]
    networks: dict[str, Network] = {}
    for key, record in chosen.items():
        several = tasks.count(record.task) > 1
        title = f"{record.task}, seed {record.seed} ({key[:6]})" if several else record.task
        truth = Truth.from_json(record.shape.graph, record.truth)
        networks[key] = Network(title, truth, placed(record.alignment))
    return networks


def placed(alignment: dict[str, str]) -> dict[Node, tuple[str, ...]]:
    """Returns the variables that each node carries, without those at the embedding."""
    nodes: dict[Node, tuple[str, ...]] = {}
    for name, place in alignment.items():
        node = parse_node(place)
        if node != EMBED:
            nodes[node] = (*nodes.get(node, ()), name)
    return nodes
