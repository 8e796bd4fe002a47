"""The format of contests: blind problems whose programs a secret seed has drawn, and a commitment to it.

The *public* folder holds the problems (`checkpoints.blind`) and `contest.json`, which lists their ids. The
*private* folder beside it holds their keys and `sealed.json`: the secret and what was drawn with it. The
public folder has its SHA-256, so that the secret cannot be changed once the folder is out. To *reveal* a
contest is to copy all this into the public folder.
"""

import dataclasses
import json
import secrets
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from interpbench.checkpoints.blind import (
    CONTENTS,
    GUIDE,
    PROBLEM,
    Key,
    ProblemRecord,
    open_key,
    problem_id,
    read_problem,
)
from interpbench.checkpoints.record import read_numbered
from interpbench.core import seeds
from interpbench.core.config import MOST, STRICT, Sha256, TaskName, checked
from interpbench.core.errors import CheckpointError, ConfigError, NoPlaceError
from interpbench.core.files import MOST_JSON, read_bytes, sha256, write_bytes
from interpbench.tasks.family import REGIME, split_name, split_regimes
from interpbench.tasks.regimes.regime import regimes

FORMAT = 2
CONTEST, SEALED, KEYS, REVEALED = "contest.json", "sealed.json", "keys", "revealed"
MOST_PROBLEMS = 1000
ATTEMPTS = 5
"""The number of programs that may be drawn for a problem: a host cannot go on until one suits."""
MOST_REDRAWN = 100
"""The number of programs that are drawn for an attempt until one has a place for the regimes."""
FAMILY = "random_rasp"
"""The family of tasks that contests are drawn from."""
SPREAD, ALIVE = 8, "alive"
"""The layers over which variables are spread, and the regime that draws their nodes without that."""
Secret = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""256 random bits, as 64 hexadecimal digits."""
ProblemName = Annotated[str, Field(pattern=r"^[0-9]{2,4}$")]


@dataclass(frozen=True, config=STRICT)
class ContestRecord:
    """What `contest.json` says.

    Attributes:
        format: the version of this format.
        version: the version of InterpBench that made the contest.
        problems: the id of each problem, by the name of its folder.
        commitment: the SHA-256 of `sealed.json`.
    """

    format: int
    version: Annotated[str, Field(max_length=64)]
    problems: Annotated[dict[ProblemName, Sha256], Field(min_length=1, max_length=MOST_PROBLEMS)]
    commitment: Sha256


@dataclass(frozen=True, config=STRICT)
class Sealed:
    """What is revealed when all answers are in.

    Attributes:
        format: the version of this format.
        secret: what all seeds are derived from.
        tasks: the tasks without seeds, such as `random_rasp[spread=4,regime=alive]`; problems have
            them in turn.
        attempts: for each problem, how many programs before its own were given up, as no network of theirs
            was certified.
    """

    format: int
    secret: Secret
    tasks: Annotated[tuple[TaskName, ...], Field(min_length=1, max_length=MOST_PROBLEMS)]
    attempts: dict[ProblemName, Annotated[int, Field(ge=0, lt=ATTEMPTS)]]

    @property
    def given_up(self) -> int:
        """The number of programs that were given up."""
        return sum(self.attempts.values())

    def task_of(self, problem: str) -> str:
        """Returns the name of a problem's task."""
        return fitting_task(self.secret, task_in_turn(self.tasks, problem), problem, self.attempts[problem])


def names_of(count: int) -> list[str]:
    """Returns the names of so many problems, as in `01` and `02`."""
    digits = max(2, len(str(count)))
    return [f"{number:0{digits}}" for number in range(1, count + 1)]


def task_in_turn(tasks: Sequence[str], problem: str) -> str:
    """Returns the task, without its seed, of which a problem is: the first has the first one, and so on."""
    return tasks[(int(problem) - 1) % len(tasks)]


def fitting_task(secret: str, task: str, problem: str, attempt: int) -> str:
    """Returns the name of the first task that a secret draws for a problem and that can be made.

    A regime may have no place in a program: no variable, say, that only MLPs read. The next program is drawn
    then, as anyone can who knows the secret; it is no attempt of the host's.

    Args:
        secret: what seeds are derived from.
        task: the task without its seed.
        problem: the name of the problem.
        attempt: how many programs were given up for it before.

    Raises:
        InterpBenchError: if a hundred programs have no place for the regimes, with what is missing in the
            first; or if the task is not of the family, has a seed, or cannot be drawn.
    """
    from interpbench.tasks.catalogue import get_task

    errors: list[NoPlaceError] = []
    for redrawn in range(MOST_REDRAWN):
        name = drawn_task(secret, task, problem, attempt, redrawn)
        try:
            get_task(name)
        except NoPlaceError as error:
            errors.append(error)
        else:
            return name
    raise errors[0]


