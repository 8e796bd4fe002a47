"""Commands for blind problems: writes one, checks one, scores an answer to one."""

import logging
from dataclasses import asdict, dataclass
from pathlib import Path

from interpbench.checkpoints.blind import (
    key_path,
    open_key,
    problem_id,
    read_problem,
    write_problem,
)
from interpbench.checkpoints.find import find_checkpoint
from interpbench.circuits.ground_truth import Level, Truth
from interpbench.circuits.io.score_files import read_scores
from interpbench.core.console import console
from interpbench.core.errors import ScoresError
from interpbench.core.files import MOST_JSON, read_bytes, sha256, write_json
from interpbench.runs.score import ranked

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Receipt:
    """The result of scoring an answer to a blind problem, with checksums of the files that it is about.

    A blind problem is a network and its data without the circuit. The circuit is in a separate file, the key.
    An answer is a file with a score for each edge.

    Attributes:
        problem: the SHA-256 of the problem's bundle.
        key: the SHA-256 of the key.
        answer: the SHA-256 of the answer.
        absolute: whether edges were ranked by the absolute values of their scores.
        scores: `auroc` and `average_precision` of nodes, of head edges and of q/k/v edges.
    """

    problem: str
    key: str
    answer: str
    absolute: bool
    scores: dict[Level, dict[str, float | None]]


def export_problem(name: str, out: Path | None = None) -> Path:
    """Writes a checkpoint (as `interpbench.load` takes it) as a blind problem, and returns its folder.

    Raises:
        InterpBenchError: if there is no such checkpoint, or the folder is not empty.
    """
    folder, number = write_problem(find_checkpoint(name), out)
    log.info("problem: %s, to be given away", folder)
    log.info("id:      %s", number)
    log.info("key:     %s, to be kept until all answers are in", key_path(folder))
    return folder


def verify_problem(
    folder: Path, answer: Path | None = None, key: Path | None = None, absolute: bool = False
) -> Receipt | None:
    """Checks a problem; with an answer also this; with the key also scores it, and writes a receipt.

    Args:
        folder: the problem's.
        answer: scores in any form that `read_scores` knows.
        key: None for the one beside the folder, if it is there.
        absolute: rank by magnitude.

    Returns:
        The receipt; None without answer or key.

    Raises:
        InterpBenchError: if a file is damaged, or belongs to another problem.
    """
    record, name = read_problem(folder), problem_id(folder)
    path = key or (key_path(folder) if key_path(folder).exists() else None)
    opened = None if path is None else open_key(path, record)
    found = None if answer is None else read_scores(answer, record.shape.graph)
    if found is not None and found.problem not in (None, name):
        raise ScoresError(f"{answer} answers another problem, {str(found.problem)[:64]!r}")
    log.info("problem %s: complete and unchanged", name)
    if opened is not None:
        log.info("key     %s: the one that the problem was committed to", record.commitment)
    if answer is None or found is None:
        return None
    hashed = sha256(read_bytes(answer, MOST_JSON))
    log.info("answer  %s: a score for each of %d edges", hashed, record.edges)
    if opened is None:
        log.info("not scored: that takes the key (--key FILE)")
        return None

    from interpbench.reports.labels import LEVEL_NAMES, number
    from interpbench.reports.tables import rows_table
    from interpbench.scoring.curves import compare

    curves = compare(Truth.from_json(record.shape.graph, opened.truth), ranked(found, absolute))
    scores: dict[Level, dict[str, float | None]] = {
        level: {"auroc": curve.auroc, "average_precision": curve.average_precision}
        for level, curve in curves.items()
    }
    receipt = Receipt(name, record.commitment, hashed, absolute, scores)
    target = answer.with_name(f"{answer.name}.receipt.json")
    write_json(target, asdict(receipt))
    rows = [
        {"level": LEVEL_NAMES[level], **{key: number(value) for key, value in found.items()}}
        for level, found in scores.items()
    ]
    console().print(rows_table(rows))
    log.info("receipt: %s", target)
    return receipt
