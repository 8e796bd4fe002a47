"""How commands that Hydra configures start: one run, or a sweep of them."""

import os
import sys
from typing import NoReturn

from interpbench.core.config import config_folder
from interpbench.core.user_code import blamed
from interpbench.runs.entry import Command, announce, complain, compose_run, configure_logging, finish
from interpbench.runs.sweep import sweep

SWEEP = frozenset(("-m", "--multirun", "hydra.mode=MULTIRUN"))
HELP = frozenset(("-h", "--help"))


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
