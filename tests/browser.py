"""A headless Chromium, driven by the DevTools protocol over two pipes: no driver, no library."""

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
    *("--remote-debugging-pipe", "--hide-scrollbars", "about:blank"),
)
# Chromium takes commands from descriptor 3 and answers on 4.
LAUNCH = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
MIDDLE = """(element => {
    element.scrollIntoView({ block: "center" });
    const { x, y, width, height } = element.getBoundingClientRect();
    return [x + width / 2, y + height / 2];
})"""
SECONDS = 60


def executable() -> str | None:
    """Returns the installed Chromium, if there is one."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """A page in a browser with a profile of its own; `complaints` collects errors, `requests` addresses."""

    def __init__(self, profile: Path, size: tuple[int, int] = (1400, 1000)):
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self._count, self._buffer, self._loaded = 0, b"", False
        self._session: str | None = None
        commands, self._write = _high_pipe()
        self._read, answers = _high_pipe()
        pipes, chromium = (str(commands), str(answers)), str(executable())
        self._process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, *pipes, chromium, *FLAGS, f"--user-data-dir={profile}"],
            pass_fds=(commands, answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(commands)
        os.close(answers)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.resize(*size)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Sends a command and returns its answer."""
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data) :]
        while (answer := self._next()).get("id") != self._count:
            pass
        assert "error" not in answer, answer["error"]
        return answer["result"]

    def open(self, path: Path) -> None:
        """Opens a file and waits until it is loaded."""
        self._loaded = False
        self.call("Page.navigate", url=path.resolve().as_uri())
        while not self._loaded:
            self._next()

    def run(self, script: str) -> Any:
        """Returns what a script evaluates to."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def click(self, selector: str) -> None:
        """Clicks on the middle of an element, as a mouse does."""
        x, y = self.run(f"{MIDDLE}(document.querySelector({json.dumps(selector)}))")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key: str, code: int) -> None:
        """Presses a key."""
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def resize(self, width: int, height: int) -> None:
        """Sets the size of the window."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def scheme(self, name: str) -> None:
        """Prefers `light` or `dark`."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def screenshot(self, path: Path) -> None:
        """Writes a picture of the whole page."""
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))

    def close(self) -> None:
        """Ends the browser that was started here, and its children."""
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._write)
        os.close(self._read)

    def _next(self) -> dict[str, Any]:
        """Returns the next message, and keeps what events say."""
        until = time.monotonic() + SECONDS
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0, until - time.monotonic()))
            assert ready, "Chromium does not answer"
            data = os.read(self._read, 1 << 20)
            assert data, "Chromium has ended"
            self._buffer += data
        text, self._buffer = self._buffer.split(b"\0", 1)
        message = json.loads(text)
        event, said = message.get("method"), message.get("params", {})
        if event == "Page.loadEventFired":
            self._loaded = True
        elif event == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(said["exceptionDetails"]))
        elif event == "Log.entryAdded" and said["entry"]["level"] in ("warning", "error"):
            self.complaints.append(said["entry"]["text"])
        elif event == "Runtime.consoleAPICalled" and said["type"] in ("warning", "error", "assert"):
            self.complaints.append(json.dumps(said["args"]))
        elif event == "Network.requestWillBeSent":
            self.requests.append(said["request"]["url"])
        return message


def _high_pipe() -> tuple[int, int]:
    """Returns a pipe with both ends above the two descriptors that Chromium uses."""
    import fcntl

    low = os.pipe()
    high = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in low)
    for end in low:
        os.close(end)
    return high[0], high[1]
