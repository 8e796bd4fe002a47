"""`task=ioi task.tokenizer=gpt2` on the command line: the task in the tokens of a tokenizer."""

from collections.abc import Sequence

from interpbench.core.errors import did_you_mean
from interpbench.runs.entry import complain
from interpbench.tasks.catalogue import tokenized_name

KEY = "task.tokenizer"


def with_tokenizer(overrides: Sequence[str]) -> list[str]:
    """Puts the tokenizer into the names of the tasks; exits with one line for another `task.` key."""
    tokenizer = ""
    kept: list[str] = []
    for override in overrides:
        key, _, value = override.partition("=")
        if key == KEY:
            tokenizer = "" if value == "null" else value
        elif key.startswith("task."):
            raise SystemExit(complain(f"unknown key {key!r}{did_you_mean(key, [KEY])}"))
        else:
            kept.append(override)
    if not tokenizer:
        return kept

    def named(override: str) -> str:
        key, _, value = override.partition("=")
        if key != "task":
            return override
        return "task=" + ",".join(f"'{tokenized_name(name, tokenizer)}'" for name in value.split(","))

    return list(map(named, kept))
