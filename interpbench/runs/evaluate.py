"""Scores a method on checkpoints: table, JSON records, pictures."""

import json
import logging
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic.dataclasses import dataclass

from interpbench.checkpoints.find import find_checkpoints
from interpbench.checkpoints.format import Checkpoint, load_checkpoint, load_pairs
from interpbench.circuits.components import EMBED, Node, parse_node
from interpbench.circuits.scores import Scores
from interpbench.core.config import STRICT, Count, convert
from interpbench.core.errors import ConfigError, InterpBenchError
from interpbench.core.files import read_json, sha256, write_json
from interpbench.discovery.method import get_method
from interpbench.runs.device import select_device
from interpbench.scoring.records import Record, compare, edge_scores, node_scores

log = logging.getLogger(__name__)


@dataclass(frozen=True, config=STRICT)
class EvaluateConfig:
    """Everything about an evaluation; `configs/evaluate.yaml` says what each key means."""

    method: dict[str, Any]
    checkpoint: str | int = "all"
    examples: Count = 256
    data: Literal["stored", "fresh"] = "stored"
    corruption: str | None = None
    task: str | None = None
    structural: bool = False
    pictures: bool = True
    seed: int = 0
    device: str = "auto"
    threads: Count = 1
    out: str = "runs/evaluate"

    def folder(self, checkpoint: Checkpoint) -> Path:
        """Returns where the results on a checkpoint go: `out/<task>`, or `out/<task>/<run>` for a run."""
        run = checkpoint.folder.name
        return Path(self.out) / checkpoint.task / ("" if run == checkpoint.task else run)


def run(data: Mapping[str, Any]) -> bool:
    """Runs a composed configuration; returns whether every checkpoint could be evaluated."""
    config = convert(EvaluateConfig, data, "evaluate")
    records, failures = evaluate(config)
    if records:
        from rich.console import Console

        from interpbench.reports.tables import records_table

        Console(width=None if sys.stdout.isatty() else 120).print(records_table(records))
        log.info("records and pictures in %s", config.out)
        if config.pictures:
            from interpbench.runs.page import write_folder_page

            write_folder_page(Path(config.out), str(config.checkpoint))
    for failure in failures:
        log.error("failed: %s", failure)
    return not failures


def evaluate(config: EvaluateConfig) -> tuple[list[Record], list[str]]:
    """Evaluates one method on all chosen checkpoints; returns records and what failed."""
    import torch

    if config.corruption is not None and config.data == "stored":
        raise ConfigError("stored pairs are corrupted already; say data=fresh with a corruption")
    torch.set_num_threads(config.threads)
    get_method(*_method(config))  # a mistake in its settings is not a failure of every checkpoint
    records: list[Record] = []
    failures: list[str] = []
    for folder in find_checkpoints(str(config.checkpoint)):
        try:
            records.append(evaluate_checkpoint(load_checkpoint(folder), config))
        except InterpBenchError as error:
            failures.append(f"{folder}: {error}")
    return records, failures


def evaluate_checkpoint(checkpoint: Checkpoint, config: EvaluateConfig) -> Record:
    """Runs a method on one checkpoint, scores it, and writes record and pictures."""
    name, settings = _method(config)
    method = get_method(name, settings)
    network = checkpoint.model.to(select_device(config.device))
    problem = _pairs(checkpoint, config).problem(network, config.examples, config.seed)
    started = time.perf_counter()
    scores = method(problem)
    seconds = time.perf_counter() - started
    record = Record(
        task=checkpoint.task,
        checkpoint=checkpoint.record.sha256,
        method=name,
        settings=settings,
        seed=config.seed,
        structural=config.structural,
        levels=compare(checkpoint.truth, scores, config.structural),
        cost=dict(scores.cost.__dict__),
        seconds=seconds,
        edges=edge_scores(scores),
        nodes=node_scores(scores),
    )
    folder = config.folder(checkpoint)
    write_json(folder / f"{label(record, config)}.json", record.to_json())
    if config.pictures:
        draw(checkpoint, record, scores, folder, label(record, config))
    return record


def _method(config: EvaluateConfig) -> tuple[str, dict[str, Any]]:
    """Returns the method's name and its settings."""
    settings = dict(config.method)
    return str(settings.pop("name", None)), settings


def _pairs(checkpoint: Checkpoint, config: EvaluateConfig) -> Any:
    if config.data == "stored":
        return load_pairs(checkpoint.folder)
    from interpbench.runs.certify import task_of
    from interpbench.tasks.catalogue import get_task
    from interpbench.tasks.data import draw_pairs

    if config.task is not None:
        get_task(config.task)
    return draw_pairs(task_of(checkpoint), config.examples, config.seed, config.corruption)


def label(record: Record, config: EvaluateConfig) -> str:
    """Returns the method's name with every setting that is not the default: the stem of its files."""
    default = get_method(record.method)
    changed = {k: v for k, v in record.settings.items() if jsonable(getattr(default, k)) != jsonable(v)}
    for field in ("seed", "examples", "data", "corruption", "structural"):
        if getattr(config, field) != getattr(EvaluateConfig, field):
            changed[field] = getattr(config, field)
    parts = [f"{key}={json.dumps(value)}".replace('"', "").replace(" ", "") for key, value in changed.items()]
    name = "-".join([record.method, *parts])
    return name if len(name) <= 80 else f"{record.method}-{sha256(name.encode())[:8]}"


def jsonable(value: Any) -> Any:
    """Returns a setting as JSON would give it back."""
    return json.loads(json.dumps(value))


def draw(checkpoint: Checkpoint, record: Record, scores: Scores, folder: Path, name: str) -> None:
    """Draws what the method found against the truth, and the ROC of all methods run on this checkpoint."""
    from interpbench.reports.drawing import draw_circuit
    from interpbench.reports.plots import roc_figure

    title = f"{checkpoint.task}: {name}"
    draw_circuit(checkpoint.truth, folder / f"circuit-{name}.png", variables(checkpoint), scores, title)
    roc_figure(read_records(folder, record), folder / "roc.png")


def variables(checkpoint: Checkpoint) -> dict[Node, tuple[str, ...]]:
    """Returns the variables that each node carries."""
    placed: dict[Node, tuple[str, ...]] = {}
    for name, place in checkpoint.record.alignment.items():
        node = parse_node(place)
        if node != EMBED:
            placed[node] = (*placed.get(node, ()), name)
    return placed


def read_records(folder: Path, like: Record) -> list[Record]:
    """Returns the records in a folder that were made on the same weights, in the same way."""
    records: list[Record] = []
    for path in sorted(folder.glob("*.json")):
        data = read_json(path)
        if (data.get("checkpoint"), data.get("structural")) == (like.checkpoint, like.structural):
            records.append(Record.from_json(data))
    return records
