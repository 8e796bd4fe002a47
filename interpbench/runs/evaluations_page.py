"""Gathers the records in a folder of evaluations and writes them as one HTML page."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from interpbench.checkpoints.checkpoint_files import is_ours, released
from interpbench.checkpoints.format import Checkpoint
from interpbench.checkpoints.load import load_checkpoint
from interpbench.checkpoints.record import read_record
from interpbench.core.errors import InterpBenchError
from interpbench.core.files import read_json
from interpbench.reports.page import Network, write_page
from interpbench.scoring.evaluation_record import EvaluationRecord, is_record
from interpbench.scoring.leaderboard_rows import TRUTH

log = logging.getLogger(__name__)
PAGE = "report.html"


def write_folder_page(
    folder: Path,
    networks_in: Sequence[Path | Checkpoint] = (),
    out: Path | None = None,
    known: Mapping[Path, EvaluationRecord] | None = None,
) -> Path:
    """Writes a page of all records below a folder and returns its path.

    Args:
        folder: where evaluations were written, `runs/evaluate`.
        networks_in: the networks that they were made on, or their folders; those that are released are found
            in any case.
        known: file to record, of those that need not be read.
        out: the page; None for `report.html` in the folder.

    Raises:
        InterpBenchError: if there are no records, or none of a network that is found.
    """
    results, problems = read_results(folder, known or {})
    if not results:
        why = problems[0] if problems else "python evaluate.py makes some"
        raise InterpBenchError(f"there are no records of evaluations in {folder}; {why}")
    for problem in problems:
        log.warning("left out: %s", problem)
    networks = _networks(networks_in, {record.checkpoint for _, record in results})
    missing = sorted({record.task for _, record in results if record.checkpoint not in networks})
    if not networks:
        none = f"none of the networks that {folder} is about is here ({', '.join(missing)})"
        raise InterpBenchError(f"{none}; say --checkpoint FOLDER")
    if missing:
        log.warning("left out, their networks are not here (--checkpoint FOLDER): %s", ", ".join(missing))
    path = out or folder / PAGE
    write_page(path, results, networks)
    log.info("page:       %s", path)
    return path


def read_results(
    folder: Path, known: Mapping[Path, EvaluationRecord] = MappingProxyType({}), pattern: str = "**/*.json"
) -> tuple[list[tuple[str, EvaluationRecord]], list[str]]:
    """Reads every record below a folder, or those whose files match a pattern, but for the truth's.

    Returns:
        Each with the name of its file, which tells settings apart; and what is wrong with those that are
        damaged, a line each.
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


def _networks(places: Sequence[Path | Checkpoint], wanted: set[str]) -> dict[str, Network]:
    """Returns the networks that are wanted; several of one task are told apart by seed and weights.

    One that is damaged is named, and left out.
    """
    found = {place.record.sha256: place for place in places if isinstance(place, Checkpoint)}
    folders = [place for place in places if isinstance(place, Path)]
    for place in dict.fromkeys((*folders, *released().values())):
        try:
            key = read_record(place).sha256 if is_ours(place) else load_checkpoint(place).record.sha256
            if key in wanted and key not in found:
                found[key] = load_checkpoint(place)
        except InterpBenchError as error:
            log.warning("left out: %s", error)
    tasks = [loaded.task for loaded in found.values()]
    networks: dict[str, Network] = {}
    for key, loaded in found.items():
        several = tasks.count(loaded.task) > 1
        title = f"{loaded.task}, seed {loaded.record.seed} ({key[:6]})" if several else loaded.task
        networks[key] = Network(title, loaded.truth, loaded.variables)
    return networks
