"""Contests: makes one of networks that are trained for it, checks it, ranks entries, reveals the answers."""

import logging
import shutil
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import cast

import numpy as np
from joblib import Parallel, delayed
from pydantic import TypeAdapter

from interpbench.alignment.alignment import align
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.alignment.peers import copies_of_circuit
from interpbench.checkpoints.blind import GUIDE, Key, ProblemRecord, key_path, load_problem, write_problem
from interpbench.checkpoints.contests import (
    ATTEMPTS,
    CONTEST,
    FORMAT,
    KEYS,
    REVEALED,
    SEALED,
    ContestRecord,
    Sealed,
    contest_id,
    draw,
    fitting_task,
    keys_of,
    names_of,
    packed,
    private_of,
    problems_of,
    read_contest,
    read_sealed,
    read_secret,
    task_in_turn,
)
from interpbench.circuits.grades import Standard, grade
from interpbench.circuits.ground_truth import Truth
from interpbench.circuits.io.form import Contents, forms
from interpbench.circuits.io.score_files import read_scores
from interpbench.core.console import console
from interpbench.core.errors import CheckpointError, ConfigError, InterpBenchError, ScoresError, TrainingError
from interpbench.core.estimate import Estimate
from interpbench.core.exports import version_of
from interpbench.core.files import (
    MOST_JSON,
    check_writable,
    locked,
    read_bytes,
    sha256,
    write_bytes,
    write_json,
    write_text,
)
from interpbench.core.text import shown
from interpbench.discovery.isolated_run import apply
from interpbench.discovery.known_methods import EXAMPLES
from interpbench.discovery.method import get_method
from interpbench.runs.certified_training import CertifiedTraining, train_certified
from interpbench.runs.method_lists import with_settings
from interpbench.runs.score import ranked
from interpbench.scoring.against_copies import auroc_against_copies
from interpbench.scoring.comparison import Comparison
from interpbench.scoring.ranked_entries import AGAINST_COPIES, ENTRY_METRICS, entry_values, rank_entries
from interpbench.tasks.catalogue import get_task
from interpbench.training.interventional_accuracy import Evaluation
from interpbench.training.measure_certificate import certify
from interpbench.training.settings import CertificateSettings

log = logging.getLogger(__name__)
RESULTS = "contest-results.json"
LEVEL = "qkv_edge"
QUICK = CertificateSettings(pairs=256, looks=1, attacks=0, enumerate_up_to=1)
"""The certificate that is measured of a revealed network."""
LEAST_RATE, CERTIFIED = 0.95, "siit+edges"
"""The standard that it has to reach: the host's was higher, on more rows."""


@dataclass(frozen=True)
class Entry:
    """What an entrant has reached.

    Attributes:
        values: each of `ENTRY_METRICS` on each problem, by metric and problem; `AGAINST_COPIES` first, if all
            circuits have copies.
        means: their means over problems, with the ends of their intervals.
        answers: the SHA-256 of each answer.
    """

    values: dict[str, dict[str, float]]
    means: dict[str, Estimate]
    answers: dict[str, str]


@dataclass(frozen=True)
class ContestResults:
    """The result of a contest.

    Attributes:
        contest: the id of the contest.
        version: the version of InterpBench that scored it.
        entries: the entries by name, the best first.
        comparisons: every two of them, by the first metric.
        refused: why other entries were not scored.
        absolute: whether edges were ranked by the absolute values of their scores.
    """

    contest: str
    version: str
    entries: dict[str, Entry]
    comparisons: list[Comparison]
    refused: dict[str, str]
    absolute: bool


CertifiedProblem = tuple[str, Path, list[str]]
"""A problem, where its network is, and why those of earlier programs were not certified."""


