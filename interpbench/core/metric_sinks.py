"""Where metrics go: JSON lines always, Weights & Biases if asked for; a failing sink never stops a run."""

import contextlib
import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from pydantic import JsonValue

from interpbench.core.errors import InterpBenchError
from interpbench.core.files import write_text

log = logging.getLogger(__name__)


class Sink(Protocol):
    """Receives metrics."""

    def write(self, step: int, metrics: Mapping[str, JsonValue]) -> None:
        """Takes the metrics of one step."""

    def close(self) -> None:
        """Flushes."""


class JsonLines:
    """One JSON object a line, in a file that is there whole after every line, whatever happened to it.

    What an earlier run wrote is not read: the lines before `history` are in the state that is resumed from.

    Args:
        path: the file.
        history: the lines so far.
    """

    def __init__(self, path: Path, history: Sequence[Mapping[str, JsonValue]] = ()):
        self._path = path
        self._lines = [json.dumps(line) + "\n" for line in history]
        write_text(path, "".join(self._lines))

    def write(self, step: int, metrics: Mapping[str, JsonValue]) -> None:
        """Appends a line; if the file is gone, or was cut, it is written anew.

        Raises:
            InterpBenchError: if the disk is full; the next run writes the file anew.
        """
        size = sum(map(len, self._lines))
        self._lines.append(json.dumps({"step": step, **metrics}) + "\n")
        try:
            if not self._path.is_file() or self._path.stat().st_size != size:
                write_text(self._path, "".join(self._lines))
                return
            with self._path.open("a") as file:
                file.write(self._lines[-1])
        except OSError as error:
            raise InterpBenchError(f"cannot write {self._path}: {error.strerror}") from error

    def close(self) -> None:
        """Writes the file anew if it is gone."""
        if not self._path.is_file():
            with contextlib.suppress(InterpBenchError):  # whatever ended the run is what is said
                write_text(self._path, "".join(self._lines))


class Wandb:
    """Weights & Biases; offline without an account; switched off, with a warning, when it fails."""

    def __init__(self, project: str, name: str, config: Mapping[str, JsonValue], folder: Path):
        self._run: Any = None
        try:
            import wandb

            default = "online" if os.environ.get("WANDB_API_KEY") else "offline"
            mode: Any = os.environ.get("WANDB_MODE", default)
            folder.mkdir(parents=True, exist_ok=True)
            self._run = wandb.init(
                project=project,
                name=name,
                config=dict(config),
                dir=str(folder),
                mode=mode,
                settings={"quiet": True},
            )
        except Exception as error:  # noqa: BLE001  whatever W&B raises must not stop a training
            log.warning("W&B is not available, going on without it: %s", _line(error))

    def _try(self, action: Callable[[], object]) -> None:
        try:
            if self._run is not None:
                action()
        except Exception as error:  # noqa: BLE001  as above
            log.warning("W&B failed, going on without it: %s", _line(error))
            self._run = None

    def write(self, step: int, metrics: Mapping[str, JsonValue]) -> None:
        """Logs one step."""
        self._try(lambda: self._run.log(dict(metrics), step=step))

    def close(self) -> None:
        """Finishes the run."""
        self._try(lambda: self._run.finish())


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
