"""Scores methods on checkpoints: table, JSON records, pictures; and, for several methods, a leaderboard."""

import json
import logging
import sys
from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import partial
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
from interpbench.core.progress import Display
from interpbench.core.threads import threads
from interpbench.discovery.method import get_method, method_source, methods
from interpbench.runs.bench import Bench, StabilitySettings
from interpbench.runs.device import select_device
from interpbench.runs.entry import Outcome
from interpbench.runs.measure import measured
from interpbench.scoring.board import TRUTH
from interpbench.scoring.records import Record, compare, edge_scores, is_record, node_scores

log = logging.getLogger(__name__)
LEARNED: dict[str, int] = dict.fromkeys(("edge_pruning", "edge_sp", "node_sp", "ugs"), 32)
"""At most so many pairs for methods that train for hundreds of steps on all of them."""


@dataclass(frozen=True, config=STRICT)
class EvaluateConfig:
    """Everything about an evaluation; `configs/evaluate.yaml` says what each key means."""

    method: dict[str, Any]
    methods: str | list[str] | None = None
    checkpoint: str | int | list[str | int] = "all"
    examples: Count = 64
    examples_of: dict[str, Count] = field(default_factory=LEARNED.copy)
    test_examples: Count = 64
    thorough: bool | None = None
    stability: StabilitySettings = StabilitySettings()
    data: Literal["stored", "fresh"] = "stored"
    corruption: str | None = None
    task: str | None = None
    structural: bool = False
    pictures: bool = True
    fresh: bool = False
    seed: int = 0
    device: str = "auto"
    threads: Count = 1
    out: str = "runs/evaluate"
    board: str | None = None

    def folder(self, checkpoint: Checkpoint) -> Path:
        """Returns where the results on a checkpoint go: `out/<task>`, or `out/<task>/<run>` for a run."""
        run = checkpoint.folder.name
        return Path(self.out) / checkpoint.task / ("" if run == checkpoint.task else run)

    @property
    def chosen(self) -> list[tuple[str, dict[str, Any]]]:
        """The methods with their settings.

        Raises:
            ConfigError: for settings of one method while several are asked for.
        """
        settings = dict(self.method)
        name = str(settings.pop("name", None))
        if self.methods is None:
            return [(name, settings)]
        if changed := [key for key, value in settings.items() if _changed(name, key, value)]:
            raise ConfigError(f"method.{changed[0]} is a setting of one method, but several are asked for")
        every = self.methods == "all"
        names = (
            list(methods()) if every else self.methods if isinstance(self.methods, list) else [self.methods]
        )
        return [(str(name), {}) for name in dict.fromkeys(names)]

    @property
    def thoroughly(self) -> bool:
        """Whether the expensive scores are wanted: by default where several methods are compared."""
        return self.methods is not None if self.thorough is None else self.thorough

    def examples_for(self, name: str) -> int:
        """Returns how many pairs a method gets."""
        return min(self.examples, self.examples_of.get(name, self.examples))

    def conditions(self, name: str) -> dict[str, Any]:
        """Returns what decides the numbers besides weights, method, settings and seed."""
        conditions = {
            "examples": self.examples_for(name),
            "test_examples": self.test_examples,
            "thorough": self.thoroughly,
            "data": self.data,
            "corruption": self.corruption,
        }
        if source := method_source(name):
            conditions["source"] = source
        return {**conditions, **(vars(self.stability) if self.thoroughly else {})}


def run(data: Mapping[str, Any]) -> Outcome:
    """Runs a composed configuration; it fails if a checkpoint could not be evaluated."""
    from interpbench.runs.leaderboard import rows_in, write_leaderboard

    config = convert(EvaluateConfig, data, "evaluate")
    if config.board:
        rows_in(Path(config.board))  # what cannot be added to is said before, not after
    records, failures = evaluate(config)
    if records:
        from rich.console import Console

        from interpbench.reports.tables import records_table

        shown = [record for record in records if record.method != TRUTH]
        Console(width=None if sys.stdout.isatty() else 120).print(records_table(shown))
        log.info("records and pictures in %s", config.out)
        if config.pictures:
            from interpbench.runs.page import write_folder_page

            write_folder_page(Path(config.out), str(config.checkpoint))
    if records and config.methods is not None:
        earlier = rows_in(Path(config.board)) if config.board else ()
        log.info("leaderboard: %s", write_leaderboard(records, Path(config.board or config.out), earlier))
    for failure in failures:
        log.error("failed: %s", failure)
    result = "failed" if failures else "scored"
    return Outcome(1 if failures else 0, {"result": result, "scores": len(records)}, failures)


