"""Opens pages in the installed Chromium, with Playwright."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import ConsoleMessage, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SIZE = {"width": 1400, "height": 1000}


def executable() -> str | None:
    """Returns the path of the installed Chromium; None if there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@dataclass
class Browser:
    """A page of the browser, with its errors and warnings and the addresses that it has requested."""

    page: Page
    complaints: list[str] = field(default_factory=list[str])
    requests: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", self._note)

    def _note(self, message: ConsoleMessage) -> None:
        if message.type in ("warning", "error", "assert"):
            self.complaints.append(message.text)

    def open(self, path: Path) -> None:
        """Opens a file and waits until it is loaded; earlier errors and requests are dropped."""
        self.complaints.clear()
        self.requests.clear()
        self.page.goto(path.resolve().as_uri())

    def run(self, script: str) -> Any:
        """Returns the value of a JavaScript expression in the page."""
        return self.page.evaluate(script)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Returns a context in which Chromium runs."""
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=executable(), args=["--no-sandbox"])
        yield Browser(started.new_page(viewport=SIZE))
        started.close()
