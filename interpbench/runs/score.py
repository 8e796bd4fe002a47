"""Scores what anyone's code found: a file of scores or a circuit, against a checkpoint's truth."""

import logging
import re
from pathlib import Path

import numpy as np

from interpbench.checkpoints.find import find_checkpoint, record_in
from interpbench.checkpoints.model_groups import kinds_of
from interpbench.circuits.io.found import Imported
from interpbench.circuits.io.score_files import MOST_BYTES, form_for, read_scores, write_scores
from interpbench.circuits.ordered_scores import edge_scores, node_scores
from interpbench.circuits.scores import Scores
from interpbench.core.console import console
from interpbench.core.errors import InterpBenchError, ScoresError
from interpbench.core.files import check_file, check_writable, read_bytes, read_json, sha256, write_json
from interpbench.core.text import shown
from interpbench.discovery.known_methods import known_methods
from interpbench.runs.result_files import draw_found, draw_roc, results_folder
from interpbench.scoring.evaluation_record import EvaluationRecord
from interpbench.scoring.leaderboard_rows import TRUTH

log = logging.getLogger(__name__)


def score_file(
    path: Path,
    checkpoint: str,
    *,
    name: str | None = None,
    absolute: bool = False,
    structural: bool = False,
    pictures: bool = True,
    out: str = "runs/evaluate",
) -> EvaluationRecord:
    """Scores a file as `evaluate.py` scores a method: table, record, pictures.

    Args:
        path: scores or a circuit, in any form that `read_scores` knows.
        checkpoint: the network, as `interpbench.load` takes it.
        name: what to call the method; None for the file's name.
        absolute: rank by magnitude, for signed scores.
        structural: count allowed nodes and edges as positive.
        pictures: whether to draw.
        out: the folder of evaluations.

    Raises:
        InterpBenchError: for a file that cannot be read, or a name that is taken.
    """
    called = entry_name(name or path.stem)
    folder = find_checkpoint(checkpoint)
    model = record_in(folder)
    found = read_scores(path, model.shape.graph)
    check_writable(Path(out))
    scores = ranked(found, absolute)

    from interpbench.reports.tables import records_table
    from interpbench.scoring.curves import compare  # scipy takes half a second

    record = EvaluationRecord(
        task=model.task,
        checkpoint=model.sha256,
        method=called,
        settings={"file": sha256(read_bytes(path, MOST_BYTES)), "form": found.form, "absolute": absolute},
        seed=0,
        structural=structural,
        levels=compare(model.read_truth, scores, structural),
        cost=None,
        seconds=0.0,
        edges=edge_scores(scores),
        nodes=node_scores(scores),
        headline=model.read_truth.headline,
        kinds=kinds_of(model),
    )
    written = _file(results_folder(out, model.task, folder), record)
    write_json(written, record.to_json())
    if pictures:
        draw_found(model, scores, written)
        draw_roc({written: record})
    terminal = console()
    terminal.print(records_table([record], terminal.width))
    log.info("record in %s", written)
    return record


def _file(folder: Path, record: EvaluationRecord) -> Path:
    """Returns the file of a record: its method with every option, and a hash where another result is there.

    The same scores with the same options on the same weights are one result, whose file is written anew.
    """
    options = {"absolute": record.settings["absolute"], "structural": record.structural}
    stem = "-".join([record.method, *(f"{name}=true" for name, said in options.items() if said)])
    path = folder / f"{stem}.json"
    if not path.exists():
        return path
    try:
        there = EvaluationRecord.from_json(read_json(path), path)
    except InterpBenchError:
        return path  # of an older version, or cut short
    mine = (record.settings, record.checkpoint)
    if (there.settings, there.checkpoint) == mine:
        return path
    return folder / f"{stem}-{sha256(repr(mine).encode())[:8]}.json"


def ranked(found: Imported, absolute: bool) -> Scores:
    """Returns a file's scores, or their magnitudes."""
    scores = found.scores
    if absolute:
        nodes = None if scores.own_nodes is None else np.abs(scores.own_nodes)
        return Scores(scores.graph, np.abs(scores.edges), nodes)
    if negative := int((scores.edges < 0).sum()):
        text = "%d of %d scores are negative, and rank last; --absolute ranks by magnitude, as MIB does"
        log.info(text, negative, int(scores.graph.legal.sum()))
    return scores


def entry_name(name: str) -> str:
    """Returns a name, after checking that it can be a file's and is none of the project's own methods.

    Raises:
        ScoresError: if it cannot, or is one.
    """
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.=+-]{0,79}", name):
        raise ScoresError(f"--name {shown(name)!r}: letters, digits, and . = + - _ make a name")
    if name.lower() in {*known_methods(), TRUTH}:
        raise ScoresError(f"{name} is a method of the project; call yours otherwise, say --name my_{name}")
    return name


def convert_file(source: str, target: Path, checkpoint: str, form: str | None = None) -> None:
    """Writes a file of scores, a record of an evaluation, or the truth, in another form.

    Args:
        source: a file; or `truth`, for the circuit of required edges (and those that are free).
        target: the file to write.
        checkpoint: the network, as `interpbench.load` takes it.
        form: the name of the target's form; None for what its suffix says, else `eap_ig`.
    """
    check_file(target)
    model = record_in(find_checkpoint(checkpoint))
    graph, width = model.shape.graph, model.shape.d_model
    read = None if source == TRUTH else read_scores(Path(source), graph)
    form = form or form_for(target)
    if read is None:
        write_scores(target, graph, form, circuit=model.read_truth.circuit, d_model=width)
    else:
        found = read
        scored = found.circuit is None or bool((found.scores.edges != found.circuit)[graph.legal].any())
        scores = found.scores if scored else None
        write_scores(target, graph, form, scores=scores, circuit=found.circuit, d_model=width)
    log.info("wrote %s (%s)", target, form)
