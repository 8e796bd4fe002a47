"""How commands start and end: configuration composed by Hydra, one line for anything a user can fix."""

import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

from interpbench.core.config import config_folder
from interpbench.core.errors import MOST_CHARACTERS, InterpBenchError
from interpbench.core.own import blamed, own_files, place_of
from interpbench.core.text import printable, shown

log = logging.getLogger(__name__)
SWEEP = frozenset(("-m", "--multirun", "hydra.mode=MULTIRUN"))
HELP = frozenset(("-h", "--help"))


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

    That is an error of this project, whatever a file of the user's own raises, with file and line, and a
    lack of memory.
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
        if said := _one_line(error):
            return complain(said)
        raise


def _one_line(error: BaseException) -> str | None:
    """Returns what a user can do something about, in one line; None for an error of this project's own."""
    if place := blamed(error):
        return place
    text = str(error)
    if isinstance(error, MemoryError) or "not enough memory" in text or "out of memory" in text:
        return "there is not enough memory for this; try a smaller batch, or fewer examples"
    if isinstance(error, OSError) and error.filename is not None:
        return f"cannot use {shown(error.filename)}: {error.strerror}"
    if isinstance(error, Exception) and (files := own_files()):
        return f"{', '.join(files)}: {place_of(error)}"
    return None


Config = Mapping[str, Any]


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes:
        status: 0 if it is as wished, 1 if it missed its target, 2 if it failed.
        facts: what a sweep's summary says of it, one column each.
        failures: one line each.
    """

    status: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
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
    """

    name: str
    job: Callable[[Config], Outcome]
    check: Callable[[Config], object] = lambda _: None
    experiment: Callable[[Config], str | None] = lambda _: None
    finished: Callable[[Config], Outcome | None] = lambda _: None


class Composed(NamedTuple):
    """A run's configuration, all its overrides, and the experiment among them that was not asked for."""

    data: Config
    overrides: list[str]
    own: str | None


def run_hydra(command: Command) -> NoReturn:
    """Composes `configs/<name>.yaml` with the command line, runs the command, and exits.

    The exit status is 0 if everything is as wished, 1 if a run missed its target, 2 for an error that the
    user can fix, which is printed in one line. With `-m`, `runs.sweep` does all of this.
    """
    configure_logging()
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")
    finish(lambda: _start(command))


def _start(command: Command) -> int:
    """Runs a command, or a sweep of it, and returns the exit status."""
    from hydra import initialize_config_dir
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    from interpbench.runs.mistakes import check_arguments, explain

    try:
        check_arguments(command.name, sys.argv[1:])
        if not SWEEP.isdisjoint(sys.argv) and HELP.isdisjoint(sys.argv):
            from interpbench.runs.sweep import sweep

            return sweep(command, [argument for argument in sys.argv[1:] if argument not in SWEEP])
        overrides = _parsed(command.name)
        if overrides is None:
            return 0
        with initialize_config_dir(config_folder(), version_base="1.3", job_name=command.name):
            run = compose_run(command, overrides)
    except (HydraException, OmegaConfBaseException, ValueError, TypeError) as error:
        if blamed(error):
            raise
        return complain(explain(command.name, str(error), str(error.__cause__ or "")))
    command.check(run.data)
    announce([run])
    return command.job(run.data).status


def _parsed(name: str) -> list[str] | None:
    """Has Hydra read the command line; returns the overrides, or None if it answered itself (`--help`)."""
    if not any(argument.startswith("-") for argument in sys.argv[1:]):
        return sys.argv[1:]
    import hydra
    from hydra.core.hydra_config import HydraConfig

    overrides: list[list[str]] = []
    hydra.main(config_path=config_folder(), config_name=name, version_base="1.3")(
        lambda _: overrides.append(list(HydraConfig.get().overrides.task))
    )()
    return overrides[0] if overrides else None


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
