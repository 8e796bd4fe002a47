"""The project's errors: one base class; the message is one line that a user can act on."""

import difflib
from collections.abc import Iterable

from interpbench.core.text import printable, shown

MOST_CHARACTERS = 600
"""The longest message: beyond that it would be somebody's file that is printed."""


class InterpBenchError(Exception):
    """Something that the user can fix; commands print its message, which is one printable line."""

    def __str__(self) -> str:
        line = printable(" ".join(super().__str__().splitlines()))
        return line if len(line) <= MOST_CHARACTERS else f"{line[: MOST_CHARACTERS - 1]}…"


class UnknownNameError(InterpBenchError):
    """A name that is not registered; the message gives the nearest ones."""

    def __init__(self, kind: str, name: object, choices: Iterable[str]):
        super().__init__(f"unknown {kind} '{shown(name)}'{did_you_mean(str(name), choices)}")


class ConfigError(InterpBenchError):
    """A configuration key or value that is unknown, missing or ill-typed."""


class TaskError(InterpBenchError):
    """A task whose program, domain or alignment contradicts itself."""


class CheckpointError(InterpBenchError):
    """A checkpoint that is damaged, truncated, foreign or of a newer format."""


class HubError(CheckpointError):
    """A model that cannot be had from, or put on, a hub: offline, missing, refused, changed or damaged."""


class TrainingError(InterpBenchError):
    """A training run that cannot go on; the message says what to try."""


class DiscoveryError(InterpBenchError):
    """A method that cannot be applied as asked, with the reason."""


class ScoresError(InterpBenchError):
    """A file of scores that is damaged, incomplete, or of another network."""


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """Returns `; did you mean a, b or c?` for the names nearest to `name`, or all of a few choices."""
    choices, name = sorted(set(choices)), name[:MOST_CHARACTERS]
    close = difflib.get_close_matches(name, choices, n=3, cutoff=0.4)
    if not close:
        close = [choice for choice in choices if name and name.lower() in choice.lower()][:3]
    if close:
        return f"; did you mean {' or '.join(close)}?"
    return f"; choose from {', '.join(choices)}" if 0 < len(choices) <= 12 else ""
