"""The commands of contests."""

from argparse import Namespace
from functools import partial
from pathlib import Path

from interpbench.checkpoints.contests import CONTEST as CONTEST_FILE
from interpbench.checkpoints.contests import drawn_task
from interpbench.core.errors import ConfigError
from interpbench.core.text import shown
from interpbench.runs.subcommand import argument, subcommand

CONTEST = argument("contest", help="the folder of the contest")
PRIVATE = argument("--private", help="the private folder; CONTEST.private if left out and there")
TASK = "random_rasp[regime=alive]"
"""The task of contests unless one says otherwise."""


def _folder(arguments: Namespace) -> Path:
    """Returns the folder of the contest.

    Raises:
        ConfigError: if it is none.
    """
    folder = Path(arguments.contest).absolute()
    if not (folder / CONTEST_FILE).is_file():
        raise ConfigError(f"{shown(arguments.contest)} is no contest: it has no {CONTEST_FILE}")
    return folder


@subcommand(
    "contest make",
    "train networks of random programs, and write them as a contest",
    argument("--models", type=int, default=20, help="the number of problems (20)"),
    argument("--seed-file", default="secret", help="the file of the secret; it is drawn if it is not there"),
    argument(
        "--task",
        action="append",
        help=f"what is drawn, without its seed ({TASK}); if given several times, problems have them in turn",
    ),
    argument(
        "--steps", type=int, help="the steps of a training's schedule; those of the default if left out"
    ),
    argument("--jobs", type=int, default=1, help="the number of processes that train at once (1)"),
    argument("--out", default="contest", help="the folder to write (contest); CONTEST.private is kept"),
)
def _make(arguments: Namespace) -> int:
    if not 1 <= arguments.models <= 1000:
        raise ConfigError(f"--models {arguments.models} is not a number from 1 to 1000")
    tasks = arguments.task or [TASK]
    for task in tasks:
        drawn_task("0" * 64, task, "01", 0)  # says what is wrong with it
    if len(tasks) > arguments.models:
        raise ConfigError(
            f"--models {arguments.models}: there are {len(tasks)} tasks, a problem of each at least"
        )
    if arguments.steps is not None and arguments.steps < 1:
        raise ConfigError(f"--steps {arguments.steps} is not a number from 1 on")
    if arguments.jobs < 1:
        raise ConfigError(f"--jobs {arguments.jobs} is not a number from 1 on")
    from interpbench.runs.certified_training import train_certified
    from interpbench.runs.contest import make_contest

    trained = partial(train_certified, steps=arguments.steps)
    out, seed_file = Path(arguments.out).absolute(), Path(arguments.seed_file)
    make_contest(out, arguments.models, seed_file, tasks, trained, arguments.jobs)
    return 0


@subcommand(
    "contest check",
    "check that a contest is whole, and once it is revealed, that it is what was sealed",
    CONTEST,
)
def _check(arguments: Namespace) -> int:
    folder = _folder(arguments)
    from interpbench.runs.contest import check_contest

    check_contest(folder)
    return 0


@subcommand(
    "contest answer",
    "answer a contest with one of the methods",
    CONTEST,
    argument("method", help="the method, with settings as in eap_ig+steps=10"),
    argument("--out", help="the folder of the entrant; answers/METHOD if left out"),
)
def _answer(arguments: Namespace) -> int:
    folder, out = _folder(arguments), Path(arguments.out or f"answers/{arguments.method}")
    from interpbench.runs.contest import answer_contest

    answer_contest(folder, arguments.method, out)
    return 0


@subcommand(
    "contest score",
    "rank the entries of a contest",
    CONTEST,
    argument("answers", help="a folder for each entrant, with a file of scores for each problem"),
    PRIVATE,
    argument("--absolute", action="store_true", help="rank signed scores by magnitude"),
)
def _score(arguments: Namespace) -> int:
    folder, private = _folder(arguments), Path(arguments.private) if arguments.private else None
    from interpbench.runs.contest import score_contest

    found = score_contest(folder, Path(arguments.answers), private, arguments.absolute)
    return 1 if found.refused else 0


@subcommand("contest reveal", "publish the secret and the answers in the contest", CONTEST, PRIVATE)
def _reveal(arguments: Namespace) -> int:
    folder = _folder(arguments)
    from interpbench.runs.contest import reveal_contest

    reveal_contest(folder, Path(arguments.private) if arguments.private else None)
    return 0
