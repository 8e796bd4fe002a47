"""The commands about models as files: list, download, publish, export, and measure them anew."""

import argparse
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from interpbench.checkpoints.certificate_file import check_files
from interpbench.checkpoints.checkpoint_files import is_ours
from interpbench.checkpoints.find import find_checkpoint, find_checkpoints
from interpbench.checkpoints.hub import target_of
from interpbench.checkpoints.index import check_grade
from interpbench.checkpoints.record import task_of
from interpbench.circuits.grades import GRADES, RELEASED, Grade, Standard
from interpbench.core.config import convert
from interpbench.core.console import WIDE, console
from interpbench.core.errors import ConfigError, ScoresError
from interpbench.core.files import check_file, check_writable
from interpbench.core.text import shown
from interpbench.runs.scrub_options import MOST_INPUTS, MOST_SAMPLES, check_options
from interpbench.runs.subcommand import argument, subcommand
from interpbench.scoring.leaderboard_rows import BOARD
from interpbench.tasks.catalogue import get_task
from interpbench.training.settings import CertificateSettings

MOST_PAIRS = 10**7
EXAM_RANKINGS = ("precision", "auroc")
"""The names of what is about rankings of edges, as the gate is."""
EXAM_METRICS = (
    *(*EXAM_RANKINGS, "complete", "answers", "needed"),
    *("chosen_size", "chosen_precision", "chosen_recall"),
)
"""The names of what the exam compares, which is in `scoring.exam_data`, whose import takes a second."""
NO_GRADE = "none"
"""What is said where no grade is asked for."""


def _distance(text: str) -> float:
    """Returns how far an AUROC may be from 0.5.

    Raises:
        ArgumentTypeError: if that is no number from 0 to 0.5.
    """
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 0.5:
        raise argparse.ArgumentTypeError(f"{shown(text)}: a number from 0 to 0.5 is wanted")
    return value


@subcommand(
    "models",
    "list models: here, in the cache, on the hub; grades",
    argument("names", nargs="*", metavar="NAME", help="only these: names, numbers, groups, folders"),
    argument("--hub", action="store_true", help="ask the hub what there is (network)"),
    argument("--write", action="store_true", help="write the tables of docs/models.md and README"),
)
def _models(arguments: argparse.Namespace) -> int:
    from interpbench.runs.models import list_models, write_pages

    if arguments.write:
        write_pages()
        return 0
    list_models(console(WIDE), arguments.hub, arguments.names)
    return 0


@subcommand(
    "download",
    "download models into the cache, and verify them (network)",
    argument("names", nargs="*", metavar="NAME", help="name, number, or hf://owner/name@rev/folder"),
    argument("--all", action="store_true", help="all models of the repository"),
)
def _download(arguments: argparse.Namespace) -> int:
    from interpbench.runs.download import download

    return 0 if download(arguments.names, arguments.all) else 1


@subcommand(
    "publish",
    "upload models, their cards and an index (network)",
    argument("names", nargs="+", metavar="NAME", help="names, numbers, groups, folders, or all"),
    argument("--to", required=True, metavar="OWNER/NAME", help="repository; @branch may follow"),
    argument("--out", metavar="FOLDER", help="write here what would be uploaded; no network"),
    argument("--create", action="store_true", help="make the repository if there is none"),
    argument(
        "--grade", choices=(NO_GRADE, *GRADES), default=RELEASED, help="what each certificate must reach"
    ),
)
def _publish(arguments: argparse.Namespace) -> int:
    least = None if arguments.grade == NO_GRADE else arguments.grade
    target_of(arguments.to)
    out = _checked(arguments.names, arguments.out, least)
    from interpbench.runs.publish import publish

    publish(arguments.names, arguments.to, out, arguments.create, least)
    return 0


@subcommand(
    "export",
    "write a model for TransformerLens 1 to 3, or for Hugging Face",
    argument("checkpoint", help="a name in models/, a folder, or an address"),
    argument("--bert", action="store_true", help="an encoder that fills in masks, as a BERT"),
    argument("--out", metavar="FOLDER", help="where to; runs/transformer-lens/NAME or runs/bert/NAME"),
)
def _export(arguments: argparse.Namespace) -> int:
    out = _checked([arguments.checkpoint], arguments.out, None)
    from interpbench.runs.export import export, export_bert

    (export_bert if arguments.bert else export)(arguments.checkpoint, out)
    return 0


