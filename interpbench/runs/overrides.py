"""Overrides of training that are shorter than Hydra's: `task=ioi task.tokenizer=gpt2 alignment.tokens=m0`."""

from collections.abc import Sequence

from interpbench.core.errors import ConfigError, did_you_mean
from interpbench.tasks.catalogue import tokenized_name

KEY = "task.tokenizer"


def hydra_overrides(overrides: Sequence[str]) -> list[str]:
    """Returns what Hydra takes.

    A tokenizer becomes part of the names of the tasks, and a variable of `alignment` is added to a
    configuration that names none.

    Raises:
        ConfigError: for another `task.` key.
    """
    tokenizer = ""
    kept: list[str] = []
    for override in overrides:
        key, _, value = override.partition("=")
        if key == KEY:
            tokenizer = "" if value == "null" else value
        elif key.startswith("task."):
            raise ConfigError(f"unknown key {key!r}{did_you_mean(key, [KEY])}")
        else:
            kept.append(f"+{override}" if key.startswith("alignment.") else override)
    if not tokenizer:
        return kept

    def named(override: str) -> str:
        key, _, value = override.partition("=")
        if key != "task":
            return override
        return "task=" + ",".join(f"'{tokenized_name(name, tokenizer)}'" for name in value.split(","))

    return list(map(named, kept))