def make_contest(
    folder: Path,
    models: int,
    seed_file: Path,
    tasks: Sequence[str],
    trained: CertifiedTraining = train_certified,
    jobs: int = 1,
) -> str:
    """Makes a contest, and returns its id. The same command goes on where it was interrupted.

    Args:
        folder: the folder to give away; what is kept is in the folder beside it (`private_of`).
        models: the number of problems.
        seed_file: the file of the secret, which is drawn if it is not there.
        tasks: the tasks without seeds, such as `random_rasp[spread=4,regime=alive]`; problems have
            them in turn.
        trained: trains and certifies a network.
        jobs: the number of processes that train at once.

    Raises:
        InterpBenchError: if the folder is there, a task is none, or too many programs were not certified.
    """
    if folder.exists():
        raise ConfigError(f"{folder} is there already; a contest is written to a folder of its own")
    names, private = names_of(models), private_of(folder)
    made = private / "public"
    if (private / SEALED).exists() and not made.exists():
        raise ConfigError(
            f"{private} has the keys of a contest that was made; move it, or give another --out"
        )
    for task, name in zip(tasks, names_of(len(tasks)), strict=True):  # says what is wrong with a task
        fitting_task("0" * 64, task, name, 0)
    if any(seed_file.resolve().is_relative_to(each.resolve()) for each in (folder, made)):
        raise ConfigError(f"the secret cannot be in {folder}, which is given away; try another --seed-file")
    secret = read_secret(seed_file, folder)
    check_writable(private)
    private.chmod(0o700)
    with locked(private):
        attempts: dict[str, int] = {}
        places: dict[str, Path] = {}
        trainings = (
            delayed(_certified)(secret, task_in_turn(tasks, name), name, private / "runs", trained)
            for name in names
        )
        try:
            done = Parallel(n_jobs=jobs, return_as="generator")(trainings)
            for name, place, failed in cast(Iterable[CertifiedProblem], done):
                attempts[name], places[name] = len(failed), place
                for said in failed:
                    log.info("problem %s: %s", name, said)
                log.info("problem %s of %d is certified", name, models)
        except BrokenProcessPool as error:
            raise TrainingError(
                "a process that trained was killed, perhaps for want of memory; the same command goes on, "
                "and fewer --jobs take less"
            ) from error
        (private / SEALED).unlink(missing_ok=True)
        sealed = packed(Sealed(FORMAT, secret, tuple(tasks), attempts))
        shutil.rmtree(made, ignore_errors=True)
        shutil.rmtree(private / KEYS, ignore_errors=True)
        (private / KEYS).mkdir(mode=0o700)
        ids: dict[str, str] = {}
        for name, place in places.items():
            ids[name] = write_problem(place, made / name).id
            key_path(made / name).rename(private / KEYS / f"{name}.key.json")
        record = packed(ContestRecord(FORMAT, version_of("interpbench"), ids, sha256(sealed)))
        guide = Template(Path(__file__).parents[1].joinpath("checkpoints/contest.md").read_text())
        write_bytes(private / SEALED, sealed, 0o600)
        write_bytes(made / GUIDE, guide.substitute(count=models).encode())
        write_bytes(made / CONTEST, record)
        made.rename(folder)
    log.info("contest: %s, to be given away", folder)
    log.info("id:      %s", contest_id(folder))
    log.info("private: %s, to be kept until all answers are in", private)
    return contest_id(folder)


def _certified(secret: str, task: str, name: str, out: Path, trained: CertifiedTraining) -> CertifiedProblem:
    """Trains networks of a problem's programs in turn, until one is certified."""
    failed: list[str] = []
    while len(failed) < ATTEMPTS:
        drawn = fitting_task(secret, task, name, len(failed))
        try:
            return name, trained(drawn, draw(secret, name, len(failed), "network") % (1 << 31), out), failed
        except TrainingError as error:
            failed.append(str(error))
    raise TrainingError(
        f"problem {name}: none of {ATTEMPTS} programs was certified; try an easier task than {task}; "
        f"the last one: {failed[-1]}"
    )


