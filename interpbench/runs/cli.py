"""The console command `interpbench`: the entry points, and a look at tasks and checkpoints."""

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console

from interpbench.checkpoints.certificate_file import check_files
from interpbench.checkpoints.checkpoint_files import CERTIFICATE, is_ours
from interpbench.checkpoints.find import find_checkpoints
from interpbench.checkpoints.hub import target_of
from interpbench.checkpoints.index import check_grade
from interpbench.checkpoints.record import task_of
from interpbench.circuits.grades import GRADES, RELEASED, Standard
from interpbench.core.config import convert
from interpbench.core.errors import did_you_mean
from interpbench.core.files import check_file, check_writable
from interpbench.core.old_names import renamed_overrides
from interpbench.core.text import shown
from interpbench.runs import interchange
from interpbench.runs.entry import (
    Command,
    Config,
    Outcome,
    complain,
    configure_logging,
    contained,
    finish,
)
from interpbench.runs.method_lists import expand
from interpbench.runs.start import run_hydra
from interpbench.tasks.catalogue import get_task
from interpbench.training.settings import CertificateSettings

COMMANDS = (
    *("train", "evaluate", "tasks", "methods", "show", "certify", "demo"),
    *("models", "download", "publish", "export", *interchange.COMMANDS),
)


def main() -> None:
    """Runs a sub-command; `train` and `evaluate` take Hydra overrides."""
    if len(sys.argv) > 1 and sys.argv[1] in ("train", "evaluate"):
        command = sys.argv.pop(1)
        sys.exit(train() if command == "train" else evaluate())
    configure_logging()
    finish(lambda: _run(_parse()))


def train() -> None:
    """Composes `configs/train.yaml` with the command line and trains."""
    from interpbench.runs.overrides import hydra_overrides

    configure_logging()
    sys.argv[1:] = hydra_overrides(renamed_overrides(sys.argv[1:]))
    run_hydra(Command("train", _train, _check_train, _experiment, _finished))


def _check_train(config: Config) -> object:
    from interpbench.runs.train_settings import train_config

    return train_config(config)


def _train(config: Config) -> Outcome:
    from interpbench.runs.train import run

    return run(config)


def _experiment(config: Config) -> str | None:
    from interpbench.runs.train_settings import own_experiment

    return own_experiment(config.get("task"))


def _finished(config: Config) -> Outcome | None:
    from interpbench.runs.train_settings import train_config

    if not (train_config(config).folder / CERTIFICATE).exists():
        return None
    from interpbench.runs.train import finished

    return finished(config)


def evaluate() -> None:
    """Composes `configs/evaluate.yaml` with the command line and evaluates."""
    from interpbench.runs.own_methods import offer_methods

    configure_logging()
    overrides = renamed_overrides(sys.argv[1:])

    def rewrite() -> int:
        sys.argv[1:] = expand(offer_methods(overrides))
        return 0

    if status := contained(rewrite):
        sys.exit(status)
    run_hydra(Command("evaluate", partial(_evaluate, overrides), _check_evaluate))


def _check_evaluate(config: Config) -> object:
    from interpbench.runs.evaluate_settings import evaluate_config

    return evaluate_config(config)


def _evaluate(overrides: Sequence[str], config: Config) -> Outcome:
    from interpbench.runs.evaluate import run
    from interpbench.runs.own_methods import offer_methods

    offer_methods(overrides)  # a process that a sweep started has not imported the user's methods

    return run(config)


