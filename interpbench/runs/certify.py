"""Recomputes a checkpoint's certificate from its weights and its task."""

import dataclasses
import logging
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from interpbench.alignment.alignment import align
from interpbench.alignment.truth import find_truth
from interpbench.checkpoints.find import CERTIFICATE, find_checkpoints
from interpbench.checkpoints.format import Checkpoint, load_checkpoint
from interpbench.checkpoints.index import INDEX
from interpbench.checkpoints.record import task_of
from interpbench.circuits.truth import State
from interpbench.core.errors import CheckpointError
from interpbench.core.files import write_json
from interpbench.core.progress import Display
from interpbench.reports.tables import certificate_table
from interpbench.tasks.catalogue import get_task
from interpbench.training.certificate import DEMANDS, certify
from interpbench.training.evaluate import Evaluation
from interpbench.training.objective import Objective
from interpbench.training.settings import CertificateSettings

log = logging.getLogger(__name__)


def certify_checkpoints(
    name: str, pairs: int | None = None, save: bool = False, seed: int = 0, own_task: str | None = None
) -> bool:
    """Certifies every checkpoint that `name` means and prints the tables; returns whether all hold.

    The truth is computed anew from the task: a record that claims another one is an error. `own_task` says
    where a task is that is not in the catalogue, as `get_task` takes it.
    """
    if own_task is not None:
        get_task(own_task)
    console = Console(width=None if sys.stdout.isatty() else 120)
    folders = find_checkpoints(name)
    for folder in folders:
        if save and (folder.parent / INDEX).is_file():
            raise CheckpointError(
                f"the index beside {folder} has its certificate's hash; --save in a copy of it"
            )
    results = [_certify(folder, pairs, save, seed, console) for folder in folders]
    return all(results)


def _certify(folder: Path, pairs: int | None, save: bool, seed: int, console: Console) -> bool:
    checkpoint = load_checkpoint(folder)
    task, graph = task_of(checkpoint.task), checkpoint.record.shape.graph
    if set(checkpoint.record.alignment) != set(task.model.variables):
        raise CheckpointError(f"{folder}: its alignment does not name the variables of task {task.name}")
    alignment = align(task, graph, checkpoint.record.alignment)
    truth = find_truth(alignment)
    if truth.to_json() != checkpoint.record.truth:
        raise CheckpointError(
            f"{folder}: its truth is not the one that task {task.name} has with this alignment"
        )
    settings = CertificateSettings(**_known(CertificateSettings, checkpoint, "certificate"))
    if pairs is not None:
        settings = dataclasses.replace(settings, pairs=pairs)
    objective = _known(Objective, checkpoint, "objective")
    demands = Objective(**objective).demands if objective else DEMANDS
    evaluation = Evaluation(checkpoint.model, alignment)
    with Display(f"certify {folder.name}, pairs", sum(settings.number_of_pairs(task))) as display:
        certificate = certify(
            evaluation, truth, settings, seed, demands, progress=lambda done, total: display.update(done, "")
        )
    console.print(certificate_table(certificate))
    if checkpoint.record.kind == "published":
        console.print(_claims(checkpoint), highlight=False)
    if save:
        write_json(folder / CERTIFICATE, certificate)
        log.info("wrote %s", folder / CERTIFICATE)
    return bool(certificate["certified"])


def _known(settings: type, checkpoint: Checkpoint, name: str) -> dict[str, Any]:
    """Returns the settings that training recorded, without those that only another version has."""
    names = {field.name for field in dataclasses.fields(settings)}
    return {k: v for k, v in (checkpoint.record.training.get(name) or {}).items() if k in names}


def _claims(checkpoint: Checkpoint) -> str:
    """Says how the circuit that a published model comes with compares with the truth."""
    from interpbench.checkpoints.legacy import claimed_edges

    truth = checkpoint.truth
    claimed = claimed_edges(checkpoint.folder, truth.graph)
    if claimed is None:
        return "no edges.pkl: it claims no circuit"
    states = {state: set(truth.names("head_edge", state)) for state in State}
    required, forbidden = states[State.REQUIRED], states[State.FORBIDDEN]
    text = (
        f"edges.pkl claims {len(claimed)} head edges: {len(required & set(claimed))} of the {len(required)} "
    )
    text += "that are required"
    for what, edges in (("missing", required - set(claimed)), ("forbidden", forbidden & set(claimed))):
        text += f"; {what}: {', '.join(sorted(edges))}" if edges else ""
    return text
