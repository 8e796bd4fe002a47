"""Measures a checkpoint anew, from its weights and its task, by a standard that is the reader's."""

import logging
import secrets
from pathlib import Path

import numpy as np

from interpbench.checkpoints.certificate_file import read_certificate, write_certificate
from interpbench.checkpoints.checkpoint_files import CERTIFICATE, is_ours
from interpbench.checkpoints.find import find_checkpoints
from interpbench.checkpoints.format import Checkpoint
from interpbench.checkpoints.index import INDEX
from interpbench.checkpoints.load import load_checkpoint
from interpbench.circuits.certificate import Certificate, Identity, Kind, name_of
from interpbench.circuits.grades import RELEASED, Grade, Standard, grade, said_of
from interpbench.circuits.ground_truth import State
from interpbench.core.console import console
from interpbench.core.errors import CheckpointError, TaskError
from interpbench.core.process import prepare_torch
from interpbench.core.progress import Display
from interpbench.reports.certificates import certificate_table
from interpbench.runs.scrub import POSITIONS, scrub_program
from interpbench.runs.scrub_report import percent
from interpbench.runs.subject import Subject, subject_of
from interpbench.scrubbing.path_draws import Sampling
from interpbench.scrubbing.program_claims import PROGRAM_LEVELS
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.identity import task_sha256
from interpbench.training.intervention_tests import InterventionTests
from interpbench.training.interventional_accuracy import Evaluation
from interpbench.training.measure_certificate import certify
from interpbench.training.settings import CertificateSettings
from interpbench.transformer.model import Transformer

log = logging.getLogger(__name__)
SCRUBBED = 512, 500
"""How many inputs and samples scrubbing has beside a certificate."""
SAMPLING: Sampling = "node"
"""How unimportant parents are resampled there."""
MOST_COUNTED = 1000
"""The largest number of inputs of which the pairs on which a swap has an answer are counted anew."""


def certify_checkpoints(
    name: str,
    least: Grade = RELEASED,
    standard: Standard | None = None,
    settings: CertificateSettings | None = None,
    *,
    quick: bool = False,
    save: bool = False,
    seed: int | None = None,
    own_task: str | None = None,
) -> bool:
    """Measures every checkpoint that `name` means and prints the tables; returns whether all reach a grade.

    How much is measured and what is asked for are the caller's: what the checkpoint was trained for, and what
    its own certificate says, count for nothing. The truth is computed anew from the task: a record that
    claims another one is an error.

    Args:
        name: as `find_checkpoints` takes it.
        least: the grade that each must reach.
        standard: what is asked for; None for what is asked of released models.
        settings: how much to measure; None likewise.
        quick: measure no more than `least` needs.
        save: write `certificate.json` anew.
        seed: of all draws; None for one that nobody can have known when the network was made.
        own_task: where a task is that is not in the catalogue, as `get_task` takes it.
    """
    prepare_torch()
    if own_task is not None:
        get_task(own_task)
    folders = find_checkpoints(name)
    for folder in folders:
        if save and (folder.parent / INDEX).is_file():
            raise CheckpointError(
                f"the index beside {folder} has its certificate's hash; --save in a copy of it"
            )
    terminal = console()
    standard, settings = standard or Standard(), settings or CertificateSettings()
    seed = secrets.randbits(32) if seed is None else seed
    log.info("rows are drawn with --seed %d", seed)
    good = True
    for folder in folders:
        checkpoint = load_checkpoint(folder, certificate=False)
        subject = subject_of(checkpoint)
        certificate = _measure(
            checkpoint, subject, standard, settings, seed, least if quick else "adversarial"
        )
        terminal.print(certificate_table(certificate, standard))
        if checkpoint.record.kind == "published":
            terminal.print(_claims(checkpoint), highlight=False)
        log.info("scrubbed: %s", _scrubbed(checkpoint, subject))
        reached = grade(certificate, standard).reaches(least)
        log.info("%s: %s%s", folder.name, "" if reached else f"NOT {least}: ", said_of(certificate, standard))
        if save:
            identity = Identity(checkpoint.record.sha256, subject.truth.sha256, task_sha256(subject.task))
            write_certificate(folder / CERTIFICATE, certificate, identity)
            log.info("wrote %s", folder / CERTIFICATE)
        else:
            _compare(checkpoint, subject)
        good = good and reached
    return good


