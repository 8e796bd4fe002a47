"""The commands of contests."""

from argparse import Namespace
from pathlib import Path

from interpbench.core.errors import ConfigError
from interpbench.runs.subcommand import argument, subcommand

CONTEST = argument("contest", help="the folder of the contest")
PRIVATE = argument("--private", help="the private folder; CONTEST.private if left out and there")
TASK = "random_rasp[depth=3,regime=alive]"
"""The task of contests unless one says otherwise."""


@subcommand(
    "contest make",
    "train networks of random programs, and write them as a contest",
    argument("--models", type=int, default=20, help="the number of problems (20)"),
    argument("--seed-file", default="secret", help="the file of the secret; it is drawn if it is not there"),
    argument("--task", default=TASK, help=f"what is drawn, without its seed ({TASK})"),
    argument("--out", default="contest", help="the folder to write (contest); CONTEST.private is kept"),
)
def _make(arguments: Namespace) -> int:
    if not 1 <= arguments.models <= 1000:
        raise ConfigError(f"--models {arguments.models} is not a number from 1 to 1000")
    from interpbench.runs.contest import make_contest

    make_contest(Path(arguments.out), arguments.models, Path(arguments.seed_file), arguments.task)
    return 0


@subcommand(
    "contest check",
    "check that a contest is whole, and once it is revealed, that it is what was sealed",
    CONTEST,
)
def _check(arguments: Namespace) -> int:
    from interpbench.runs.contest import check_contest

    check_contest(Path(arguments.contest))
    return 0


@subcommand(
    "contest answer",
    "answer a contest with one of the methods",
    CONTEST,
    argument("method", help="the method, with settings as in eap_ig+steps=10"),
    argument("--out", help="the folder of the entrant; answers/METHOD if left out"),
)
def _answer(arguments: Namespace) -> int:
    from interpbench.runs.contest import answer_contest

    out = Path(arguments.out or f"answers/{arguments.method}")
    answer_contest(Path(arguments.contest), arguments.method, out)
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
    from interpbench.runs.contest import score_contest

    private = Path(arguments.private) if arguments.private else None
    found = score_contest(Path(arguments.contest), Path(arguments.answers), private, arguments.absolute)
    return 1 if found.refused else 0


@subcommand("contest reveal", "publish the secret and the answers in the contest", CONTEST, PRIVATE)
def _reveal(arguments: Namespace) -> int:
    from interpbench.runs.contest import reveal_contest

    reveal_contest(Path(arguments.contest), Path(arguments.private) if arguments.private else None)
    return 0
