"""The exceptions of the project, with one base class; each message is one line that tells what to change."""

import copyreg
import difflib
from collections.abc import Iterable

from interpbench.core.text import printable, shown

MOST_CHARACTERS = 600
"""The largest number of characters of a message; a longer one would quote somebody's file at length."""
MOST_CHOICES = 12
"""The largest number of choices that a message lists."""


class InterpBenchError(Exception):
    """The base class of errors that a user can fix; commands print the message, which is one line."""

    def __str__(self) -> str:
        line = printable(" ".join(super().__str__().splitlines()))
        return line if len(line) <= MOST_CHARACTERS else f"{line[: MOST_CHARACTERS - 1]}…"


class UnknownNameError(InterpBenchError):
    """A name is not registered.

    Args:
        kind: the kind of thing that it names, such as `task`.
        name: the name.
        choices: the registered names; the message gives the nearest ones.
    """

    def __init__(self, kind: str, name: object, choices: Iterable[str]):
        super().__init__(f"unknown {kind} '{shown(name)}'{did_you_mean(str(name), choices)}")

    def __reduce__(self) -> tuple[object, ...]:
        """Returns how the exception is copied into another process: with its message as it is."""
        return copyreg.__newobj__, (type(self), *self.args)  # type: ignore[attr-defined]


class ConfigError(InterpBenchError):
    """A key of the configuration is unknown or missing, or has a wrong value."""


class TaskError(InterpBenchError):
    """The program, domain or alignment of a task is inconsistent."""


class NoPlaceError(TaskError):
    """A regime has no place in a task: no variable that could be changed."""


class CheckpointError(InterpBenchError):
    """A checkpoint is damaged, incomplete, not one of this project, or of a newer format."""


class HubError(CheckpointError):
    """A model cannot be downloaded from, or uploaded to, a hub."""


class TrainingError(InterpBenchError):
    """A training run cannot continue; the message says what to try."""


class DiscoveryError(InterpBenchError):
    """A discovery method cannot be applied as requested; the message gives the reason."""


class ScoresError(InterpBenchError):
    """A file of scores is damaged or incomplete, or belongs to another network."""


class TraceError(InterpBenchError):
    """A fact, a prompt or a masked language model cannot be traced; the message says what to change."""


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """Returns the end of a message on an unknown name: `; did you mean a or b?`, or what there is."""
    choices, name = sorted(set(choices)), name[:MOST_CHARACTERS]
    numbers = [choice for choice in choices if choice.isdigit()]
    if numbers and name.removeprefix("-").isdigit():
        return f"; did you mean {min(numbers, key=lambda choice: abs(int(choice) - int(name)))}?"
    close = difflib.get_close_matches(name, choices, n=3, cutoff=0.4)
    if not close:
        close = [choice for choice in choices if name and name.lower() in choice.lower()][:3]
    if close:
        return f"; did you mean {' or '.join(close)}?"
    if len(choices) > MOST_CHOICES:
        return f"; {len(choices)} names are known, such as {', '.join(choices[:3])}"
    return f"; choose from {', '.join(choices)}" if choices else ""
