"""Sweeps: every combination of the values that a command line lists, here, in parallel or on a cluster.

Hydra composes each run, and one of its launchers, chosen by `hydra/launcher=`, starts those that are not
finished. A sweep keeps nothing itself: how a run ended is what it returns or wrote, so that a sweep may be
killed anywhere and started again.
"""

import contextlib
import io
import logging
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from interpbench.core.config import config_folder
from interpbench.core.console import console
from interpbench.core.errors import ConfigError, InterpBenchError
from interpbench.core.files import sha256, write_text
from interpbench.core.text import shown
from interpbench.core.user_code import blamed
from interpbench.runs.entry import (
    Command,
    Composed,
    Config,
    RunOutcome,
    announce,
    complain,
    compose_run,
    configure_logging,
)

log = logging.getLogger(__name__)
SUMMARY = "summary.txt"
FAILED = 2
UNKNOWN = "no result; the same command goes on with it"


class PlannedSweep(NamedTuple):
    """A sweep that can start.

    Attributes:
        config: Hydra's configuration of the launcher and of the first run, `hydra` included.
        jobs: the overrides of every run.
        runs: what they are composed to, or why one cannot be.
    """

    config: Any
    jobs: list[list[str]]
    runs: list[Composed | RunOutcome]


def plan(command: Command, overrides: Sequence[str]) -> PlannedSweep:
    """Returns every combination of what overrides list.

    Raises:
        InterpBenchError: if the sweep cannot start.
        HydraException: if its launcher, or a run, cannot be composed.
    """
    from hydra import compose, initialize_config_dir

    with initialize_config_dir(config_folder(), version_base="1.3", job_name=command.name):
        launcher = [override for override in overrides if override.lstrip("+~").startswith("hydra")]
        jobs = _combinations([override for override in overrides if override not in launcher])
        if not jobs:
            raise InterpBenchError("there is nothing to sweep over")
        config = compose(command.name, [*launcher, *jobs[0]], return_hydra_config=True)
        runs = [_composed(command, job) for job in jobs]
    if config.hydra.launcher._target_.endswith("SlurmLauncher") and shutil.which("sbatch") is None:
        raise InterpBenchError("SLURM's sbatch is not here; hydra/launcher=joblib goes without")
    return PlannedSweep(config, jobs, runs)


def sweep(command: Command, planned: PlannedSweep) -> int:
    """Runs every combination that is not finished; prints and writes a summary.

    Returns:
        The exit status, the highest of all runs; a run that fails does not stop the others.

    Raises:
        InterpBenchError: if no run can start.
    """
    from hydra import initialize_config_dir

    config, jobs, runs = planned
    labels = _labels(jobs)
    name = "-".join([*labels[0], sha256(repr(jobs).encode())[:8]]).replace("/", ".")
    folder = Path(str(config.hydra.sweep.dir)) / "sweeps" / name
    line = shlex.join(sys.orig_argv)
    with initialize_config_dir(config_folder(), version_base="1.3", job_name=command.name):
        prepared = [_prepared(command, run) for run in runs]
        if all(isinstance(run, RunOutcome) and run.status == FAILED for run in prepared):
            raise InterpBenchError(next(run.failures[0] for run in prepared if isinstance(run, RunOutcome)))
        write_text(folder / SUMMARY, line + "\n")
        missing = [run for run in prepared if isinstance(run, Composed)]
        announce(missing)
        log.info("%d runs, %d to do; summary in %s", len(jobs), len(missing), folder / SUMMARY)
        for label, run in zip(labels, prepared):
            if missing and isinstance(run, RunOutcome) and run.status == FAILED:
                log.warning("cannot start: %s", _failures(label, run)[0])  # before hours of other runs
        ended = iter(_run(command, config, folder, missing) if missing else [])
    outcomes = [run if isinstance(run, RunOutcome) else next(ended) for run in prepared]
    _report(labels, outcomes, folder / SUMMARY, line)
    return max(outcome.status for outcome in outcomes)


def _combinations(overrides: Sequence[str]) -> list[list[str]]:
    """Returns the overrides of every run: each value of each list with each of the others, in order."""
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.override_parser.overrides_parser import OverridesParser

    parser = OverridesParser.create(config_loader=GlobalHydra.instance().config_loader())
    values: list[list[str]] = []
    for text, override in zip(overrides, parser.parse_overrides(list(overrides))):
        if override.is_sweep_override():
            key = override.get_key_element()
            try:
                values.append([f"{key}={value}" for value in override.sweep_string_iterator()])
            except ValueError as error:  # as range(1,2,0)
                raise ConfigError(f"{shown(text)}: {error}") from None
        else:
            values.append([text])
    return [list(job) for job in product(*values)] if values else []


def _labels(jobs: Sequence[Sequence[str]]) -> list[dict[str, str]]:
    """Returns what tells each run from the others: the settings of which there are several values."""
    settings = [{key: value for key, _, value in (text.partition("=") for text in job)} for job in jobs]
    several = [key for key in settings[0] if len({each[key] for each in settings}) > 1]
    return [{key: each[key].strip("'\"") for key in several or each} for each in settings]


