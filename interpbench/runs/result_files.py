"""The files of results: where they go, the records among them, and their pictures. Needs no torch."""

import logging
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from interpbench.checkpoints.record import ModelRecord
from interpbench.circuits.scores import Scores
from interpbench.core.errors import InterpBenchError
from interpbench.core.files import read_json
from interpbench.scoring.evaluation_record import EvaluationRecord, is_record
from interpbench.scoring.leaderboard_rows import TRUTH

log = logging.getLogger(__name__)


def results_folder(out: str, task: str, checkpoint: Path) -> Path:
    """Returns where the results on a checkpoint go: `out/<task>`, or `out/<task>/<run>` for a run.

    Args:
        out: the folder of all evaluations.
        task: the checkpoint's.
        checkpoint: its folder.
    """
    run = checkpoint.name
    return Path(out) / task / ("" if run == task else run)


def read_results(
    folder: Path, known: Mapping[Path, EvaluationRecord] = MappingProxyType({}), pattern: str = "**/*.json"
) -> tuple[list[tuple[str, EvaluationRecord]], list[str]]:
    """Reads every record below a folder, or those whose files match a pattern, but for the truth's.

    Args:
        folder: where to look.
        known: file to record, of those that need not be read.
        pattern: which files, as `Path.glob` takes it.

    Returns:
        Each record with the name of its file, which tells settings apart; and what is wrong with those that
        are damaged, a line each.
    """
    results: list[tuple[str, EvaluationRecord]] = []
    problems: list[str] = []
    for path in sorted(folder.glob(pattern)):
        try:
            record = known.get(path)
            if record is None and is_record(data := read_json(path)):
                record = EvaluationRecord.from_json(data, path)
            if record is not None and record.method != TRUTH:
                results.append((path.stem, record))
        except InterpBenchError as error:
            problems.append(str(error))
    return results, problems


def draw_found(model: ModelRecord, scores: Scores, record_file: Path) -> None:
    """Draws what a method found against the truth, beside the record of the evaluation.

    Args:
        model: the network's record.
        scores: the method's.
        record_file: the evaluation's; its name says which method it was, with which settings.
    """
    from interpbench.reports.drawing import draw_circuit

    name = record_file.stem
    picture = record_file.with_name(f"circuit-{name}.png")
    draw_circuit(model.read_truth, picture, model.variables, {name: scores}, model.task)


def draw_roc(known: Mapping[Path, EvaluationRecord]) -> None:
    """Draws the ROC of all methods of a folder that were run on the same weights, in the same way.

    Args:
        known: file to record, of those in the folder that need not be read; one, or more.
    """
    from interpbench.reports.plots import roc_figure

    (folder, *_), (like, *_) = (path.parent for path in known), known.values()
    results, problems = read_results(folder, known, "*.json")
    for problem in problems:
        log.warning("left out of the picture: %s", problem)
    same = [
        record
        for _, record in results
        if (record.checkpoint, record.structural) == (like.checkpoint, like.structural)
    ]
    roc_figure(same, folder / "roc.png")