def evaluate(config: EvaluateConfig) -> tuple[list[Record], list[str]]:
    """Evaluates the chosen methods on all chosen checkpoints; returns records and what failed.

    What has been evaluated in the same way is read instead. Whatever a method raises is a failure of that
    method on that checkpoint; the others go on.
    """
    if config.corruption is not None and config.data == "stored":
        raise ConfigError("stored pairs are corrupted already; say data=fresh with a corruption")
    chosen = config.chosen
    for name, settings in chosen:
        get_method(name, settings)  # a mistake in its settings is not a failure of every checkpoint
    if config.methods is not None and config.thoroughly:
        chosen = [*chosen, (TRUTH, {})]
    wanted = [config.checkpoint] if isinstance(config.checkpoint, str | int) else config.checkpoint
    folders = dict.fromkeys(folder for name in wanted for folder in find_checkpoints(str(name)))
    records: list[Record] = []
    failures: list[str] = []
    with threads(config.threads), Display("evaluate", len(folders) * len(chosen)) as display:
        for folder in folders:
            for found in _on_checkpoint(folder, chosen, config):
                (records if isinstance(found, Record) else failures).append(found)  # type: ignore[arg-type]
                said = f"{found.method} on {found.task}" if isinstance(found, Record) else "failed"
                display.update(len(records) + len(failures), said)
    for task, why in {record.task: record.left_out for record in records if record.left_out}.items():
        log.warning("%s is left out of comparisons: %s", task, "; ".join(why))
    return records, failures


def _on_checkpoint(
    folder: Path, chosen: list[tuple[str, dict[str, Any]]], config: EvaluateConfig
) -> Iterator[Record | str]:
    """Yields a record of each method, or what went wrong."""
    try:
        checkpoint = load_checkpoint(folder)
        bench = Bench(checkpoint, partial(_pairs, checkpoint, config), config)
    except InterpBenchError as error:
        yield f"{folder}: {error}"
        return
    made: Record | None = None
    for name, settings in chosen:
        try:
            if not (record := _finished(bench, name, settings, config)):
                record = made = _evaluate(bench, name, settings, config)
            yield record
        except InterpBenchError as error:
            yield f"{folder}: {error}" if len(chosen) == 1 else f"{name} on {folder}: {error}"
        except Exception as error:
            log.exception("%s on %s", name, folder)
            yield f"{name} on {folder}: {type(error).__name__}: {error}"
    if made is not None and config.pictures:
        draw_roc(checkpoint, made, config)


def evaluate_checkpoint(checkpoint: Checkpoint, config: EvaluateConfig) -> Record:
    """Runs a method on one checkpoint, scores it, and writes record and pictures."""
    ((name, settings),) = config.chosen
    record = _evaluate(Bench(checkpoint, partial(_pairs, checkpoint, config), config), name, settings, config)
    if config.pictures:
        draw_roc(checkpoint, record, config)
    return record


def _evaluate(bench: "Bench", name: str, settings: dict[str, Any], config: EvaluateConfig) -> Record:
    """Runs a method, scores it, and writes record and pictures."""
    checkpoint, truth = bench.checkpoint, bench.checkpoint.truth
    if name == TRUTH:
        problem, method, scores, seconds, cost = None, None, bench.true_scores, 0.0, {}
    else:
        method = get_method(name, settings)
        problem = bench.problem(config.examples_for(name))
        scores, seconds, cost = measured(partial(method, problem), select_device(config.device))
    record = Record(
        task=checkpoint.task,
        checkpoint=checkpoint.record.sha256,
        method=name,
        settings=settings,
        seed=config.seed,
        structural=config.structural,
        levels=compare(truth, scores, config.structural),
        cost={**scores.cost.__dict__, **cost},
        seconds=seconds,
        edges=edge_scores(scores),
        nodes=node_scores(scores),
        program=bench.program,
        conditions=config.conditions(name),
        left_out=bench.left_out,
        behaviour=bench.behaviour_of(scores, method, problem),
    )
    folder, stem = config.folder(checkpoint), label(record, config)
    write_json(folder / f"{stem}.json", record.to_json())
    if config.pictures and name != TRUTH:
        draw(checkpoint, scores, folder, stem)
    return record


