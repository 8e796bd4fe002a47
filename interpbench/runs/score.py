"""Scores what anyone's code found: a file of scores or a circuit, against a checkpoint's truth."""

import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from interpbench.checkpoints.checkpoint_files import is_ours
from interpbench.checkpoints.find import find_checkpoint
from interpbench.checkpoints.record import read_record
from interpbench.circuits.graph import Graph
from interpbench.circuits.io.found import Imported
from interpbench.circuits.io.score_files import MOST_BYTES, form_for, read_scores, write_scores
from interpbench.circuits.ordered_scores import edge_scores, node_scores
from interpbench.circuits.scores import Scores
from interpbench.core.console import console
from interpbench.core.errors import ScoresError
from interpbench.core.files import check_file, check_writable, read_bytes, sha256, write_json
from interpbench.core.text import shown
from interpbench.discovery.known_methods import known_methods
from interpbench.runs.api import load
from interpbench.scoring.leaderboard_rows import TRUTH

if TYPE_CHECKING:
    from interpbench.scoring.evaluation_record import EvaluationRecord

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
) -> "EvaluationRecord":
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
    called = _called(name or path.stem)
    found = read_scores(path, graph_of(checkpoint))  # before torch is imported, as it is what may be wrong
    check_writable(Path(out))
    loaded = load(checkpoint)
    scores = ranked(found, absolute)

    from interpbench.reports.tables import records_table
    from interpbench.runs.evaluate import draw, draw_roc
    from interpbench.runs.evaluate_settings import results_folder
    from interpbench.scoring.curves import compare
    from interpbench.scoring.evaluation_record import EvaluationRecord

    record = EvaluationRecord(
        task=loaded.task,
        checkpoint=loaded.record.sha256,
        method=called,
        settings={"file": sha256(read_bytes(path, MOST_BYTES)), "form": found.form, "absolute": absolute},
        seed=0,
        structural=structural,
        levels=compare(loaded.truth, scores, structural),
        cost=None,
        seconds=0.0,
        edges=edge_scores(scores),
        nodes=node_scores(scores),
    )
    written = results_folder(out, loaded) / f"{called}.json"
    write_json(written, record.to_json())
    if pictures:
        draw(loaded, scores, written.parent, called)
        draw_roc({written: record})
    console().print(records_table([record]))
    log.info("record in %s", written)
    return record


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


def _called(name: str) -> str:
    """Returns a name that can be a file's and is none of the project's own methods."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.=+-]{0,79}", name):
        raise ScoresError(f"--name {shown(name)!r}: letters, digits, and . = + - _ make a name")
    if name in known_methods() or name == TRUTH:
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
    graph = graph_of(checkpoint)
    read = None if source == TRUTH else read_scores(Path(source), graph)
    loaded = load(checkpoint)
    width = loaded.record.shape.d_model
    form = form or form_for(target)
    if read is None:
        write_scores(target, graph, form, circuit=loaded.truth.circuit, d_model=width)
    else:
        found = read
        scored = found.circuit is None or bool((found.scores.edges != found.circuit)[graph.legal].any())
        scores = found.scores if scored else None
        write_scores(target, graph, form, scores=scores, circuit=found.circuit, d_model=width)
    log.info("wrote %s (%s)", target, form)


def graph_of(checkpoint: str) -> Graph:
    """Returns the graph of a checkpoint's network; of one of ours without importing torch."""
    folder = find_checkpoint(checkpoint)
    return (read_record(folder) if is_ours(folder) else load(checkpoint).record).shape.graph