def check_contest(folder: Path) -> ContestRecord:
    """Checks that a contest is whole; once it is revealed, also that it is what was sealed.

    Then every program is drawn again from the secret, and its circuit is compared with that of the key.

    Raises:
        CheckpointError: in one line, if it is not.
    """
    record = read_contest(folder)
    log.info("contest %s: %d problems, complete and unchanged", contest_id(folder), len(record.problems))
    place = folder / REVEALED
    if not place.exists():
        log.info("not revealed: what is sealed has the SHA-256 %s", record.commitment)
        return record
    sealed, keys = read_sealed(place, record), keys_of(folder, place, record)
    for name, problem in problems_of(folder, record).items():
        _check_key(folder / name, name, sealed.task_of(name), keys[name], problem)
    log.info(
        "revealed: %s; every circuit is the one that was sealed (%d programs drawn, %d given up)",
        ", ".join(sealed.tasks),
        len(record.problems) + sealed.given_up,
        sealed.given_up,
    )
    return record


def _check_key(place: Path, name: str, task: str, key: Key, problem: ProblemRecord) -> None:
    """Checks that a key is of the program that the secret draws, and that the network carries its circuit.

    Raises:
        CheckpointError: if its task or its truth is another one, or the network does something else.
    """
    drawn = get_task(task)
    graph = problem.shape.graph
    alignment = align(drawn, graph)
    truth = find_truth(alignment)
    if key.task != drawn.name or Truth.from_json(graph, key.truth).to_json() != truth.to_json():
        raise CheckpointError(f"problem {name}: its key is not of the program that the secret draws")
    network = load_problem(place).network
    verdict = grade(certify(Evaluation(network, alignment), truth, QUICK), Standard(target=LEAST_RATE))
    if not verdict.reaches(CERTIFIED):
        raise CheckpointError(
            f"problem {name}: its network does not carry the circuit: {verdict.missed(CERTIFIED)[0]}"
        )
    pairs = load_problem(place)
    if (pairs.clean == pairs.corrupted).all(1).any():
        raise CheckpointError(f"problem {name}: some of its corrupted inputs are the clean ones")


def answer_contest(folder: Path, method: str, out: Path) -> None:
    """Writes the answers of a registered method, a CSV file for each problem.

    Args:
        folder: the contest.
        method: the name of the method, with settings as in `eap_ig+steps=10`.
        out: the folder of the entrant.

    Raises:
        InterpBenchError: if there is no such method, it has no scores for a problem, or an answer is there.
    """
    name, settings = with_settings(method)
    problems = read_contest(folder).problems
    if there := [path for problem in problems for path in sorted(out.glob(f"{problem}.*"))]:
        raise ConfigError(f"{there[0]} is an answer already; remove it, or give another --out")
    for problem in problems:
        scores = apply(get_method(name, settings), load_problem(folder / problem, EXAMPLES), name)
        write_text(out / f"{problem}.csv", forms()["csv"].write(Contents(scores.graph, scores)))
        log.info("problem %s: %s", problem, out / f"{problem}.csv")


