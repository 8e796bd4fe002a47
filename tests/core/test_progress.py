"""The progress display: a line of the log now and then where there is no terminal, two live lines on one."""

import logging
from collections.abc import Callable
from io import StringIO

import pytest
from rich.console import Console

from interpbench.core import progress
from interpbench.core.progress import Display, duration


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in seconds, which tests set; the display is not on a terminal."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: False, raising=False)
    return now


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.name == progress.__name__]


def test_lines_are_as_far_apart_as_is_asked(clock: list[float], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with Display("train", 100, every_seconds=10) as display:
        for done in range(1, 26):
            clock[0] += 1
            display.update(done, f"loss {done}")
    assert [line.split("  ")[0] for line in lines(caplog)] == ["train 10/100", "train 20/100"]


def test_a_line_says_how_fast_it_goes_and_how_long_it_takes(
    clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    """The rate is that since the display began: what a resumed job had done before does not count."""
    caplog.set_level(logging.INFO)
    with Display("train", 100, every_seconds=4) as display:
        clock[0] += 1
        display.update(51, "resumed")
        clock[0] += 4
        display.update(60, "loss 0.5")
    assert lines(caplog) == ["train 60/100  loss 0.5  2.0/s  20 s left"]


def test_a_pause_has_no_rate_and_the_total_may_change(
    clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with Display("train", 100, every_seconds=1) as display:
        clock[0] += 1
        display.pause(30, "certifying")
        display.total = 40
        clock[0] += 1
        display.pause(30, "certifying again")
    assert lines(caplog) == ["train 30/100  certifying", "train 30/40  certifying again"]


def test_an_error_passes_through_and_ends_the_display(clock: list[float]) -> None:
    display = Display("train", 2)
    with pytest.raises(ZeroDivisionError), display:
        1 / 0  # noqa: B018
    assert display._progress.finished or not display._progress.live.is_started


METRICS = (
    "accuracy 0.9987 iia 0.9312 siia 0.9921 edges 0.9843 loss 0.02314 behaviour 0.001 iit 0.011 strict 0.009"
)


def live(width: int, title: str, update: Callable[[Display], None]) -> list[str]:
    """Returns the two lines that a terminal of so many columns shows at last."""
    console = Console(file=StringIO(), width=width, force_terminal=True, record=True, legacy_windows=False)
    with Display(title, 20_000, console=console) as display:
        update(display)
    shown = console.export_text().rstrip()
    return [line.rstrip() for line in shown[shown.rindex(title[:12]) :].splitlines()]


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("title", ["ioi seed 0", "differs_from_both_neighbours seed 12"])
def test_metrics_hide_neither_bar_nor_rate_nor_time(clock: list[float], width: int, title: str) -> None:
    """They have a line of their own, which is cut at the terminal's width."""

    def update(display: Display) -> None:
        clock[0] += 1
        display.update(1, METRICS)
        clock[0] += 99
        display.update(1200, METRICS)

    bar, status = live(width, title, update)
    assert bar.startswith(title[:19]) and "━" in bar and len(bar) <= width
    assert bar.endswith("1200/20000 12.0/s 26 min 07 s left")
    assert status.startswith("  accuracy 0.9987 iia 0.9312") and len(status) <= width
    assert ("…" in status) == (len(METRICS) + 2 > width)


def test_a_slow_job_fits_into_80_columns(clock: list[float]) -> None:
    def update(display: Display) -> None:
        clock[0] += 210
        display.update(19_000, METRICS)

    bar, _ = live(80, "identity_by_attention seed 12", update)
    assert bar.startswith("identity_by_attenti… ━") and len(bar) <= 80
    assert bar.endswith("19000/20000 3 min 30 s each 2 d 10 h left")


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        *((0, "0 s"), (20.4, "20 s"), (59.6, "1 min 00 s"), (130, "2 min 10 s"), (3599, "59 min 59 s")),
        *((3900, "1 h 05 min"), (86_400, "24 h 00 min"), (200_000, "2 d 7 h")),
    ],
)
def test_times_are_in_readable_units(seconds: float, said: str) -> None:
    assert duration(seconds) == said
