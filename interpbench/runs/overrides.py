"""Overrides that are shorter than Hydra's: `task=ioi task.tokenizer=gpt2 alignment.tokens=m0`."""

import re
from collections.abc import Sequence
from itertools import product

from interpbench.core.errors import ConfigError
from interpbench.tasks.family import with_parameters

_BARE = re.compile(r"(?<![^,])[^,'\"()\[\]]+(?:\[[^\[\]'\"]*\][^,'\"()\[\]]*)+")
"""A name with brackets, of a task or a folder, that nobody has quoted."""
_NAMES = re.compile(r"""'[^']*'|"[^"]*"|[^,]+""")


def hydra_overrides(overrides: Sequence[str]) -> list[str]:
    """Returns what Hydra takes.

    Names in brackets are quoted, `task.<parameter>=` becomes part of the names of the tasks, each of several
    values of each of them, and a variable of `alignment` is added to a configuration that names none.

    Raises:
        ConfigError: for parameters of no task.
    """
    parameters = {
        key.removeprefix("task."): listed(value) or [""]
        for key, _, value in (override.partition("=") for override in overrides)
        if key.startswith("task.")
    }
    named = False
    found: list[str] = []
    for override in overrides:
        key, equals, value = override.partition("=")
        if key in ("task", "checkpoint", "start"):
            value = _BARE.sub(r"'\g<0>'", value)
        if key == "task" and parameters:
            named = True
            tasks = [
                with_parameters(task, dict(zip(parameters, values)))
                for task in listed(value)
                for values in product(*parameters.values())
            ]
            value = ",".join(f"'{task}'" for task in tasks)
        if not key.startswith("task."):
            found.append(f"{'+' if key.startswith('alignment.') else ''}{key}{equals}{value}")
    if parameters and not named:
        key = next(iter(parameters))
        raise ConfigError(f"task.{key} is a parameter of a task: say which, as in task=ioi task.{key}=…")
    return found


def listed(value: str) -> list[str]:
    """Returns the values that a list with commas holds, without quotes; commas in quotes are theirs."""
    return [text.strip().strip("'\"") for text in _NAMES.findall(value) if text.strip()]
