"""Measures tasks for their records, and writes these and `docs/tasks.md`."""

import json
import logging
from dataclasses import asdict
from pathlib import Path

import numpy as np

from interpbench.alignment.alignment import Alignment, align
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.causal.model import has_value
from interpbench.circuits.ground_truth import Level, State, Truth
from interpbench.core import seeds
from interpbench.core.files import write_text
from interpbench.core.progress import Display
from interpbench.reports.task_table import tasks_markdown
from interpbench.tasks.catalogue import catalogue
from interpbench.tasks.identity import task_sha256
from interpbench.tasks.shapes import shape
from interpbench.tasks.task import RaspTask, Task
from interpbench.tasks.task_records import FILE, TaskRecord, records

log = logging.getLogger(__name__)
SAMPLE = 20_000
MARGIN_INPUTS = 2_000
DOCS = Path("docs/tasks.md")
STATES = (State.REQUIRED, State.ALLOWED, State.FORBIDDEN)


def record_of(task: Task) -> TaskRecord:
    """Returns the stored record of a task; measures one that has none, a user's own."""
    return records().get(task.name) or describe(task)


def describe(task: Task) -> TaskRecord:
    """Measures a task: truth, how often outputs occur, how clearly the compiled network decides."""
    graph = shape(task).graph
    truth = find_truth(align(task, graph))
    outputs = task.causal_model.outputs(_inputs(task, SAMPLE))
    values, counts = np.unique(outputs[has_value(outputs)], return_counts=True)
    return TaskRecord(
        description=task.description,
        layers=graph.n_layers,
        nodes=_counts(truth, "node"),
        edges=_counts(truth, "qkv_edge"),
        trivial=truth.trivial,
        most_frequent=round(float(counts.max() / counts.sum()), 4),
        unreached=_unreached(task, values),
        margin=float(f"{compiled_margin(task):.4g}") if isinstance(task, RaspTask) else None,
        truth=truth.to_json(),
        sha256=task_sha256(task),
    )


def _unreached(task: Task, values: np.ndarray) -> tuple[str, ...]:
    """Returns the names of the classes that are not among `values`, the codes of outputs."""
    found = set(values.tolist())
    return tuple(str(name) for code, name in enumerate(task.causal_model.classes or ()) if code not in found)


def _counts(truth: Truth, level: Level) -> tuple[int, int, int]:
    """Returns how many nodes or edges are required (or free), allowed and forbidden."""
    required, allowed, forbidden = (truth.count(level, state) for state in STATES)
    return required + truth.count(level, State.FREE), allowed, forbidden


def compiled_margin(task: RaspTask) -> float:
    """Returns the compiled network's smallest margin, or its largest error for a numerical output."""
    from interpbench.rasp.compile import compile_program
    from interpbench.rasp.weights import compiled_network
    from interpbench.training.interventional_accuracy import Evaluation

    network = compiled_network(compile_program(task.program))
    evaluation = Evaluation(network, Alignment(task, network.cfg.graph, task.default_alignment))
    return evaluation.margin(evaluation.activations(_inputs(task, MARGIN_INPUTS)))


def _inputs(task: Task, count: int) -> np.ndarray:
    """Returns the whole domain, if it has at most `count` inputs, or draws."""
    if task.domain.size <= count:
        return task.domain.all()
    return task.domain.draw(seeds.generator(0, "record", task.name), count)


def write_records() -> None:
    """Measures every task, and writes the records and `docs/tasks.md`."""
    measured: dict[str, TaskRecord] = {}
    with Display("tasks", len(catalogue())) as display:
        for task in catalogue().values():
            measured[task.name] = describe(task)
            display.update(len(measured), task.name)
    lines = [f"{json.dumps(name)}: {json.dumps(asdict(record))}" for name, record in measured.items()]
    write_text(FILE, "{\n" + ",\n".join(lines) + "\n}\n")
    records.cache_clear()
    write_text(DOCS, tasks_page())
    log.info("wrote %s and %s", FILE.name, DOCS)


def tasks_page() -> str:
    """Returns `docs/tasks.md`, from registry and records."""
    return tasks_markdown(catalogue().values(), records())
