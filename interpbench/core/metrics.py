"""Where metrics go: JSON lines always, Weights & Biases if asked for; a failing sink never stops a run."""

import contextlib
import json
import logging
import os
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, Protocol

from interpbench.core.errors import InterpBenchError

log = logging.getLogger(__name__)


class Sink(Protocol):
    """Receives metrics."""

    def write(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Takes the metrics of one step."""

    def close(self) -> None:
        """Flushes."""


class JsonLines:
    """One JSON object a line; a resumed run first drops what came after its checkpoint."""

    def __init__(self, path: Path, resume_step: int = 0):
        kept: list[str] = []
        if resume_step and path.exists():
            for line in path.read_text().splitlines():
                try:
                    if json.loads(line)["step"] <= resume_step:
                        kept.append(line + "\n")
                except (ValueError, KeyError):
                    continue
        self._path = path
        with self._explained():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("w")
            self._file.writelines(kept)
            self._file.flush()

    def write(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Appends a line.

        Raises:
            InterpBenchError: if the disk is full; the next run drops what is half written.
        """
        with self._explained():
            self._file.write(json.dumps({"step": step, **metrics}) + "\n")
            self._file.flush()

    def close(self) -> None:
        """Closes the file; what cannot be flushed was said before."""
        with contextlib.suppress(OSError):
            self._file.close()

    @contextlib.contextmanager
    def _explained(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise InterpBenchError(f"cannot write {self._path}: {error.strerror}") from error


class Wandb:
    """Weights & Biases; offline without an account; switched off, with a warning, when it fails."""

    def __init__(self, project: str, name: str, config: Mapping[str, Any], folder: Path):
        self._run: Any = None
        try:
            import wandb

            default = "online" if os.environ.get("WANDB_API_KEY") else "offline"
            mode: Any = os.environ.get("WANDB_MODE", default)
            folder.mkdir(parents=True, exist_ok=True)
            self._run = wandb.init(
                project=project, name=name, config=dict(config), dir=str(folder), mode=mode
            )
        except Exception as error:  # noqa: BLE001  whatever W&B raises must not stop a training
            log.warning("W&B is not available, going on without it: %s", _line(error))

    def _try(self, action: Any) -> None:
        try:
            if self._run is not None:
                action()
        except Exception as error:  # noqa: BLE001  as above
            log.warning("W&B failed, going on without it: %s", _line(error))
            self._run = None

    def write(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Logs one step."""
        self._try(lambda: self._run.log(dict(metrics), step=step))

    def close(self) -> None:
        """Finishes the run."""
        self._try(lambda: self._run.finish(quiet=True))


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
