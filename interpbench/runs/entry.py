"""What a command is and how it ends: a composed configuration, one line for anything a user can fix."""

import logging
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

from interpbench.core.config import Unchecked
from interpbench.core.errors import MOST_CHARACTERS, InterpBenchError
from interpbench.core.text import printable, shown
from interpbench.core.user_code import blamed, own_files, place_of

NO_MEMORY = "not enough memory", "out of memory", "can't allocate memory"
"""What torch says on Windows, on a GPU and on other systems if memory is short."""
REPORT = "please report it with the lines above"
log = logging.getLogger(__name__)


class _Printable(logging.Formatter):
    """Lines in which nothing but a newline is unprintable: names in them may come from anyone's file."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the line."""
        return printable(super().format(record), keep="\n\t")


def configure_logging() -> None:
    """Sends the library's log lines to standard error, plainly."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Printable("%(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("interpbench").setLevel(logging.INFO)


def finish(command: Callable[[], int]) -> NoReturn:
    """Runs a command and exits with its status; see `contained`."""
    sys.exit(contained(command))


def contained(command: Callable[[], int]) -> int:
    """Runs a command and returns its exit status; what a user can mend is 2 and one line.

    That is an `InterpBenchError`, whatever a file of the user's own raises, with file and line, a lack of
    memory, and a file that the system refuses. Anything else is an error of this project: its traceback is
    printed, a line says so, and the status is 1.
    """
    try:
        return command()
    except InterpBenchError as error:
        return complain(str(error))
    except KeyboardInterrupt:
        return complain("interrupted; the same command goes on where it was", 130)
    except BrokenPipeError:  # whoever reads has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (Exception, SystemExit) as error:
        if isinstance(error, SystemExit) and not blamed(error):
            raise
        if said := _one_line(error):
            return complain(said)
        traceback.print_exception(error)
        return complain(f"{type(error).__name__} is an error of interpbench, not of yours; {REPORT}", 1)


def _one_line(error: BaseException) -> str | None:
    """Returns what a user can do something about, in one line; None for an error of this project's own."""
    if place := blamed(error):
        return place
    text = str(error)
    if isinstance(error, MemoryError) or any(said in text for said in NO_MEMORY):
        return "there is not enough memory for this; try a smaller batch, or fewer examples or inputs"
    if isinstance(error, OSError) and error.filename is not None:
        return f"cannot use {shown(error.filename)}: {error.strerror}"
    if isinstance(error, Exception) and (files := own_files()):
        return f"{', '.join(files)}: {place_of(error)}"
    return None


Config = Unchecked


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended.

    Attributes:
        status: 0 if it is as wished, 1 if it missed its target, 2 if it failed.
        facts: what a sweep's summary says of it, one column each.
        failures: one line each.
    """

    status: int = 0
    facts: Mapping[str, str | int] = field(default_factory=dict[str, str | int])
    failures: Sequence[str] = ()


@dataclass(frozen=True)
class Command:
    """A command that Hydra configures.

    Attributes:
        name: of its file in `configs/`.
        job: runs a composed configuration; a sweep may send it to another process.
        check: refuses a configuration that is not possible, before anything is said or done.
        experiment: names the file in `configs/experiment` to compose too, before the other overrides, where
            these say nothing of `experiment=`.
        finished: how the run of a configuration ended, if it has been run already.
        settings: the dataclass that declares its settings; None where `--help` cannot say what they mean.
    """

    name: str
    job: Callable[[Config], RunOutcome]
    check: Callable[[Config], object] = lambda _: None
    experiment: Callable[[Config], str | None] = lambda _: None
    finished: Callable[[Config], RunOutcome | None] = lambda _: None
    settings: Callable[[], type[Any] | None] = lambda: None


class Composed(NamedTuple):
    """What a run is composed to.

    Attributes:
        data: the configuration.
        overrides: all overrides of the command line, and the task's own experiment.
        own: the name of that experiment, which was not asked for; None for none.
    """

    data: Config
    overrides: list[str]
    own: str | None


def compose_run(command: Command, overrides: list[str]) -> Composed:
    """Composes the configuration of one run, with its task's own experiment; Hydra must be initialised."""
    from hydra import compose
    from omegaconf import OmegaConf

    def composed(overrides: list[str]) -> Any:
        return OmegaConf.to_container(compose(command.name, overrides), resolve=True, throw_on_missing=False)

    data = composed(overrides)
    said = any(override.lstrip("+~").startswith("experiment") for override in overrides)
    own = None if said else command.experiment(data)
    if own is None:
        return Composed(data, overrides, None)
    overrides = [f"experiment={own}", *overrides]
    return Composed(composed(overrides), overrides, own)


def announce(runs: Sequence[Composed]) -> None:
    """Says which experiments come by themselves."""
    for own in dict.fromkeys(run.own for run in runs if run.own):
        log.info("with configs/experiment/%s.yaml; experiment=none goes without", own)


def complain(message: str, status: int = 2) -> int:
    """Writes one error line and returns the exit status."""
    line = printable(message)
    sys.stderr.write(f"error: {line if len(line) <= MOST_CHARACTERS else line[:MOST_CHARACTERS] + '…'}\n")
    return status
