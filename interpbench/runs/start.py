"""How commands that Hydra configures start: one run, or a sweep of them."""

import contextlib
import os
import sys
from collections.abc import Generator, Sequence

from interpbench.core.config import config_folder
from interpbench.core.errors import ConfigError
from interpbench.core.user_code import blamed
from interpbench.runs.entry import Command, Composed, announce, complain, compose_run
from interpbench.runs.sweep import PlannedSweep, plan, sweep

SWEEP = frozenset(("-m", "--multirun", "hydra.mode=MULTIRUN"))
HELP = frozenset(("-h", "--help"))


def run_hydra(command: Command, arguments: Sequence[str]) -> int:
    """Composes `configs/<name>.yaml` with a command line, runs the command, and returns the exit status.

    It is 0 if everything is as wished, 1 if a run missed its target, 2 for an error that the user can fix,
    which is printed in one line. With `-m`, `runs.sweep` does all of this.
    """
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    from interpbench.runs.mistakes import explain

    os.environ.setdefault("HYDRA_FULL_ERROR", "1")
    try:
        planned = _planned(command, arguments)
    except (HydraException, OmegaConfBaseException) as error:
        if blamed(error):
            raise
        return complain(explain(command.name, arguments, str(error), str(error.__cause__ or "")))
    if planned is None:
        return 0
    if isinstance(planned, PlannedSweep):
        return sweep(command, planned)
    command.check(planned.data)
    announce([planned])
    return command.job(planned.data).status


def _planned(command: Command, arguments: Sequence[str]) -> Composed | PlannedSweep | None:
    """Returns what a command line asks for; None if Hydra has answered it itself, as `--help`."""
    from hydra import initialize_config_dir

    from interpbench.runs.mistakes import check_arguments

    check_arguments(command.name, arguments)
    if not SWEEP.isdisjoint(arguments) and HELP.isdisjoint(arguments):
        return plan(command, [argument for argument in arguments if argument not in SWEEP])
    overrides = _overrides(command.name, arguments)
    if overrides is None:
        return None
    with initialize_config_dir(config_folder(), version_base="1.3", job_name=command.name):
        return compose_run(command, overrides)


def _overrides(name: str, arguments: Sequence[str]) -> list[str] | None:
    """Returns the overrides of a command line, or None if Hydra answers one of its options (`--help`)."""
    if not any(argument.startswith("-") for argument in arguments):
        return list(arguments)
    import hydra
    from hydra.core.hydra_config import HydraConfig

    overrides: list[list[str]] = []
    try:
        with _command_line(arguments):
            hydra.main(config_path=config_folder(), config_name=name, version_base="1.3")(
                lambda _: overrides.append(list(HydraConfig.get().overrides.task))
            )()
    except ValueError as error:  # of an option's value, as --shell-completion install=nosuch
        raise ConfigError(str(error)) from None
    return overrides[0] if overrides else None


@contextlib.contextmanager
def _command_line(arguments: Sequence[str]) -> Generator[None]:
    """Lets `hydra.main`, which takes arguments from nowhere else, find these in `sys.argv` meanwhile."""
    typed, sys.argv = sys.argv, [sys.argv[0], *arguments]
    try:
        yield
    finally:
        sys.argv = typed