@subcommand(
    "shortcuts",
    "measure how well circuits can be guessed without patching anything",
    argument("names", nargs="+", metavar="NAME", help="models: names, groups, folders"),
    argument(
        "--within", type=_distance, metavar="X", help="fail if a mean AUROC is further than this from 0.5"
    ),
    argument(
        "--peers", action="store_true", help="only among copies of the circuit, in models with regime=alive"
    ),
    argument("--each", action="store_true", help="also list each model, with what tells its circuit best"),
)
def _shortcuts(arguments: argparse.Namespace) -> int:
    folders = [folder for name in arguments.names for folder in find_checkpoints(name)]
    for folder in folders:
        if is_ours(folder):
            check_grade(folder, None)
    from interpbench.runs.shortcuts import show_shortcuts

    near = show_shortcuts(console(WIDE), folders, arguments.within, arguments.peers, arguments.each)
    return 0 if near else 1


@subcommand(
    "exam",
    "what regimes do to methods, beside the clean twins",
    argument("--rows", default="docs/exam", metavar="FOLDER", help="with the rows of models in regimes"),
    argument("--twins", default="docs/exam/twins", metavar="FOLDER", help="with those of their clean twins"),
    argument("--metric", choices=EXAM_METRICS, default=EXAM_METRICS[0], help="what is compared"),
    argument("--each", action="store_true", help="print every method in every combination of regimes"),
    argument("--gate", action="store_true", help="only say whether methods do what theory says; fail if not"),
    argument("--write", action="store_true", help="write the table of docs/exam.md, and its figure"),
)
def _exam(arguments: argparse.Namespace) -> int:
    for folder, models in ((arguments.rows, "regimes"), (arguments.twins, "nontrivial")):
        if not (Path(folder) / BOARD).is_file():
            made = f"evaluate.py method=… checkpoint={models} board={shown(folder)}"
            raise ScoresError(f"{shown(folder)} has no {BOARD}; {made} makes it")
    for other in ("each", "write"):
        if arguments.gate and getattr(arguments, other):
            raise ConfigError(f"--gate prints its assertions alone: leave out --{other}")
    if arguments.gate and arguments.metric not in EXAM_RANKINGS:
        rankings = " or ".join(EXAM_RANKINGS)
        raise ConfigError(f"--gate is about rankings: --metric {rankings}, not {arguments.metric}")
    from interpbench.runs.exam import asserted, effects_in, orders_in, show_exam, write_exam
    from interpbench.scoring.exam_data import METRICS

    effects = effects_in(Path(arguments.rows), Path(arguments.twins), arguments.metric)
    if not arguments.gate:
        show_exam(console(WIDE), effects, METRICS[arguments.metric], arguments.each)
    if arguments.write:
        write_exam(Path(arguments.rows), Path(arguments.twins), arguments.metric)
    found = asserted(effects, orders_in(Path(arguments.rows))) if arguments.gate else []
    for one in found:
        line = f"{'held' if one.held else 'missed'}: {one.said}"
        console(WIDE).print(line, highlight=False, markup=False, soft_wrap=True)
    return 0 if all(one.held for one in found) else 1


def _checked(names: Sequence[str], out: str | None, least: Grade | None) -> Path | None:
    """Refuses, before torch is imported, models that are not there or below a grade; returns the folder."""
    for folder in (folder for name in names for folder in find_checkpoints(name)):
        if is_ours(folder):
            check_grade(folder, least)
    if out:
        check_writable(Path(out))
    return Path(out) if out else None


def _count(text: str) -> int:
    """Returns a number of pairs.

    Raises:
        ArgumentTypeError: if it is none.
    """
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= MOST_PAIRS):
        raise argparse.ArgumentTypeError(f"{shown(text)!r} is no number from 1 to {MOST_PAIRS:,}")
    return int(text)


