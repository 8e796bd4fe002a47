"""`task=all` and other groups of tasks on the command line of a sweep of trainings."""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from itertools import compress

from interpbench.core.errors import ConfigError, UnknownNameError
from interpbench.tasks.catalogue import catalogue
from interpbench.tasks.groups import ALL, KINDS, REGIME, SIZES, Member, files, in_group, is_group

_COMMA = re.compile(r",(?![^\[]*\])")
"""A comma between tasks, not between the parameters of one."""
_TERMS = re.compile(r"[\w:+-]+")
"""What a group may be made of, unlike a file of a user's own task."""


def expand_tasks(arguments: Sequence[str]) -> list[str]:
    """Rewrites `all` and groups of tasks (`tasks/groups.py`) in `task=…` as lists of tasks.

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
    tasks = catalogue()
    if name in tasks or not name:
        return []
    if name == ALL:
        return sorted(tasks)
    start, colon, end = name.partition(":")
    bounds = bool(colon) and (name.startswith(REGIME) or (start in SIZES and not end.isidentifier()))
    if _TERMS.fullmatch(name) and (bounds or "+" in name or (not colon and is_group(name))):
        members = [Member.of_task(tasks[task]) for task in sorted(tasks)]
        return list(compress(sorted(tasks), in_group(name, members)))
    if name.isidentifier() and not get_close_matches(name, tasks, cutoff=0.8):
        if near := get_close_matches(name, {ALL, *KINDS, *files()}):
            raise UnknownNameError("task or group of tasks", name, near)
    return []
