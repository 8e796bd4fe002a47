"""Sinks, to which a run writes its metrics: a file of JSON lines, and Weights & Biases if it is asked for."""

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
    """Writes the metrics of a run somewhere."""

    def write(self, step: int, metrics: Mapping[str, JsonValue]) -> None:
        """Writes the metrics of a step."""

    def close(self) -> None:
        """Writes what has not been written yet."""


class JsonLines:
    """A file with one JSON object on each line, which is complete after each step.

    A file that is there already is replaced; a run that is resumed passes its earlier metrics as `history`.

    Args:
        path: the file.
        history: the lines of earlier steps.
    """

    def __init__(self, path: Path, history: Sequence[Mapping[str, JsonValue]] = ()):
        self._path = path
        self._lines = [json.dumps(line) + "\n" for line in history]
        write_text(path, "".join(self._lines))

    def write(self, step: int, metrics: Mapping[str, JsonValue]) -> None:
        """Appends a line; a file that was deleted or cut meanwhile is written again from the beginning.

        Raises:
            InterpBenchError: if the file cannot be written, as when the disk is full.
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
        """Writes the file again if it was deleted."""
        if not self._path.is_file():
            with contextlib.suppress(InterpBenchError):  # the error that ended the run is the one to report
                write_text(self._path, "".join(self._lines))


class Wandb:
    """Weights & Biases: offline without an API key, and switched off with a warning if it fails.

    Args:
        project: the name of the project.
        name: the name of the run.
        config: the configuration of the run.
        folder: the folder of its files.
    """

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
        """Logs the metrics of a step."""
        self._try(lambda: self._run.log(dict(metrics), step=step))

    def close(self) -> None:
        """Finishes the run."""
        self._try(lambda: self._run.finish())


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
