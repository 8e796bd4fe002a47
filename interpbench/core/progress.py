"""The progress display of long jobs: a live line on a terminal, otherwise lines in the log."""

import logging
import multiprocessing
import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

log = logging.getLogger(__name__)


class Display:
    """Shows the progress of a long job, as a context manager; `update` is cheap, and `total` may be changed.

    Args:
        title: the title of the job.
        total: the number of steps of the job.
        every_seconds: the seconds between two lines in the log, if there is no terminal.
    """

    def __init__(self, title: str, total: int, every_seconds: float = 15.0):
        self.title, self.total, self.every = title, total, every_seconds
        self.console = Console(stderr=True)
        alone = multiprocessing.current_process().name == "MainProcess"  # live lines overwrite each other
        self._live = alone and sys.stderr.isatty()
        self._progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[status]}"),
            console=self.console,
            disable=not self._live,
        )

    def __enter__(self) -> "Display":
        self._progress.start()
        self._task = self._progress.add_task(self.title, total=self.total, status="")
        self._started = self._shown = time.monotonic()
        self._first: int | None = None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def update(self, done: int, status: str) -> None:
        """Shows that `done` of `total` steps are done, with the text `status`, the rate and the time left."""
        if self._first is None:
            self._first = done - 1
        rate = (done - self._first) / max(time.monotonic() - self._started, 1e-9)
        left = (self.total - done) / max(rate, 1e-9)
        self._show(done, f"{status}  {rate:.1f}/s", f"  {left:.0f} s left")

    def pause(self, done: int, status: str) -> None:
        """Shows the text `status` during a pause of the job, of which `done` steps are done."""
        self._show(done, status, "")

    def _show(self, done: int, status: str, left: str) -> None:
        self._progress.update(self._task, completed=done, total=self.total, status=status)
        now = time.monotonic()
        if not self._live and now - self._shown >= self.every:
            self._shown = now
            log.info("%s %d/%d  %s%s", self.title, done, self.total, status, left)
