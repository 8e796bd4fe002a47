"""Submissions: makes one of anyone's scores, and checks and scores those of a folder."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from interpbench.checkpoints.checkpoint_files import all_released
from interpbench.checkpoints.find import find_checkpoints, record_in
from interpbench.checkpoints.model_groups import kinds_of
from interpbench.checkpoints.record import ModelRecord, read_record
from interpbench.checkpoints.submission_files import (
    FORMAT,
    SUBMISSION,
    EntryCost,
    SubmissionRecord,
    packed_scores,
    read_submission,
    write_submission,
)
from interpbench.circuits.io.form import forms
from interpbench.circuits.io.score_files import MOST_BYTES, read_scores
from interpbench.circuits.scores import Scores
from interpbench.core.config import MethodName, Sha256, checked
from interpbench.core.errors import CheckpointError, ConfigError, InterpBenchError, ScoresError
from interpbench.core.exports import version_of
from interpbench.core.files import read_bytes, read_json, sha256, write_json
from interpbench.core.text import shown
from interpbench.runs.score import entry_name, ranked
from interpbench.scoring.evaluation_record import EvaluationRecord, degenerate, is_record
from interpbench.scoring.leaderboard_data import TRIVIAL
from interpbench.scoring.ranked_entries import ENTRY_METRICS, EntryValues, entry_values

log = logging.getLogger(__name__)
SCORED = "scored.json"
"""The file, beside submissions, that lists those that were scored on released models."""


@dataclass(frozen=True)
class Submission:
    """A submission that was read and scored.

    Attributes:
        record: what it says.
        values: each of `ENTRY_METRICS` on each model, by metric and model.
        current: whether all its models are still released with these weights. If not, they cannot be scored
            again, and the values are those that it says.
    """

    record: SubmissionRecord
    values: EntryValues
    current: bool


def submit(
    answers: Path,
    name: str,
    checkpoint: str,
    *,
    about: str = "",
    link: str = "",
    seconds: float | None = None,
    absolute: bool = False,
    out: Path,
) -> Path:
    """Makes a submission of files of scores, and returns its folder.

    Args:
        answers: a folder with a file of scores for each model, called by it (`hist.json`, `hist.csv`), or the
            folder that `evaluate.py` has written with one method (`hist/my_method.json`).
        name: what the method is called.
        checkpoint: the models, as `find_checkpoints` takes them.
        about: a line about the method.
        link: where its code or paper is.
        seconds: what it cost on all models together; None for what records of `evaluate.py` say.
        absolute: whether edges are ranked by the absolute values of their scores.
        out: the folder of submissions.

    Raises:
        InterpBenchError: if a model is not released, a file is missing or cannot be read, or the name is
            taken.
    """
    target = out / entry_name(name)
    if target.exists():
        raise ConfigError(f"{target} is there already; remove it, or give another --name")
    models, records = _chosen(checkpoint)
    files = {model: _answer(answers, model) for model in models}
    if missing := [model for model, file in files.items() if file is None]:
        raise ScoresError(
            f"{shown(answers)} has no scores for {len(missing)} of {len(models)} models, such as "
            f"{missing[0]}.json; --checkpoint says which models a submission is for"
        )
    found: dict[str, np.ndarray] = {}
    receipts: dict[str, str] = {}
    measured: list[float] = []
    for model, file in files.items():
        assert file is not None
        graph = records[model].shape.graph
        read = read_scores(file, graph)
        receipts[model] = sha256(read_bytes(file, MOST_BYTES))
        found[model] = ranked(read, absolute).edges[graph.legal].astype(np.float32)
        if not np.isfinite(found[model]).all():
            raise ScoresError(f"{file}: some scores are too large for single precision")
        measured.extend(_seconds(file, records[model]))
    cost = None if seconds is None else EntryCost(seconds, measured=False)
    if seconds is None and len(measured) == len(files):
        cost = EntryCost(sum(measured), measured=True)
    scores = packed_scores(found)
    record = SubmissionRecord(
        FORMAT,
        version_of("interpbench"),
        name,
        about,
        link,
        {model: records[model].sha256 for model in models},
        receipts,
        sha256(scores),
        {model: _reached(records[model], found[model]) for model in models},
        cost,
    )
    write_submission(target, record, scores)
    read_submission(target)
    log.info("submission of %d models (set %s): %s", len(models), record.set_id[:12], target)
    return target


def _chosen(checkpoint: str) -> tuple[list[str], dict[str, ModelRecord]]:
    """Returns the names of the models that are meant, in order, and their records.

    Models on which all methods score alike are left out, and said.

    Raises:
        CheckpointError: if one is not released, or none is left.
    """
    names = {folder.resolve(): name for name, folder in all_released().items()}
    records: dict[str, ModelRecord] = {}
    for folder in find_checkpoints(checkpoint):
        name = names.get(folder.resolve())
        if name is None:
            raise CheckpointError(f"{shown(folder)} is no released model; submissions are for those")
        records[name] = record_in(folder)
    alike = [
        name
        for name, record in records.items()
        if TRIVIAL in kinds_of(record) or degenerate(record.read_truth)
    ]
    if len(alike) == len(records):
        raise CheckpointError(f"all methods score alike on {shown(checkpoint)}; try --checkpoint nontrivial")
    if alike:
        log.info("%d models are left out, on which all methods score alike, such as %s", len(alike), alike[0])
    kept = dict(sorted((name, record) for name, record in records.items() if name not in alike))
    return list(kept), kept


def _answer(answers: Path, model: str) -> Path | None:
    """Returns the file with the scores of a model; None if there is none.

    Raises:
        ScoresError: if there are several.
    """
    suffixes = sorted({form.suffix for form in forms().values()})
    beside = [path for suffix in suffixes if (path := answers / f"{model}{suffix}").is_file()]
    folder = answers / model
    inside = sorted(path for path in folder.glob("*") if path.is_file() and path.suffix in suffixes)
    if len(found := beside or inside) > 1:
        raise ScoresError(
            f"{len(found)} files have scores for {model}: {', '.join(p.name for p in found[:3])}"
        )
    return found[0] if found else None


def _seconds(file: Path, model: ModelRecord) -> list[float]:
    """Returns the seconds that a record of `evaluate.py` says; nothing for another file.

    Raises:
        ScoresError: if it is the record of other weights.
    """
    if file.suffix != ".json" or not is_record(data := read_json(file)):
        return []
    record = EvaluationRecord.from_json(data, file)
    if not model.sha256.startswith(record.checkpoint):
        raise ScoresError(f"{file} is of other weights than the released {model.task}; evaluate it anew")
    return [record.seconds if record.cpu_seconds is None else record.cpu_seconds]


def _reached(model: ModelRecord, edges: np.ndarray) -> dict[str, float]:
    """Returns what scores of a model's edges `[edge]` reach.

    Raises:
        ScoresError: if they are not so many as the model has edges.
    """
    truth, legal = model.read_truth, model.shape.graph.legal
    if edges.shape != (legal.sum(),):
        raise ScoresError(f"{len(edges)} scores for the {legal.sum()} edges of {model.task}")
    values = np.full(legal.shape, np.nan)
    values[legal] = edges
    return entry_values(truth, Scores(truth.graph, values, None), truth.headline)


def check_submission(folder: Path) -> Submission:
    """Reads a submission, scores it again and compares with what it says.

    One of models that have been replaced cannot be scored again. It has to be listed, with its hash, in the
    file of those that were scored before (`list_scored`).

    Raises:
        InterpBenchError: in one line, if it is damaged, is called as a method of the project, is of weights
            that were never released, or reaches something else.
    """
    record, scores = read_submission(folder)
    entry_name(record.name)
    known = all_released()
    gone = [
        name
        for name, weights in record.models.items()
        if name not in known or read_record(known[name]).sha256 != weights
    ]
    listed = scored_before(folder.parent).get(record.name)
    if gone and listed != sha256(read_bytes(folder / SUBMISSION, MOST_BYTES, CheckpointError)):
        raise CheckpointError(
            f"{folder / SUBMISSION}: these are no released weights of {shown(gone[0])}, and {SCORED} does "
            "not say that this submission was scored when others were"
        )
    values: dict[str, dict[str, float]] = {metric: {} for metric in ENTRY_METRICS}
    for name, said in record.results.items():
        if set(said) != set(ENTRY_METRICS):
            wanted = " and ".join(ENTRY_METRICS)
            raise CheckpointError(f"{folder / SUBMISSION}: results of {shown(name)} are not {wanted}")
        reached = said if name in gone else _reached(read_record(known[name]), scores[name])
        for metric, value in reached.items():
            if abs(value - said[metric]) > 1e-6:
                what = f"{metric} of {name} is {value:.6f}, and not {said[metric]}"
                raise CheckpointError(f"{folder / SUBMISSION}: {what}")
            values[metric][name] = value
    return Submission(record, values, not gone)


def scored_before(folder: Path) -> dict[str, str]:
    """Returns the SHA-256 of each submission that was scored in a folder, by name."""
    path = folder / SCORED
    return checked(dict[MethodName, Sha256], read_json(path), path, CheckpointError) if path.is_file() else {}


def list_scored(folder: Path, found: Sequence[Submission]) -> None:
    """Lists the submissions that were scored, so that they stay when models are replaced.

    Args:
        folder: the folder of submissions.
        found: those that are good.
    """
    listed = {
        one.record.name: sha256(read_bytes(folder / one.record.name / SUBMISSION, MOST_BYTES))
        for one in found
    }
    write_json(folder / SCORED, dict(sorted(listed.items())))


def check_submissions(folder: Path) -> tuple[list[Submission], list[str]]:
    """Checks every submission in a folder; returns the good ones, and a line on each of the others."""
    good: list[Submission] = []
    wrong: list[str] = []
    for place in sorted(path for path in folder.glob("*") if path.is_dir()):
        try:
            good.append(check_submission(place))
        except InterpBenchError as error:
            wrong.append(str(error))
    return good, wrong