def check_task(path: Path, certificate: Certificate, subject: Subject, network: Transformer) -> None:
    """Refuses a certificate that is not of this task's program on its domain.

    Args:
        path: the file that the certificate was read from, for messages.
        certificate: the certificate.
        subject: what it should be of.
        network: the network that it was measured on.

    Raises:
        CheckpointError: if it is of another, or says something of the domain that is not so.
    """
    task, again = subject.task, f"`interpbench certify {path.parent} --save` makes a new one"
    if certificate.identity is None or certificate.identity.task != task_sha256(task):
        raise CheckpointError(
            f"{path} is of another program or domain than task {task.name} has here; {again}"
        )
    domain = task.domain
    if certificate.strata != task.strata.names:
        raise CheckpointError(f"{path} is damaged: its strata are not those of task {task.name}; {again}")
    if certificate.trained_on_all != domain.enumerated:
        raise CheckpointError(f"{path} is damaged: trained_on_all is not so of task {task.name}; {again}")
    if not certificate.all_pairs:
        return
    wanted = rows_of_all_pairs(subject, network)
    for kind, places in certificate.rates.items():
        for place, draws in places.items():
            rate, counted = draws.get("pairs"), wanted.get((kind, place))
            if counted is not None and rate is not None and rate.rows != counted:
                said = f"has {rate.rows:,} rows, where all pairs are {counted:,}"
                raise CheckpointError(f"{path} is damaged: {name_of(kind, place)} {said}; {again}")


def rows_of_all_pairs(subject: Subject, network: Transformer) -> dict[tuple[Kind, str], int]:
    """Returns how many pairs of inputs count for each kind and place; of single positions, chance says."""
    task, tests = subject.task, InterventionTests(Evaluation(network, subject.alignment), subject.truth)
    inputs = task.domain.all() if task.domain.enumerated else task.domain.draw(np.random.default_rng(0), 0)
    alike: tuple[Kind, ...] = ("accuracy", "nodes", "edges", "node_sets", "edge_sets")
    answered = int(task.scored(task.causal_model.outputs(inputs)).any(1).sum()) * len(inputs)
    rows: dict[tuple[Kind, str], int] = {
        (kind, place): answered for kind in alike for place in tests.places[kind]
    }
    if len(inputs) > MOST_COUNTED:
        return rows
    base, source = inputs.repeat(len(inputs), 0), np.tile(inputs, (len(inputs), 1))
    nowhere = np.zeros(len(base), np.intp)
    by_program: tuple[Kind, ...] = ("variables", "effective", "required_edges")
    for kind in by_program:
        for place in tests.places[kind]:
            rows[kind, place] = int(tests.counting(kind, place, base, source, nowhere).sum())
    return rows


def _measure(
    checkpoint: Checkpoint,
    subject: Subject,
    standard: Standard,
    settings: CertificateSettings,
    seed: int,
    upto: Grade,
) -> Certificate:
    """Returns a new certificate."""
    with Display(f"certify {checkpoint.folder.name}", 1) as display:

        def show(done: int, total: int) -> None:
            display.total = total
            display.update(done, "")

        evaluation = Evaluation(checkpoint.network, subject.alignment)
        return certify(evaluation, subject.truth, settings, standard, seed, upto, progress=show)


def _scrubbed(checkpoint: Checkpoint, subject: Subject) -> str:
    """Says how much of its loss a network keeps under the hypotheses that it does what its program does."""
    try:
        report = scrub_program(
            checkpoint.network,
            subject.alignment,
            subject.truth.circuit,
            inputs=SCRUBBED[0],
            samples=SCRUBBED[1],
            samplings=(SAMPLING,),
            claims=False,
        )
    except TaskError as error:
        return str(error)
    said: list[str] = []
    for level in (PROGRAM_LEVELS[-1], POSITIONS):
        one = report.results[level][SAMPLING]
        said.append(f"{percent(one)} % ({level}, {SAMPLING}; loss {one.scrubbed.value:.4g})")
    best = report.results[POSITIONS][SAMPLING].constant
    return f"recovers {' and '.join(said)} of the loss; the best constant has a loss of {best:.4g}"


def _compare(checkpoint: Checkpoint, subject: Subject) -> None:
    """Says if the certificate that is there is not one of this model."""
    if not is_ours(checkpoint.folder):
        return
    path = checkpoint.folder / CERTIFICATE
    try:
        saved = read_certificate(path, checkpoint.record)
        if saved is not None:
            check_task(path, saved, subject, checkpoint.network)
    except CheckpointError as error:
        log.warning("%s", error)


def _claims(checkpoint: Checkpoint) -> str:
    """Says how the circuit that a published model comes with compares with the truth."""
    from interpbench.checkpoints.published_files import claimed_edges

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