@subcommand(
    "certify",
    "measure a checkpoint anew, and say which grade it reaches",
    argument("checkpoint", help="a name, a number, a group, a folder, or all"),
    argument("--grade", choices=GRADES, default=RELEASED, help="what it must reach for status 0"),
    argument("--target", type=float, help="least lower bound of each drawn rate"),
    argument("--confidence", type=float, help="of each lower bound"),
    argument("--worst", type=float, help="least lower bound on the worst sets found"),
    argument("--missed", type=float, help="most that the screen of single edges may miss"),
    argument("--missed-edge", type=float, help="the same, of any one of them"),
    argument("--positions", action="store_true", help="ask for swaps at one position alone, too"),
    argument("--pairs", type=_count, help="pairs of the first look, where not all pairs are run"),
    argument("--looks", type=_count, help="looks at more and more pairs, at most"),
    argument("--checks", type=_count, help="(edge, row) drawn of those the screen passes over"),
    argument("--tried", type=_count, help="least number of sets that the adversary has to try"),
    argument("--attacks", type=_count, help="sets from which the adversary starts"),
    argument("--quick", action="store_true", help="measure no more than the grade needs"),
    argument("--seed", type=int, help="of all draws; a new one is drawn, and said, if left out"),
    argument("--task", help="where a task of your own is: path/to/file.py:name"),
    argument("--save", action="store_true", help="write certificate.json anew"),
)
def _certify(arguments: argparse.Namespace) -> int:
    if arguments.task is not None:
        get_task(arguments.task)
    given = {name: value for name, value in vars(arguments).items() if value is not None}

    def settings_of(kind: type[Standard | CertificateSettings]) -> dict[str, object]:
        return {field.name: given[field.name] for field in fields(kind) if field.name in given}

    standard = convert(Standard, settings_of(Standard), "certify")
    settings = convert(CertificateSettings, settings_of(CertificateSettings), "certify")
    for folder in find_checkpoints(arguments.checkpoint):  # what is wrong is said before torch is imported
        _ = task_of(check_files(folder, certificate=False).task) if is_ours(folder) else None
    from interpbench.runs.certify import certify_checkpoints

    good = certify_checkpoints(
        arguments.checkpoint,
        arguments.grade,
        standard,
        settings,
        quick=arguments.quick,
        save=arguments.save,
        seed=arguments.seed,
        own_task=arguments.task,
    )
    return 0 if good else 1


@subcommand(
    "scrub",
    "causal scrubbing: how much of its loss a network keeps under a hypothesis",
    argument("checkpoint", help="a name in models/, or a folder"),
    argument("--circuit", metavar="FILE", help="scrub a circuit that was found, instead of the program"),
    argument("--hypothesis", metavar="FILE.py:NAME", help="scrub a hypothesis of your own instead"),
    argument("--inputs", type=int, default=MOST_INPUTS, help=f"inputs that claims exchange ({MOST_INPUTS})"),
    argument("--samples", type=int, default=MOST_SAMPLES, help=f"samples of each number ({MOST_SAMPLES})"),
    argument("--seed", type=int, default=0, help="seed of inputs and draws (0)"),
    argument("--donors", action="store_true", help="add inputs that agree with those that are alone"),
    argument("--soft", type=float, metavar="WIDTH", help="also exchange inputs with similar numbers"),
    argument("--refine", action="store_true", help="which further claims and features matter"),
    argument("--task", help="where a task of your own is: path/to/file.py:name"),
    argument("--json", metavar="FILE", help="write all numbers to a file"),
    argument("--page", metavar="FILE", help="write an HTML page: the hypothesis, and the inputs of a sample"),
    argument("--sample", type=int, metavar="N", help="which sample the page shows (that with most changes)"),
)
def _scrub(arguments: argparse.Namespace) -> int:
    checked = ("inputs", "samples", "seed", "soft", "sample")
    check_options(**{name: getattr(arguments, name) for name in checked})
    if arguments.task is not None:
        get_task(arguments.task)
    find_checkpoint(arguments.checkpoint)
    circuit = Path(arguments.circuit) if arguments.circuit else None
    if circuit is not None and not circuit.is_file():
        raise ConfigError(f"there is no file {shown(arguments.circuit)} of a circuit")
    for file in filter(None, (arguments.json, arguments.page)):
        check_file(Path(file))
    if circuit is not None and arguments.hypothesis:
        raise ConfigError("--circuit and --hypothesis: say one of them")
    from interpbench.runs.scrub import scrub_checkpoint
    from interpbench.runs.scrub_report import show_report

    settings = (*checked, "donors", "refine")
    numbers = {name: getattr(arguments, name) for name in settings}
    own = arguments.hypothesis or None
    report = scrub_checkpoint(arguments.checkpoint, circuit=circuit, hypothesis=own, **numbers)
    show_report(console(WIDE), report, arguments.refine)
    if arguments.json:
        report.save(arguments.json)
    if arguments.page:
        report.save_page(arguments.page)
    return 0
