"""The progress display of long jobs: two live lines on a terminal, otherwise lines in the log."""

import logging
import multiprocessing
import sys
import time
from collections.abc import Iterable
from types import TracebackType

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Column
from rich.text import Text

log = logging.getLogger(__name__)
BESIDE_TITLE = 60
"""The number of columns of the first line that are kept for bar, steps, rate and time left."""


def duration(seconds: float) -> str:
    """Returns a time in units that are easily read: `20 s`, `2 min 10 s`, `1 h 05 min`, `3 d 4 h`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


class _TwoLines(Progress):
    """A progress bar with the status, which may be long, on a second line."""

    def get_renderables(self) -> Iterable[RenderableType]:
        """Yields the bar and the status, which is cut to the terminal's width."""
        yield self.make_tasks_table(self.tasks)
        for task in self.tasks:
            if status := task.fields["status"]:
                yield Text(f"  {status}", style="dim", no_wrap=True, overflow="ellipsis")


class Display:
    """Shows the progress of a long job, as a context manager; `update` is cheap, and `total` may be changed.

    Args:
        title: the title of the job.
        total: the number of steps of the job.
        every_seconds: the seconds between two lines in the log, if there is no terminal.
        console: the console of the live lines; None for standard error.
    """

    def __init__(self, title: str, total: int, every_seconds: float = 15.0, console: Console | None = None):
        self.title, self.total, self.every = title, total, every_seconds
        alone = multiprocessing.current_process().name == "MainProcess"  # live lines overwrite each other
        self._live = alone and (sys.stderr.isatty() if console is None else console.is_terminal)
        self._console = console or Console(stderr=True)
        self._progress = _TwoLines(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=16),  # the only column that shrinks where the terminal is narrow
            MofNCompleteColumn(table_column=Column(no_wrap=True)),
            TextColumn("{task.fields[speed]}", table_column=Column(no_wrap=True)),
            TextColumn("{task.fields[left]}", table_column=Column(no_wrap=True)),
            console=self._console,
            disable=not self._live,
        )

    def __enter__(self) -> "Display":
        self._progress.start()
        most = max(12, self._console.width - BESIDE_TITLE)
        title = self.title if len(self.title) <= most else f"{self.title[: most - 1]}…"
        self._task = self._progress.add_task(title, total=self.total, status="", speed="", left="")
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
        speed = f"{rate:.1f}/s" if rate >= 0.1 else f"{duration(1 / max(rate, 1e-9))} each"
        self._show(done, status, speed, f"{duration(left)} left")

    def pause(self, done: int, status: str) -> None:
        """Shows the text `status` during a pause of the job, of which `done` steps are done."""
        self._show(done, status, "", "")

    def _show(self, done: int, status: str, speed: str, left: str) -> None:
        self._progress.update(
            self._task, completed=done, total=self.total, status=status, speed=speed, left=left
        )
        now = time.monotonic()
        if not self._live and now - self._shown >= self.every:
            self._shown = now
            log.info(
                "%s", "  ".join(filter(None, (f"{self.title} {done}/{self.total}", status, speed, left)))
            )
