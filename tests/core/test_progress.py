"""The progress display where there is no terminal: a line of the log now and then, with counts and a rate."""

import logging

import pytest

from interpbench.core import progress
from interpbench.core.progress import Display


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
