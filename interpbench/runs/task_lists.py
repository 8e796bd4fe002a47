"""`task=all` and other groups of tasks on the command line of a sweep of trainings."""

import re
from collections.abc import Sequence
from difflib import get_close_matches

from interpbench.checkpoints.groups import SIZES
from interpbench.core.errors import ConfigError, UnknownNameError
from interpbench.tasks.catalogue import catalogue
from interpbench.tasks.task_records import records

ALL, TRIVIAL, NONTRIVIAL = "all", "trivial", "nontrivial"
_COMMA = re.compile(r",(?![^\[]*\])")
"""A comma between tasks, not between the parameters of one."""
_OF_MODELS = re.compile(rf"[\w:-]+\+[\w:+-]*|(?:{'|'.join(SIZES)}):\S*")
"""Groups of models by depth or size, or joined by +, which tasks are not chosen by."""


def expand_tasks(arguments: Sequence[str]) -> list[str]:
    """Rewrites `all`, `nontrivial`, `trivial` and groups of the catalogue in `task=…` as lists of tasks.

    Groups may be listed with each other and with tasks, as in `task=counting,hist`; what is named twice is
    trained once.

    Raises:
        ConfigError: if a group is named without `-m`.
        UnknownNameError: if a name is nearly that of a group and of no task.
    """
    sweeps = any(argument in ("-m", "--multirun") for argument in arguments)
    expanded: list[str] = []
    for argument in arguments:
        key, _, value = argument.partition("=")
        named = {part: _group(part) for part in _COMMA.split(value)} if key == "task" else {}
        names = list(dict.fromkeys(name for part, group in named.items() for name in group or [part]))
        several = any(named.values())
        if several and not sweeps:
            raise ConfigError(f"task={value} is {len(names)} tasks; several are a sweep: -m task={value}")
        expanded.append(f"task={','.join(names)}" if several else argument)
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
    if _OF_MODELS.fullmatch(name):
        raise UnknownNameError("group of tasks", name, {ALL, TRIVIAL, NONTRIVIAL, *tasks.values()})
    found = sorted(task for task, group in tasks.items() if group == name)
    if not found and name.isidentifier() and not get_close_matches(name, tasks, cutoff=0.8):
        if near := get_close_matches(name, {ALL, TRIVIAL, NONTRIVIAL, *tasks.values()}):
            raise UnknownNameError("task or group of tasks", name, near)
    return found
