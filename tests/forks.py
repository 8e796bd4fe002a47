"""Command lines that run one after the other in forks of one process, which has imported what they share."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_FORKS = """
import importlib, json, os, sys
folder, modules, program, lines = json.loads(sys.argv[1])
for module in modules:
    importlib.import_module(module)
for place, typed in enumerate(lines):
    process = os.fork()
    if process == 0:
        for stream in (1, 2):
            os.dup2(os.open(f"{folder}/{place}.{stream}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
        sys.argv = ["interpbench", *typed]
        exec(program)
        sys.exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
"""
MAIN = "from interpbench.runs.cli import main; main()"
"""The program of the command `interpbench`."""


def run_forked(
    where: Path,
    written: Path,
    lines: Sequence[Sequence[str]],
    modules: Sequence[str] = ("interpbench.runs.cli", "torch"),
    program: str = MAIN,
) -> list[tuple[int, str, str]]:
    """Returns the exit status, the standard output and the standard error of each command line.

    Args:
        where: the folder that they are run in.
        written: a folder for what they print.
        lines: the arguments of each.
        modules: what is imported before the process is forked.
        program: the code that takes the arguments.
    """
    asked = json.dumps([str(written), modules, program, lines])
    line = [sys.executable, "-c", _FORKS, asked]
    done = subprocess.run(line, cwd=where, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = [[(written / f"{place}.{stream}").read_text() for stream in (1, 2)] for place in range(len(lines))]
    return [(int(status), out, err) for status, (out, err) in zip(done.stdout.split(), said, strict=True)]