def score_contest(
    folder: Path, answers: Path, private: Path | None = None, absolute: bool = False
) -> ContestResults:
    """Ranks entries, prints a table and writes `contest-results.json` into the folder of answers.

    Args:
        folder: the contest.
        answers: a folder for each entrant, which holds a file of scores for each problem, called by it.
        private: the private folder; None for the revealed one, or the one beside the contest.
        absolute: whether edges are ranked by the absolute values of their scores.

    Raises:
        InterpBenchError: if the contest is damaged, the keys are missing, or no entry can be scored.
    """
    record = read_contest(folder)
    place = private or (folder / REVEALED if (folder / REVEALED).exists() else private_of(folder))
    keys, problems = keys_of(folder, place, record), problems_of(folder, record)
    truths = {name: Truth.from_json(problems[name].shape.graph, key.truth) for name, key in keys.items()}
    copies = _copies(keys, truths)
    entrants = sorted(path for path in answers.glob("*") if path.is_dir() and not path.name.startswith("."))
    if not entrants:
        inside = any(path.stem in record.problems for path in answers.glob("*"))
        above = f"; these are answers of one: give {shown(answers.absolute().parent)}" if inside else ""
        raise ScoresError(f"there are no folders of entrants in {shown(answers)}{above}")
    from interpbench.reports.tables import rows_table

    entries: dict[str, tuple[dict[str, dict[str, float]], dict[str, str]]] = {}
    refused: dict[str, str] = {}
    for entrant in entrants:
        try:
            entries[entrant.name] = _entry(entrant, record, truths, copies, absolute)
        except InterpBenchError as error:
            refused[entrant.name] = str(error)
            log.error("not scored: %s: %s", shown(entrant.name), error)
    if not entries:
        raise ScoresError(f"no entry in {shown(answers)} can be scored")
    programs = {name: get_task(key.task).description for name, key in keys.items()}
    best = rank_entries({name: values for name, (values, _) in entries.items()}, programs)
    found = ContestResults(
        contest_id(folder),
        version_of("interpbench"),
        {name: Entry(entries[name][0], means, entries[name][1]) for name, means in best.means.items()},
        best.comparisons,
        refused,
        absolute,
    )
    write_json(answers / RESULTS, TypeAdapter(ContestResults).dump_python(found, mode="json"))
    console().print(rows_table(best.rows()))
    log.info("results: %s", answers / RESULTS)
    return found


def _copies(keys: Mapping[str, Key], truths: Mapping[str, Truth]) -> dict[str, list[np.ndarray]] | None:
    """Returns the edges of each copy of each problem's circuit; None if a problem has no copies."""
    tasks = {name: get_task(key.task) for name, key in keys.items()}
    if any(task.crowd is None for task in tasks.values()):
        return None
    return {
        name: [edges for _, edges in copies_of_circuit(task, truths[name])] for name, task in tasks.items()
    }


def _entry(
    entrant: Path,
    record: ContestRecord,
    truths: Mapping[str, Truth],
    copies: Mapping[str, list[np.ndarray]] | None,
    absolute: bool,
) -> tuple[dict[str, dict[str, float]], dict[str, str]]:
    """Returns the scores of an entrant's answers to all problems, and the SHA-256 of each answer."""
    metrics = [*[AGAINST_COPIES] * (copies is not None), *ENTRY_METRICS]
    values: dict[str, dict[str, float]] = {metric: {} for metric in metrics}
    answers: dict[str, str] = {}
    for name, truth in truths.items():
        files = sorted(path for path in entrant.glob(f"{name}.*") if path.is_file())
        if links := [path for path in (entrant, *files) if path.is_symlink()]:
            raise ScoresError(f"{links[0].name} is a link; an answer is a file of its own")
        if len(files) != 1:
            said = "no answer" if not files else f"{len(files)} answers"
            raise ScoresError(f"{said} to problem {name}; each needs one file, {name}.json or {name}.csv")
        found = read_scores(files[0], truth.graph)
        if found.problem not in (None, record.problems[name]):
            raise ScoresError(f"{files[0].name} answers another problem, {shown(found.problem)}")
        answers[name] = sha256(read_bytes(files[0], MOST_JSON))
        scores = ranked(found, absolute)
        for metric, value in entry_values(truth, scores, LEVEL).items():
            values[metric][name] = value
        if copies is not None:
            against = auroc_against_copies(scores.edges, copies[name])
            values[AGAINST_COPIES][name] = 0.5 if against is None else against
    return values, answers


def reveal_contest(folder: Path, private: Path | None = None) -> Path:
    """Copies the secret and the keys into a contest, and checks that they are what was sealed.

    Args:
        folder: the contest.
        private: the private folder; None for the one beside the contest.

    Raises:
        CheckpointError: if they are not.
    """
    record, place = read_contest(folder), private or private_of(folder)
    sealed = read_sealed(place, record)
    keys_of(folder, place, record)
    target = folder / REVEALED
    for name in record.problems:
        path = Path(KEYS) / f"{name}.key.json"
        write_bytes(target / path, read_bytes(place / path, MOST_JSON))
    write_bytes(target / SEALED, packed(sealed))
    check_contest(folder)
    return target