def drawn_task(secret: str, task: str, problem: str, attempt: int, redrawn: int = 0) -> str:
    """Returns the name of a task that a secret draws for a problem.

    Args:
        secret: what seeds are derived from.
        task: the task without its seed.
        problem: the name of the problem.
        attempt: how many programs were given up for it before.
        redrawn: how many programs of this attempt have no place for the regimes.

    Raises:
        ConfigError: if the task is not of the family, or says a seed or what a regime draws.
        UnknownNameError: if there is no such regime.
    """
    name, inside = split_name(task)
    parameters, texts = split_regimes(inside)
    if name != FAMILY:
        raise ConfigError(f"task {task}: a contest draws members of {FAMILY}, as {FAMILY}[depth=3]")
    if parameters is not None and any(part.startswith("seed=") for part in parameters.split(",")):
        raise ConfigError(f"task {task}: the secret decides the seed; leave seed= out")
    program = " ".join(["program", *[str(redrawn)] * bool(redrawn)])
    told = [f"seed={draw(secret, problem, attempt, program)}", *filter(None, [parameters])]
    chosen = [text.partition(",") for text in texts]
    if ALIVE not in (regime for regime, _, _ in chosen) and "spread=" not in (parameters or ""):
        told.append(f"spread={SPREAD}")  # the program alone would say where the circuit is
    for text, (regime, _, dials) in zip(texts, chosen, strict=True):
        fields = {field.name for field in dataclasses.fields(regimes()[regime])}  # pyright: ignore[reportArgumentType]
        told.append(f"{REGIME}={text}")
        if "draw=" in dials:
            raise ConfigError(f"task {task}: the secret decides what is drawn; leave draw= out")
        if "draw" in fields:  # where the circuit is
            told.append(f"draw={draw(secret, problem, attempt, regime) % MOST}")
    return f"{FAMILY}[{','.join(told)}]"


def draw(secret: str, problem: str, attempt: int, what: str) -> int:
    """Returns a seed of a problem, of 63 bits, which the whole secret decides.

    Args:
        secret: what seeds are derived from.
        problem: the name of the problem.
        attempt: how many programs were given up for it before.
        what: what the seed is for.
    """
    return seeds.derive(int(secret, 16), "contest", problem, attempt, what)


def read_secret(path: Path, folder: Path) -> str:
    """Returns the secret of a file that only its owner may read; it is drawn if there is no such file.

    The file then says of which contest the secret is: to reveal one contest must not give another one away.

    Args:
        path: the file.
        folder: the contest.

    Raises:
        ConfigError: if others may read it, or it is no secret, or that of another contest.
    """
    if path.is_dir():
        raise ConfigError(f"{path} is a folder, and the secret is a file; try --seed-file {path / 'secret'}")
    if not path.exists():
        write_bytes(path, f"{secrets.token_hex(32)}\n".encode(), 0o600)  # the one draw that is not repeatable
    elif path.stat().st_mode & 0o077:
        raise ConfigError(f"{path}: others may read it; chmod 600 {path}")
    text, _, contest = read_bytes(path, MOST_JSON).decode("utf-8", "replace").strip().partition("\n")
    text, own = text.strip(), str(folder.absolute())
    if len(text) != 64 or set(text) - set("0123456789abcdef"):
        raise ConfigError(
            f"{path} is no secret: it needs 64 hexadecimal digits, as `openssl rand -hex 32` gives"
        )
    if contest not in ("", own):
        raise ConfigError(
            f"{path} is the secret of {contest}, which would give {own} away; try another --seed-file"
        )
    if not contest:
        write_bytes(path, f"{text}\n{own}\n".encode(), 0o600)
    return text


def private_of(folder: Path) -> Path:
    """Returns the private folder of a contest, unless it was moved: the one beside it."""
    return folder.with_name(f"{folder.name}.private")


def read_contest(folder: Path) -> ContestRecord:
    """Reads `contest.json`, and checks that all problems are whole and those that it lists.

    Raises:
        CheckpointError: in one line, if not.
    """
    path = folder / CONTEST
    record = checked(ContestRecord, read_numbered(path, FORMAT, "a contest"), path, CheckpointError)
    if others := {path.name for path in folder.iterdir()} - {CONTEST, GUIDE, REVEALED, *record.problems}:
        raise CheckpointError(f"{folder / min(others)} is no part of a contest; remove it")
    for name, number in record.problems.items():
        read_problem(folder / name)
        if others := {path.name for path in (folder / name).iterdir()} - {PROBLEM, *CONTENTS}:
            raise CheckpointError(f"{folder / name / min(others)} is no part of a problem; remove it")
        if problem_id(folder / name) != number:
            raise CheckpointError(
                f"{folder / name} is not the problem {name} of this contest: its id differs"
            )
    return record


def contest_id(folder: Path) -> str:
    """Returns the id of a contest: the SHA-256 of `contest.json`."""
    return sha256(read_bytes(folder / CONTEST, MOST_JSON, CheckpointError))


def keys_of(folder: Path, place: Path, record: ContestRecord) -> dict[str, Key]:
    """Returns the keys of all problems.

    Args:
        folder: the contest.
        place: the private folder, or the revealed one.
        record: the contest's record.

    Raises:
        CheckpointError: if one is missing, or is not the one that its problem was committed to.
    """
    return {
        name: open_key(place / KEYS / f"{name}.key.json", read_problem(folder / name))
        for name in record.problems
    }


def read_sealed(place: Path, record: ContestRecord) -> Sealed:
    """Reads `sealed.json`.

    Raises:
        CheckpointError: if it is not the one that the contest was committed to.
    """
    path = place / SEALED
    if sha256(read_bytes(path, MOST_JSON, CheckpointError)) != record.commitment:
        raise CheckpointError(f"{path} is not what this contest was committed to: its SHA-256 differs")
    sealed = checked(Sealed, read_numbered(path, FORMAT, "the secret of a contest"), path, CheckpointError)
    if set(sealed.attempts) != set(record.problems):
        raise CheckpointError(f"{path} is of other problems than {CONTEST}")
    return sealed


def packed(value: ContestRecord | Sealed) -> bytes:
    """Returns a record as the bytes of its file."""
    return (json.dumps(asdict(value), indent=1) + "\n").encode()


def problems_of(folder: Path, record: ContestRecord) -> dict[str, ProblemRecord]:
    """Returns the records of all problems, by name."""
    return {name: read_problem(folder / name) for name in record.problems}
