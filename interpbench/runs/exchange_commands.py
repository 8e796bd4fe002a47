"""The commands that exchange things with others: scores, blind problems, reports."""

import math
from argparse import Namespace
from pathlib import Path

from interpbench.checkpoints.certificate_file import check_files
from interpbench.checkpoints.checkpoint_files import is_ours
from interpbench.checkpoints.find import find_checkpoints
from interpbench.checkpoints.submission_files import check_words
from interpbench.circuits.io.form import forms
from interpbench.core.console import WIDE, console
from interpbench.core.errors import ConfigError, InterpBenchError
from interpbench.core.files import check_file
from interpbench.core.text import shown
from interpbench.runs.subcommand import argument, subcommand

SUBMISSIONS = "docs/submissions"
CHECKPOINT = "a name in models/, or a folder"
ABSOLUTE = argument("--absolute", action="store_true", help="rank signed scores by magnitude")


@subcommand(
    "score",
    "score a file of scores, made by anyone's code, against a truth",
    argument("scores", help="JSON of EAP-IG or MIB, ACDC's edge list as JSON, or CSV"),
    argument("--checkpoint", required=True, help=CHECKPOINT),
    argument("--name", help="what to call the method; the file's name if left out"),
    ABSOLUTE,
    argument("--structural", action="store_true", help="count allowed edges as positive"),
    argument("--no-pictures", action="store_true", help="draw nothing"),
    argument("--out", default="runs/evaluate", help="folder of evaluations"),
)
def _score(arguments: Namespace) -> int:
    from interpbench.runs.score import score_file

    score_file(
        Path(arguments.scores),
        arguments.checkpoint,
        name=arguments.name,
        absolute=arguments.absolute,
        structural=arguments.structural,
        pictures=not arguments.no_pictures,
        out=arguments.out,
    )
    return 0


@subcommand(
    "convert",
    "write scores, a record or the truth in another form",
    argument("scores", help="a file of scores, a record of an evaluation, or the word truth"),
    argument("target", help="the file to write"),
    argument("--checkpoint", required=True, help=CHECKPOINT),
    argument("--to", choices=list(forms()), help="csv for files called so, else eap_ig"),
)
def _convert(arguments: Namespace) -> int:
    from interpbench.runs.score import convert_file

    convert_file(arguments.scores, Path(arguments.target), arguments.checkpoint, arguments.to)
    return 0


@subcommand(
    "export-problem",
    "write a blind problem: model and data without the truth",
    argument("checkpoint", help=CHECKPOINT),
    argument("--out", default="", help="folder to write; runs/problems/problem-… if left out"),
)
def _export_problem(arguments: Namespace) -> int:
    from interpbench.runs.blind_problems import export_problem

    export_problem(arguments.checkpoint, Path(arguments.out) if arguments.out else None)
    return 0


@subcommand(
    "verify-problem",
    "check a blind problem, or score an answer to it",
    argument("problem", help="the problem's folder"),
    argument("scores", nargs="?", help="the answer: a file of scores"),
    argument("--key", help="the problem's key; FOLDER.key.json if left out and there"),
    ABSOLUTE,
)
def _verify_problem(arguments: Namespace) -> int:
    from interpbench.runs.blind_problems import verify_problem

    answer, key = (Path(name) if name else None for name in (arguments.scores, arguments.key))
    verify_problem(Path(arguments.problem), answer, key, arguments.absolute)
    return 0


@subcommand(
    "submit",
    "write a submission to the leaderboard: one method's scores on released models",
    argument("scores", help="a folder with a file of scores for each model, or what evaluate.py has written"),
    argument("--name", required=True, help="what the method is called"),
    argument("--checkpoint", default="nontrivial", help="the released models it is for (nontrivial)"),
    argument("--about", default="", help="a line about the method"),
    argument("--link", default="", help="where its code or paper is, https://…"),
    argument("--seconds", type=float, help="what it cost on all models together; measured for evaluate.py"),
    ABSOLUTE,
    argument("--out", default=SUBMISSIONS, help=f"folder of submissions ({SUBMISSIONS})"),
)
def _submit(arguments: Namespace) -> int:
    folder = Path(arguments.scores)
    if not folder.is_dir():
        raise InterpBenchError(f"there is no folder {shown(arguments.scores)} with files of scores")
    check_words(arguments.about, arguments.link)
    if arguments.seconds is not None and not 0 <= arguments.seconds < math.inf:
        raise ConfigError(f"--seconds {arguments.seconds} is no amount of time")
    find_checkpoints(arguments.checkpoint)
    from interpbench.runs.submissions import submit

    submit(
        folder,
        arguments.name,
        arguments.checkpoint,
        about=arguments.about,
        link=arguments.link,
        seconds=arguments.seconds,
        absolute=arguments.absolute,
        out=Path(arguments.out),
    )
    return 0


@subcommand(
    "submissions",
    "check submissions, score them again and rank them",
    argument("folder", nargs="?", default=SUBMISSIONS, help=f"folder of submissions ({SUBMISSIONS})"),
    argument("--write", action="store_true", help="write the tables of docs/submissions.md"),
)
def _submissions(arguments: Namespace) -> int:
    folder = Path(arguments.folder)
    if not folder.is_dir():
        raise InterpBenchError(f"there is no folder {shown(arguments.folder)} of submissions")
    from interpbench.runs.submissions_page import show_submissions, write_submissions

    if arguments.write:
        write_submissions(folder)
        return 0
    return 0 if show_submissions(console(WIDE), folder) else 1


@subcommand(
    "report",
    "write one HTML page of all evaluations in a folder",
    argument("folder", nargs="?", default="runs/evaluate", help="folder of evaluations"),
    argument("--checkpoint", default="all", help="where the networks are: a folder, or all released"),
    argument("--out", default="", help="the page; report.html in the folder if left out"),
)
def _report(arguments: Namespace) -> int:
    folder, out = Path(arguments.folder), Path(arguments.out) if arguments.out else None
    places = [] if arguments.checkpoint == "all" else find_checkpoints(arguments.checkpoint)
    if not folder.is_dir():
        raise InterpBenchError(f"there is no folder {shown(arguments.folder)}; python evaluate.py makes one")
    if out is not None:
        check_file(out)
    for place in filter(is_ours, places):
        check_files(place)
    if not any(folder.glob("**/*.json")):
        raise InterpBenchError(f"there are no records of evaluations in {shown(arguments.folder)}")
    from interpbench.runs.evaluations_page import write_folder_page  # not above: it imports torch

    write_folder_page(folder, places, out)
    return 0
