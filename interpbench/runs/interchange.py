"""The console commands that exchange things with others: scores, problems, reports."""

import argparse
from pathlib import Path
from typing import Any

from interpbench.checkpoints.certificate_file import check_files
from interpbench.checkpoints.checkpoint_files import is_ours
from interpbench.checkpoints.find import find_checkpoints
from interpbench.circuits.io.form import forms
from interpbench.core.errors import InterpBenchError
from interpbench.core.files import check_file
from interpbench.core.text import shown

COMMANDS = ("score", "convert", "export-problem", "verify-problem", "report")


def add_commands(commands: Any) -> None:
    """Adds the commands to the parser's."""
    score = commands.add_parser(
        "score", help="score a file of scores, made by anyone's code, against a truth"
    )
    score.add_argument("scores", help="JSON of EAP-IG or MIB, ACDC's edge list as JSON, or CSV")
    score.add_argument("--checkpoint", required=True, help="a name in models/, or a folder")
    score.add_argument("--name", help="what to call the method; the file's name if left out")
    score.add_argument("--absolute", action="store_true", help="rank signed scores by magnitude")
    score.add_argument("--structural", action="store_true", help="count allowed edges as positive")
    score.add_argument("--no-pictures", action="store_true", help="draw nothing")
    score.add_argument("--out", default="runs/evaluate", help="folder of evaluations")
    convert = commands.add_parser("convert", help="write scores, a record or the truth in another form")
    convert.add_argument("scores", help="a file of scores, a record of an evaluation, or the word truth")
    convert.add_argument("target", help="the file to write")
    convert.add_argument("--checkpoint", required=True, help="a name in models/, or a folder")
    convert.add_argument("--to", choices=list(forms()), help="csv for files called so, else eap_ig")
    export = commands.add_parser(
        "export-problem", help="write a blind problem: model and data without the truth"
    )
    export.add_argument("checkpoint", help="a name in models/, or a folder")
    export.add_argument("--out", default="", help="folder to write; runs/problems/problem-… if left out")
    verify = commands.add_parser("verify-problem", help="check a blind problem, or score an answer to it")
    verify.add_argument("problem", help="the problem's folder")
    verify.add_argument("scores", nargs="?", help="the answer: a file of scores")
    verify.add_argument("--key", help="the problem's key; FOLDER.key.json if left out and there")
    verify.add_argument("--absolute", action="store_true", help="rank signed scores by magnitude")
    report = commands.add_parser("report", help="write one HTML page of all evaluations in a folder")
    report.add_argument("folder", nargs="?", default="runs/evaluate", help="folder of evaluations")
    report.add_argument(
        "--checkpoint", default="all", help="where the networks are: a folder, or all released"
    )
    report.add_argument("--out", default="", help="the page; report.html in the folder if left out")


def run_command(arguments: argparse.Namespace) -> int:
    """Runs one of the commands and returns the exit status."""
    if arguments.command == "score":
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
    elif arguments.command == "convert":
        from interpbench.runs.score import convert_file

        convert_file(arguments.scores, Path(arguments.target), arguments.checkpoint, arguments.to)
    elif arguments.command == "export-problem":
        from interpbench.runs.blind_problems import export_problem

        export_problem(arguments.checkpoint, Path(arguments.out) if arguments.out else None)
    elif arguments.command == "verify-problem":
        from interpbench.runs.blind_problems import verify_problem

        answer, key = (Path(name) if name else None for name in (arguments.scores, arguments.key))
        verify_problem(Path(arguments.problem), answer, key, arguments.absolute)
    else:
        out, named = Path(arguments.out) if arguments.out else None, arguments.checkpoint
        places = [] if named == "all" else find_checkpoints(named)
        if not Path(arguments.folder).is_dir():
            raise InterpBenchError(
                f"there is no folder {shown(arguments.folder)}; python evaluate.py makes one"
            )
        if out is not None:
            check_file(out)
        for place in filter(is_ours, places):
            check_files(place)
        if not any(Path(arguments.folder).glob("**/*.json")):
            raise InterpBenchError(f"there are no records of evaluations in {shown(arguments.folder)}")
        from interpbench.runs.page import write_folder_page  # not above: it imports torch

        write_folder_page(Path(arguments.folder), places, out)
    return 0
