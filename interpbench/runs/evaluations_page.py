"""Gathers the records in a folder of evaluations and writes them as one HTML page."""

import logging
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from interpbench.checkpoints.certificate_file import certificate_of
from interpbench.checkpoints.checkpoint_files import all_released, is_ours
from interpbench.checkpoints.find import record_in
from interpbench.checkpoints.record import ModelRecord, read_record
from interpbench.circuits.certificate import Certificate
from interpbench.circuits.grades import said_of
from interpbench.core.errors import InterpBenchError
from interpbench.core.exports import version_of
from interpbench.core.text import shown
from interpbench.reports.page import Network, write_page
from interpbench.runs.result_files import read_results
from interpbench.scoring.evaluation_record import EvaluationRecord
from interpbench.tasks.task_records import records

if TYPE_CHECKING:
    from interpbench.checkpoints.format import Checkpoint

log = logging.getLogger(__name__)
PAGE = "report.html"


def write_folder_page(
    folder: Path,
    networks_in: "Sequence[Path | Checkpoint]" = (),
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
        raise InterpBenchError(f"{none}; say where: {_where(folder)}")
    if missing:
        log.warning("left out, as their networks are not here: %s; %s", ", ".join(missing), _where(folder))
    path = out or folder / PAGE
    made = f"This page was written on {date.today()} by interpbench {version_of('interpbench')}."
    write_page(path, results, networks, made)
    log.info("page:       %s", path)
    return path


def _where(folder: Path) -> str:
    """Returns the command that makes the page with networks that are elsewhere."""
    return f"interpbench report {shown(folder)} --checkpoint FOLDER"


class _Known(NamedTuple):
    """What is known of a network without loading it."""

    record: ModelRecord
    certificate: Certificate | None


def _known(place: "Path | Checkpoint") -> _Known:
    """Returns what is known of a network; that of the published files alone takes torch.

    Raises:
        InterpBenchError: if its files are damaged.
    """
    if isinstance(place, Path):
        record = record_in(place)
        return _Known(record, certificate_of(place, record))
    return _Known(place.record, place.certificate)


def _networks(places: "Sequence[Path | Checkpoint]", wanted: set[str]) -> dict[str, Network]:
    """Returns the networks that are wanted; several of one task are told apart by seed and weights.

    One that is damaged is named, and left out.
    """
    found: dict[str, _Known] = {}
    for place in (*places, *all_released().values()):
        if wanted <= found.keys():
            break
        try:
            if isinstance(place, Path) and is_ours(place):  # without looking at its weights
                if read_record(place).sha256 not in wanted - found.keys():
                    continue
            known = _known(place)
            if known.record.sha256 in wanted:
                found.setdefault(known.record.sha256, known)
        except InterpBenchError as error:
            log.warning("left out: %s", error)
    tasks = [known.record.task for known in found.values()]
    networks: dict[str, Network] = {}
    for key, (record, certificate) in found.items():
        several = tasks.count(record.task) > 1
        title = f"{record.task}, seed {record.seed} ({key[:6]})" if several else record.task
        networks[key] = Network(title, record.read_truth, record.variables, _says(record, certificate))
    return networks


def _says(record: ModelRecord, certificate: Certificate | None) -> str:
    """Returns what a network's task is, how it was made, and what its certificate reaches."""
    known = records().get(record.task)  # None for a task of someone's own
    computes = "" if known is None else f"{known.description.rstrip('.')}. "
    made = f"seed {record.seed}, {record.steps:,} steps of training" if record.steps else record.kind
    return f"{computes}The network: {made}. Its certificate: {said_of(certificate)}."