def _composed(command: Command, overrides: list[str]) -> Composed | RunOutcome:
    """Composes a run; returns why it cannot be if what it names is wrong."""
    try:
        return compose_run(command, overrides)
    except InterpBenchError as error:
        return _failed(str(error))


def _prepared(command: Command, run: Composed | RunOutcome) -> Composed | RunOutcome:
    """Returns how a run ended if it is finished, or why it cannot start; else the run."""
    if isinstance(run, RunOutcome):
        return run

    def ended(config: Config) -> RunOutcome | None:
        command.check(config)
        return command.finished(config)

    return _contained(ended, run.data) or run


def _run(command: Command, config: Any, folder: Path, runs: Sequence[Composed]) -> list[RunOutcome]:
    """Has Hydra's launcher start the runs, and waits for all of them."""
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.plugins import Plugins
    from hydra.experimental.callback import Callback
    from hydra.types import HydraContext
    from omegaconf import open_dict

    _for_processes()
    with open_dict(config):
        config.hydra.sweep.dir = str(folder)
    context = HydraContext(GlobalHydra.instance().config_loader(), Callback())  # type: ignore[arg-type]
    task = partial(perform, command.job)
    try:
        launcher = Plugins.instance().instantiate_launcher(context, task_function=task, config=config)
        with _hearing_of_all(config):
            returned: Sequence[Any] = launcher.launch([run.overrides for run in runs], initial_job_idx=0)
        return [each if isinstance(each, RunOutcome) else each.return_value for each in returned]
    except Exception as error:  # noqa: BLE001  whatever a launcher raises: what ended before is not lost
        complain(f"the launcher stopped: {_one_line(error)}")
    return [_contained(command.finished, run.data) or _failed(UNKNOWN) for run in runs]


def _for_processes() -> None:
    """Has processes that a launcher starts import this very package, and use one thread by default."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("SUBMITIT_LOG_LEVEL", "NOCONFIG")  # or its import closes everyone's log handlers
    home = str(Path(__file__).resolve().parents[2])
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if home not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([home, *filter(None, paths)])


@contextlib.contextmanager
def _hearing_of_all(config: Any) -> Generator[None]:
    """Lets a job of submitit that died be one failure, by putting in place what a job answers meanwhile.

    Neither submitit nor its launcher has an interface for this: the launcher makes the jobs and waits for
    them in one function, which stops at the first that died and keeps the others to itself, and a subclass
    would have to write that function again.
    """
    if "submitit" not in str(config.hydra.launcher._target_):
        yield
        return
    from submitit import Job

    wait: Callable[[Any], list[Any]] = Job.results

    def results(job: Any) -> list[Any]:
        try:
            return wait(job)
        except Exception as error:  # noqa: BLE001  of several unrelated classes
            log.debug("%s", error)
            return [_failed(f"killed, or out of memory or time; its log is {job.paths.stderr}")]

    Job.results = results  # type: ignore[method-assign]
    try:
        yield
    finally:
        Job.results = wait  # type: ignore[method-assign]


def perform(job: Callable[[Config], RunOutcome], config: Any) -> RunOutcome:
    """Runs one job of a sweep, in whatever process; anything that it raises is its failure."""
    from omegaconf import OmegaConf

    configure_logging()
    data: Any = OmegaConf.to_container(config, resolve=True, throw_on_missing=False)
    outcome = _contained(job, data)
    assert outcome is not None
    if outcome.status == FAILED:
        complain(outcome.failures[0])
    return outcome


def _contained(function: Callable[[Config], RunOutcome | None], data: Config) -> RunOutcome | None:
    """Returns what a function of a configuration returns; what it raises is a failure."""
    try:
        return function(data)
    except InterpBenchError as error:
        return _failed(str(error))
    except (Exception, SystemExit) as error:
        if place := blamed(error):
            return _failed(place)
        log.exception("not one of the expected errors")
        return _failed(_one_line(error))


def _failed(said: str) -> RunOutcome:
    return RunOutcome(FAILED, {"result": "failed"}, (said,))


def _one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def _failures(label: Mapping[str, str], outcome: RunOutcome) -> list[str]:
    """Returns a line for each thing that went wrong in a run, after what tells the run from others."""
    said = " ".join(f"{key}={value}" for key, value in label.items())
    return [f"{said}: {failure}" for failure in outcome.failures]


def _report(
    labels: Sequence[Mapping[str, str]], outcomes: Sequence[RunOutcome], path: Path, line: str
) -> None:
    """Prints the summary's table and the failures, and writes both."""
    from rich.console import Console

    from interpbench.reports.tables import rows_table

    table = rows_table([{**label, **outcome.facts} for label, outcome in zip(labels, outcomes)])
    console().print(table)
    failures = [
        f"failed: {failure}"
        for label, outcome in zip(labels, outcomes)
        for failure in _failures(label, outcome)
    ]
    bad = sum(outcome.status > 0 for outcome in outcomes)
    verdict = f"{bad} of {len(outcomes)} runs failed" if bad else f"all {len(outcomes)} runs are done"
    for failure in failures:
        log.error("%s", failure)
    log.info("%s; summary in %s", verdict, path)
    written = io.StringIO()
    Console(file=written, width=160).print(table)
    write_text(path, "\n".join([line, "", written.getvalue().rstrip(), "", *failures, verdict]) + "\n")
