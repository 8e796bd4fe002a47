"""Commands that run in forks of one process, which has imported their libraries: that takes most of the time.

A fork has a folder, an environment, arguments and streams of its own, as a new process has. What is tested of
the start itself (what is imported, what `PYTHONPATH` does) needs a new process.
"""

import atexit
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from itertools import count
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import mkdtemp
from typing import Self

_FORKS = """
import importlib, json, os, runpy, sys
for module in json.loads(sys.argv[1]):
    importlib.import_module(module)
for line in sys.stdin:
    asked = json.loads(line)
    if process := os.fork():
        print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
        continue
    for stream, path in enumerate([os.devnull, *asked["streams"]]):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC if stream else os.O_RDONLY), stream)
    os.chdir(asked["where"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    program, *typed = asked["arguments"]
    if program == "-c":
        sys.argv, sys.path[0] = [program, *typed[1:]], ""
        exec(typed[0], {"__name__": "__main__"})
    else:
        sys.argv, sys.path[0] = [program, *typed], os.path.dirname(program)
        runpy.run_path(program, run_name="__main__")
    sys.exit(0)
"""
LIBRARIES = ("torch", "scipy.stats", "scipy.optimize", "hydra", "pydantic", "rich.progress")
"""What training and evaluations import of others."""
MAIN = "from interpbench.runs.cli import main; main()"
"""The program of the command `interpbench`."""


class Forks:
    """A process that forks itself for each command.

    Args:
        modules: what it imports first.
        where: the folder that it is in while it does; None for that of this process.
    """

    def __init__(self, modules: Sequence[str], where: Path | None = None) -> None:
        line = [sys.executable, "-c", _FORKS, json.dumps(modules)]
        pipe, self._written, self._count = subprocess.PIPE, Path(mkdtemp(prefix="forks-")), count()
        self._process = subprocess.Popen(line, cwd=where, stdin=pipe, stdout=pipe, text=True)

    def run(self, where: Path, *arguments: str) -> CompletedProcess[str]:
        """Runs Python with some arguments, which begin with a path or with `-c`, in a folder."""
        place, process = next(self._count), self._process
        streams = [str(self._written / f"{place}.{name}") for name in ("out", "err")]
        asked = {
            "where": str(where),
            "arguments": arguments,
            "environment": dict(os.environ),
            "streams": streams,
        }
        assert process.stdin and process.stdout
        print(json.dumps(asked), file=process.stdin, flush=True)
        status = int(process.stdout.readline())
        out, err = (Path(path).read_text() for path in streams)
        return CompletedProcess([sys.executable, *arguments], status, out, err)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._process.communicate()
        for path in self._written.iterdir():
            path.unlink()
        self._written.rmdir()


@cache
def _libraries() -> Forks:
    forks = Forks(LIBRARIES)
    atexit.register(forks.close)
    return forks


def run_python(where: Path, *arguments: str) -> CompletedProcess[str]:
    """Runs Python with some arguments, which begin with a path or with `-c`, where libraries are imported."""
    return _libraries().run(where, *arguments)