def _finished(bench: "Bench", name: str, settings: dict[str, Any], config: EvaluateConfig) -> Record | None:
    """Returns the record of an evaluation that has been done in the same way already."""
    sketch = Record(bench.checkpoint.task, "", name, settings, config.seed, config.structural, {}, {}, 0, {})
    path = config.folder(bench.checkpoint) / f"{label(sketch, config)}.json"
    if config.fresh or not path.is_file():
        return None
    try:
        record = Record.from_json(read_json(path), path)
    except InterpBenchError:
        return None  # of an older version, or cut short
    wanted = {
        **{"checkpoint": bench.checkpoint.record.sha256, "method": name, "settings": jsonable(settings)},
        **{"seed": config.seed, "structural": config.structural},
    }
    conditions = jsonable(config.conditions(name))
    if not config.thoroughly:
        del conditions["thorough"]  # more than is asked for will do
    same = all(getattr(record, key) == value for key, value in wanted.items())
    if not same or any(record.conditions.get(key, None) != value for key, value in conditions.items()):
        return None
    level = logging.INFO if config.methods is None else logging.DEBUG
    log.log(level, "%s on %s is finished; fresh=true runs it again", name, record.task)
    return record


def _changed(name: str, key: str, value: Any) -> bool:
    """Returns whether a setting is not the method's own."""
    return jsonable(getattr(get_method(name), key, None)) != jsonable(value)


def _pairs(checkpoint: Checkpoint, config: EvaluateConfig) -> Any:
    if config.data == "stored":
        return load_pairs(checkpoint.folder)
    from interpbench.runs.certify import task_of
    from interpbench.tasks.catalogue import get_task
    from interpbench.tasks.data import draw_pairs

    if config.task is not None:
        get_task(config.task)
    count = config.examples + config.test_examples
    return draw_pairs(task_of(checkpoint), count, config.seed, config.corruption)


def label(record: Record, config: EvaluateConfig) -> str:
    """Returns the method's name with every setting that is not the default: the stem of its files."""
    changed = {k: v for k, v in record.settings.items() if _changed(record.method, k, v)}
    for key in ("seed", "examples", "data", "corruption", "structural"):
        if getattr(config, key) != getattr(EvaluateConfig, key):
            changed[key] = getattr(config, key)
    parts = [f"{key}={json.dumps(value)}".replace('"', "").replace(" ", "") for key, value in changed.items()]
    name = "-".join([record.method, *parts])
    return name if len(name) <= 80 else f"{record.method}-{sha256(name.encode())[:8]}"


def jsonable(value: Any) -> Any:
    """Returns a setting as JSON would give it back."""
    return json.loads(json.dumps(value))


def draw(checkpoint: Checkpoint, scores: Scores, folder: Path, name: str) -> None:
    """Draws what a method found against the truth."""
    from interpbench.reports.drawing import draw_circuit

    picture = folder / f"circuit-{name}.png"
    draw_circuit(checkpoint.truth, picture, variables(checkpoint), {name: scores}, checkpoint.task)


def draw_roc(checkpoint: Checkpoint, record: Record, config: EvaluateConfig) -> None:
    """Draws the ROC of all methods that were run on this checkpoint as in `record`."""
    from interpbench.reports.plots import roc_figure

    folder = config.folder(checkpoint)
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
    """Returns the methods' records in a folder that were made on the same weights, in the same way."""
    records: list[Record] = []
    for path in sorted(folder.glob("*.json")):
        try:
            data = read_json(path)
            if not is_record(data):
                continue
            record = Record.from_json(data, path)
        except InterpBenchError as error:
            log.warning("left out of the picture: %s", error)
            continue
        same = (record.checkpoint, record.structural) == (like.checkpoint, like.structural)
        if same and record.method != TRUTH:
            records.append(record)
    return records