MOST_PAIRS = 10**7
NO_GRADE = "none"
"""What is said where no grade is asked for."""
STANDARD = ("target", "confidence", "worst", "missed", "missed_edge", "tried", "positions")
BUDGET = ("pairs", "looks", "checks", "attacks")


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Writes the line and exits."""
        sys.exit(complain(message))


def _count(text: str) -> int:
    """Returns a number of pairs.

    Raises:
        ArgumentTypeError: if it is none.
    """
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= MOST_PAIRS):
        raise argparse.ArgumentTypeError(f"{shown(text)!r} is no number from 1 to {MOST_PAIRS:,}")
    return int(text)


def _parse() -> argparse.Namespace:
    parser = _Parser(
        prog="interpbench",
        description="Networks with known, proved circuits, and methods scored against them.",
    )
    parser.add_argument("--version", action="version", version=version("interpbench"))
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    commands.add_parser("train", help="train a task: interpbench train task=frac_prevs (Hydra overrides)")
    commands.add_parser("evaluate", help="score a method: interpbench evaluate method=acdc (Hydra overrides)")
    tasks = commands.add_parser("tasks", help="list all tasks, or those of a kind")
    tasks.add_argument("--family", help="only those of this family")
    tasks.add_argument(
        "--min-edges", type=int, default=0, help="only those with so many required q/k/v edges"
    )
    tasks.add_argument("--causal", action="store_true", help="only those with causal attention")
    tasks.add_argument("--write", action="store_true", help="measure all tasks; write records, docs/tasks.md")
    methods = commands.add_parser("methods", help="list all discovery methods and their settings")
    methods.add_argument("--write", action="store_true", help="store what is known of all methods anew")
    show = commands.add_parser("show", help="print a task's program, domain, circuit and truth states")
    show.add_argument("task", help="name or published number, or path/to/file.py:name of one of your own")
    show.add_argument("--png", nargs="?", const="", metavar="FILE", help="draw the circuit, as NAME.png")
    _add_certify(commands)
    _add_files(commands)
    demo = commands.add_parser("demo", help="train frac_prevs, score three methods on it, write a report")
    demo.add_argument("--out", default="runs/demo", help="folder for the report")
    interchange.add_commands(commands)
    first = sys.argv[1] if len(sys.argv) > 1 else ""
    if first and not first.startswith("-") and first not in COMMANDS:
        sys.exit(complain(f"unknown command {shown(first)!r}{did_you_mean(first, COMMANDS)}"))
    if first.startswith("-") and first not in ("-h", "--help", "--version"):
        sys.exit(complain(f"unknown option {shown(first)!r}; interpbench --help lists the commands"))
    arguments, unknown = parser.parse_known_args()
    if unknown:
        actions = commands.choices[arguments.command]._actions
        options = [option for action in actions for option in action.option_strings]
        sys.exit(complain(f"unknown argument {shown(unknown[0])!r}{did_you_mean(unknown[0], options)}"))
    return arguments


def _add_certify(commands: Any) -> None:
    """Adds the command that measures; what it asks for is its own, with the defaults of released models."""
    certify = commands.add_parser("certify", help="measure a checkpoint anew, and say which grade it reaches")
    certify.add_argument("checkpoint", help="a name in models/, a folder, or all")
    certify.add_argument("--grade", choices=GRADES, default=RELEASED, help="what it must reach for status 0")
    certify.add_argument("--target", type=float, help="least lower bound of each drawn rate")
    certify.add_argument("--confidence", type=float, help="of each lower bound")
    certify.add_argument("--worst", type=float, help="least lower bound on the worst sets found")
    certify.add_argument("--missed", type=float, help="most that the screen of single edges may miss")
    certify.add_argument("--missed-edge", type=float, help="the same, of any one of them")
    certify.add_argument("--positions", action="store_true", help="ask for swaps at one position alone, too")
    certify.add_argument("--pairs", type=_count, help="pairs of the first look, where not all pairs are run")
    certify.add_argument("--looks", type=_count, help="looks at more and more pairs, at most")
    certify.add_argument("--checks", type=_count, help="(edge, row) drawn of those the screen passes over")
    certify.add_argument("--tried", type=_count, help="least number of sets that the adversary has to try")
    certify.add_argument("--attacks", type=_count, help="sets from which the adversary starts")
    certify.add_argument("--quick", action="store_true", help="measure no more than the grade needs")
    certify.add_argument("--seed", type=int, help="of all draws; a new one is drawn, and said, if left out")
    certify.add_argument("--task", help="where a task of your own is: path/to/file.py:name")
    certify.add_argument("--save", action="store_true", help="write certificate.json anew")


def _add_files(commands: Any) -> None:
    """Adds the commands about models as files."""
    models = commands.add_parser("models", help="list models: here, in the cache, on the hub; grades")
    models.add_argument("--hub", action="store_true", help="ask the hub what there is (network)")
    download = commands.add_parser(
        "download", help="download models into the cache, and verify them (network)"
    )
    download.add_argument(
        "names", nargs="*", metavar="NAME", help="name, number, or hf://owner/name@rev/folder"
    )
    download.add_argument("--all", action="store_true", help="all models of the repository")
    publish = commands.add_parser("publish", help="upload models, their cards and an index (network)")
    publish.add_argument("names", nargs="+", metavar="NAME", help="a name in models/, a folder, or all")
    publish.add_argument("--to", required=True, metavar="OWNER/NAME", help="repository; @branch may follow")
    publish.add_argument("--out", metavar="FOLDER", help="write here what would be uploaded; no network")
    publish.add_argument("--create", action="store_true", help="make the repository if there is none")
    publish.add_argument(
        "--grade", choices=(NO_GRADE, *GRADES), default=RELEASED, help="what each certificate must reach"
    )
    export = commands.add_parser("export", help="write a model for TransformerLens 1 to 3")
    export.add_argument("checkpoint", help="a name in models/, a folder, or an address")
    export.add_argument("--out", metavar="FOLDER", help="where to; NAME-transformer-lens by default")


def _run_files(arguments: argparse.Namespace) -> int:
    """Runs a command about models as files."""
    if arguments.command == "models":
        from interpbench.runs.models import list_models

        list_models(_console(), arguments.hub)
        return 0
    if arguments.command == "download":
        from interpbench.runs.download import download

        return 0 if download(arguments.names, arguments.all) else 1
    out = Path(arguments.out) if arguments.out else None
    publishes = arguments.command == "publish"
    least = arguments.grade if publishes and arguments.grade != NO_GRADE else None
    named = arguments.names if publishes else [arguments.checkpoint]
    if publishes:
        target_of(arguments.to)
    for folder in (folder for name in named for folder in find_checkpoints(name)):
        if is_ours(folder):
            check_grade(folder, least)
    if out is not None:
        check_writable(out)
    if publishes:
        from interpbench.runs.publish import publish

        publish(arguments.names, arguments.to, out, arguments.create, least)
        return 0
    from interpbench.runs.export import export

    export(arguments.checkpoint, out)
    return 0


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else 140)


def _run_methods(arguments: argparse.Namespace) -> int:
    from interpbench.runs.methods import list_methods, write_methods

    if arguments.write:
        write_methods()
    else:
        list_methods(_console())
    return 0


def _run_tasks(arguments: argparse.Namespace) -> int:
    from interpbench.runs.measure_tasks import write_records
    from interpbench.runs.show import show_tasks

    if arguments.write:
        write_records()
    else:
        show_tasks(_console(), arguments.family, arguments.min_edges, arguments.causal)
    return 0


def _run_show(arguments: argparse.Namespace) -> int:
    name, png = get_task(arguments.task).name, arguments.png
    picture = None if png is None else Path(png or f"{name}.png")
    if picture is not None:
        check_file(picture)
    from interpbench.runs.show import show_task

    show_task(_console(), arguments.task, picture)
    return 0


def _run_demo(arguments: argparse.Namespace) -> int:
    check_writable(Path(arguments.out))
    from interpbench.runs.demo import demo

    return 0 if demo(arguments.out) else 1


def _run_certify(arguments: argparse.Namespace) -> int:
    if arguments.task is not None:
        get_task(arguments.task)
    given = {name: value for name, value in vars(arguments).items() if value is not None}
    asked = {name: given[name] for name in STANDARD if name in given}
    measured = {name: given[name] for name in BUDGET if name in given}
    standard = convert(Standard, asked, "certify")
    settings = convert(CertificateSettings, measured, "certify")
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


_RUNS: dict[str, Callable[[argparse.Namespace], int]] = {
    **{"methods": _run_methods, "tasks": _run_tasks, "show": _run_show, "demo": _run_demo},
    **{"certify": _run_certify},
    **dict.fromkeys(("models", "download", "publish", "export"), _run_files),
    **dict.fromkeys(interchange.COMMANDS, interchange.run_command),
}


def _run(arguments: argparse.Namespace) -> int:
    return _RUNS[arguments.command](arguments)
