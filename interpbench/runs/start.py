"""How commands that Hydra configures start: one run, or a sweep of them."""

import os
import sys
from collections.abc import Sequence

from interpbench.core.config import config_folder
from interpbench.core.user_code import blamed
from interpbench.runs.entry import Command, Composed, announce, complain, compose_run
from interpbench.runs.hydra_options import answer, parse
from interpbench.runs.sweep import PlannedSweep, plan, sweep


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
    """Returns what a command line asks for; None if it is answered already, as `--help` is."""
    from hydra import initialize_config_dir

    from interpbench.runs.mistakes import check_settings

    line = parse(arguments)
    check_settings(command.name, line.settings)
    if line.sweeps and line.question is None:
        return plan(command, line.settings)
    with initialize_config_dir(config_folder(), version_base="1.3", job_name=command.name):
        if line.question is None:
            return compose_run(command, line.settings)
        sys.stdout.write(answer(command, line))
        return None
