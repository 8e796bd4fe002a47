"""`task=all` and other groups of tasks on the command line of a sweep of trainings."""

from collections.abc import Sequence

from interpbench.core.errors import ConfigError
from interpbench.tasks.catalogue import catalogue
from interpbench.tasks.task_records import records

ALL, TRIVIAL, NONTRIVIAL = "all", "trivial", "nontrivial"


def expand_tasks(arguments: Sequence[str]) -> list[str]:
    """Rewrites `task=all`, `task=nontrivial`, `task=trivial` or `task=<group>` as a list of tasks.

    Raises:
        ConfigError: if such a group is named without `-m`.
    """
    sweeps = any(argument in ("-m", "--multirun") for argument in arguments)
    expanded: list[str] = []
    for argument in arguments:
        key, _, value = argument.partition("=")
        names = _group(value) if key == "task" else []
        if names and not sweeps:
            raise ConfigError(f"task={value} is {len(names)} tasks; several are a sweep: -m task={value}")
        expanded.append(f"task={','.join(names)}" if names else argument)
    return expanded


def _group(name: str) -> list[str]:
    """Returns the tasks of a group, sorted; none if there is no such group, or a task of its name."""
    tasks = {task.name: task.group for task in catalogue().values()}
    if name in tasks or not name:
        return []
    if name in (ALL, TRIVIAL, NONTRIVIAL):
        known = records()
        trivial = {task for task in tasks if task in known and known[task].trivial is not None}
        chosen = {ALL: set(tasks), TRIVIAL: trivial, NONTRIVIAL: set(tasks) - trivial}[name]
        return sorted(chosen)
    return sorted(task for task, group in tasks.items() if group == name)
