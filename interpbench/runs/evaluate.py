"""Scores methods on checkpoints: table, JSON records, pictures; and, for several methods, a leaderboard."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from interpbench.checkpoints.format import Checkpoint
from interpbench.checkpoints.load import load_checkpoint, load_pairs
from interpbench.checkpoints.model_groups import kinds_of
from interpbench.checkpoints.record import task_of
from interpbench.circuits.ordered_scores import edge_scores, node_scores
from interpbench.core.console import console
from interpbench.core.errors import InterpBenchError
from interpbench.core.files import read_json, write_json
from interpbench.core.process import prepare_torch
from interpbench.core.progress import Display
from interpbench.core.threads import threads
from interpbench.core.user_code import said
from interpbench.discovery.isolated_run import apply
from interpbench.discovery.method import Method, get_method, unsupported_part
from interpbench.runs.device import select_device
from interpbench.runs.entry import Config, RunOutcome
from interpbench.runs.evaluate_settings import EvaluateConfig, MethodChoice, check_evaluate, evaluate_config
from interpbench.runs.evaluations_page import write_folder_page
from interpbench.runs.measure import Spent, measured
from interpbench.runs.result_files import draw_found, draw_roc
from interpbench.runs.shared_runs import SharedRuns
from interpbench.scoring.curves import compare
from interpbench.scoring.evaluation_record import EvaluationRecord
from interpbench.scoring.leaderboard_rows import TRUTH
from interpbench.scoring.results import RunCost
from interpbench.tasks.data import draw_pairs
from interpbench.tasks.problem import Pairs

log = logging.getLogger(__name__)


def run(data: Config) -> RunOutcome:
    """Runs a composed configuration; it fails if a checkpoint could not be evaluated."""
    from interpbench.runs.leaderboard_files import write_leaderboard

    config = evaluate_config(data)
    made, failures = _evaluated(config)
    records = list(made.values())
    if not records and len(failures) == 1 and isinstance(failures[0].error, InterpBenchError):
        raise failures[0].error
    from interpbench.reports.tables import order_rows, records_table, rows_table, sweep_facts

    shown = [record for record in records if record.method != TRUTH]
    if records:
        terminal = console()
        terminal.print(records_table(shown, terminal.width))
        if orders := order_rows(shown):
            terminal.print("Of edges that matter only once others are patched, too (order 1 and more):")
            terminal.print(rows_table(orders))
        log.info("records and pictures in %s", config.out)
        if config.pictures:
            write_folder_page(Path(config.out), config.found, known=made)
    if records and config.compares:
        add = config.board is not None
        log.info("leaderboard: %s", write_leaderboard(records, Path(config.board or config.out), add))
    for failure in failures:
        log.error("failed: %s", failure.line)
    result = "failed" if failures else "scored"
    lines = [failure.line for failure in failures]
    return RunOutcome(1 if failures else 0, {"result": result, **sweep_facts(shown)}, lines)


@dataclass(frozen=True)
class Failure:
    """What went wrong on a checkpoint, and where."""

    where: str
    error: BaseException

    @property
    def line(self) -> str:
        """One line."""
        known = isinstance(self.error, InterpBenchError)
        return f"{self.where}: {self.error if known else said(self.error)}"


def evaluate(config: EvaluateConfig) -> tuple[list[EvaluationRecord], list[Failure]]:
    """Evaluates the chosen methods on all chosen checkpoints; returns records and what failed.

    What has been evaluated in the same way is read instead. Whatever a method raises is a failure of that
    method on that checkpoint; the others go on.
    """
    check_evaluate(config)
    made, failures = _evaluated(config)
    return list(made.values()), failures


def _evaluated(config: EvaluateConfig) -> tuple[dict[Path, EvaluationRecord], list[Failure]]:
    """Returns the records, by their files, and what failed."""
    prepare_torch()
    chosen = config.with_baselines
    if config.compares and config.thoroughly:
        chosen = [*chosen, MethodChoice(TRUTH, {})]
    folders = config.found
    records: dict[Path, EvaluationRecord] = {}
    failures: list[Failure] = []
    with threads(config.threads), Display("evaluate", len(folders) * len(chosen)) as display:
        for folder in folders:
            for found in _on_checkpoint(folder, chosen, config):
                if isinstance(found, Failure):
                    failures.append(found)
                    what = "failed"
                else:
                    path, records[path] = found
                    what = f"{records[path].method} on {records[path].task}"
                display.update(len(records) + len(failures), what)
    for task, why in {record.task: record.left_out for record in records.values() if record.left_out}.items():
        log.warning("%s is left out of comparisons: %s", task, "; ".join(why))
    return records, failures


def _on_checkpoint(
    folder: Path, chosen: Sequence[MethodChoice], config: EvaluateConfig
) -> Iterator[tuple[Path, EvaluationRecord] | Failure]:
    """Yields a record of each method, with its file, or what went wrong."""
    try:
        checkpoint = load_checkpoint(folder)
        shared = SharedRuns(checkpoint, partial(_pairs, checkpoint, config), config)
    except InterpBenchError as error:
        yield Failure(str(folder), error)
        return
    new, known = False, dict[Path, EvaluationRecord]()
    named = [name for name, _ in config.chosen]
    for choice in chosen:
        name = choice.name
        if name not in named and name != TRUTH and unsupported_part(get_method(name), checkpoint.network):
            continue  # a baseline that nobody asked for
        where = str(folder) if len(chosen) == 1 else f"{name} on {folder}"
        try:
            path = config.file(checkpoint, choice)
            if not (record := _finished(path, shared, choice, config)):
                record, new = _evaluate(path, shared, choice, config), True
            known[path] = record
            yield path, record
        except InterpBenchError as error:
            yield Failure(where, error)
        except Exception as error:
            log.exception("%s on %s", name, folder)
            yield Failure(where, error)
    if new and config.pictures:
        draw_roc(known)


def evaluate_checkpoint(checkpoint: Checkpoint, config: EvaluateConfig) -> dict[Path, EvaluationRecord]:
    """Runs the chosen methods on one checkpoint, scores them, writes records and pictures.

    Returns:
        Each record, by its file.
    """
    shared = SharedRuns(checkpoint, partial(_pairs, checkpoint, config), config)
    files = {config.file(checkpoint, choice): choice for choice in config.chosen}
    made = {path: _evaluate(path, shared, choice, config) for path, choice in files.items()}
    if config.pictures:
        draw_roc(made)
    return made


def _evaluate(
    path: Path, shared: SharedRuns, choice: MethodChoice, config: EvaluateConfig
) -> EvaluationRecord:
    """Runs a method, scores it, and writes record and pictures."""
    name, settings = choice
    checkpoint, truth = shared.checkpoint, shared.checkpoint.truth
    if name == TRUTH:
        problem, method, scores, spent = None, None, shared.true_scores, Spent()
    else:
        method = get_method(name, settings)
        problem = shared.problem(config.examples_for(name))
        scores, spent = measured(partial(apply, method, problem, name), select_device(config.device))
    what = None if method is None else type(method).record
    record = EvaluationRecord(
        task=checkpoint.task,
        checkpoint=checkpoint.record.sha256,
        method=name,
        settings=settings,
        seed=config.seed,
        structural=config.structural,
        levels=compare(truth, scores, config.structural),
        cost=RunCost(**vars(scores.cost), cpu_seconds=spent.cpu_seconds, peak_bytes=spent.peak_bytes),
        seconds=spent.seconds,
        edges=edge_scores(scores),
        nodes=node_scores(scores),
        program=shared.program,
        conditions=config.conditions(name),
        left_out=shared.left_out,
        behaviour=shared.behaviour_of(scores, method, problem),
        granularity=what.granularity if what else "edge",
        baseline=bool(what and what.baseline),
        budget=budget(method),
        headline=truth.headline,
        kinds=kinds_of(checkpoint.record),
    )
    write_json(path, record.to_json())
    if config.pictures and name != TRUTH:
        draw_found(checkpoint.record, scores, path)
    return record


def budget(method: Method | None) -> float | None:
    """Returns which share of its authors' steps of training a method takes; None if it does not train."""
    if method is None or method.record.authors_steps is None:
        return None
    steps = getattr(method, "authors_steps", method.record.authors_steps)  # they may depend on its settings
    return getattr(method, "steps") / steps  # noqa: B009  no part of the protocol


def _finished(
    path: Path, shared: SharedRuns, choice: MethodChoice, config: EvaluateConfig
) -> EvaluationRecord | None:
    """Returns the record of an evaluation that has been done in the same way already."""
    if config.fresh or not path.is_file():
        return None
    try:
        record = EvaluationRecord.from_json(read_json(path), path)
    except InterpBenchError:
        return None  # of an older version, or cut short
    made = (record.checkpoint, record.method, record.settings, record.seed, record.structural)
    wanted = (shared.checkpoint.record.sha256, *choice, config.seed, config.structural)
    if made != wanted or not record.conditions.will_do_for(config.conditions(choice.name)):
        return None
    level = logging.INFO if config.methods is None else logging.DEBUG
    log.log(level, "%s on %s is finished; fresh=true runs it again", record.method, record.task)
    return replace(record, kinds=kinds_of(shared.checkpoint.record))  # not known to earlier versions


def _pairs(checkpoint: Checkpoint, config: EvaluateConfig) -> Pairs:
    if config.data == "stored":
        return load_pairs(checkpoint.folder)
    count = config.examples + config.test_examples
    return draw_pairs(task_of(checkpoint.task), count, config.seed, config.corruption)
