"""How commands start and end: configuration composed by Hydra, one line for anything a user can fix."""

import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from interpbench.core.errors import InterpBenchError, did_you_mean
from interpbench.core.own import blamed
from interpbench.core.text import printable

log = logging.getLogger(__name__)
SWEEP = frozenset(("-m", "--multirun", "hydra.mode=MULTIRUN"))
HELP = frozenset(("-h", "--help"))


def config_folder() -> str:
    """Returns the folder of the YAML files: beside the package in a checkout, inside it when installed."""
    package = Path(__file__).resolve().parent.parent
    beside = package.parent / "configs"
    return str(beside if beside.is_dir() else package / "configs")


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
        if place := blamed(error):
            return complain(place)
        if _is_memory(error):
            return complain("there is not enough memory for this; try a smaller batch, or fewer examples")
        raise


def _is_memory(error: BaseException) -> bool:
    """Returns whether an error is Python's, numpy's or torch's when memory is short."""
    said = str(error)
    return isinstance(error, MemoryError) or "not enough memory" in said or "out of memory" in said


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
    import hydra
    from hydra.core.hydra_config import HydraConfig
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    configure_logging()
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")
    statuses: list[int] = []

    def main(_: Any) -> None:
        def job() -> int:
            run = compose_run(command, list(HydraConfig.get().overrides.task))
            command.check(run.data)
            announce([run])
            return command.job(run.data).status

        statuses.append(contained(job))  # here, as Hydra would write a line of its own

    def start() -> int:
        try:
            if not SWEEP.isdisjoint(sys.argv) and HELP.isdisjoint(sys.argv):
                from interpbench.runs.sweep import sweep

                return sweep(command, [argument for argument in sys.argv[1:] if argument not in SWEEP])
            hydra.main(config_path=config_folder(), config_name=command.name, version_base="1.3")(main)()
        except (HydraException, OmegaConfBaseException, ValueError) as error:
            if blamed(error):
                raise
            return complain(explain(command.name, str(error), str(error.__cause__ or "")))
        return max(statuses, default=0)

    finish(start)


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
    sys.stderr.write(f"error: {printable(message)}\n")
    return status


def explain(name: str, message: str, cause: str = "") -> str:
    """Turns Hydra's message into one line that names the nearest valid key or choice."""
    key = re.search(r"Could not override '([^']+)'", message)
    if key:
        if key[1].startswith("hydra.launcher.") and not _launcher():
            return f"{key[1]!r} is no setting of the launcher; choose another, as in hydra/launcher=joblib"
        return f"unknown key {key[1]!r}{did_you_mean(key[1], _keys(name))}"
    group = re.search(r"Could not find '([^']+)/([^'/]+)'", message)
    if group:
        return f"unknown {group[1]} {group[2]!r}{did_you_mean(group[2], _choices(group[1]))}"
    if message.startswith("Error merging override") and cause:
        message = f"{message.removeprefix('Error merging override ')}: {cause.splitlines()[0]}"
    return " ".join(message.split())


def _launcher() -> list[str]:
    """Returns the override that chooses a launcher, if there is one."""
    return [argument for argument in sys.argv if argument.startswith("hydra/launcher=")]


def _choices(group: str) -> list[str]:
    """Returns the choices of a group, also those that plug-ins offer."""
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra

    with initialize_config_dir(config_folder(), version_base="1.3"):
        return GlobalHydra.instance().config_loader().get_group_options(group)


def _keys(name: str) -> list[str]:
    """Returns every key of a command's configuration and of the chosen launcher's, with its path."""
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    with initialize_config_dir(config_folder(), version_base="1.3"):
        data = compose(name, _launcher(), return_hydra_config=True)
        settings: Any = OmegaConf.to_container(data, resolve=False)
    chosen = settings.pop("hydra")["launcher"]

    def walk(node: Any, path: str) -> Iterator[str]:
        for key, value in node.items():
            yield f"{path}{key}"
            if isinstance(value, dict):
                yield from walk(value, f"{path}{key}.")

    return [*walk(settings, ""), *walk(chosen, "hydra.launcher.")]
