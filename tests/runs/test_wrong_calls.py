"""Mistakes on command lines: status 2, one line that names the value, nothing else said, written or left.

`wrong_calls.jsonl` has them: program, arguments, words that the line must hold, environment, whether torch
must be imported to see the mistake (a user's file imports it, or torch reads the file it is in). Others are
found before torch is, which keeps them within a second; `python -m benchmarks.wrong_calls` measures that.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.wrong_calls import calls, command, prepare


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wrong") / "template"
    prepare(folder)
    return folder


def content(folder: Path) -> dict[str, bytes]:
    """Returns the files of a folder; locks and Python's own do not count."""
    files = [path for path in folder.glob("**/*") if path.is_file() and path.name != ".lock"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files if path.suffix != ".pyc"}


EVERY = 60
"""One of so many is run by `make test`, all others by `make fuzz`."""


@pytest.mark.parametrize(
    "number", [n if n % EVERY == 0 else pytest.param(n, marks=pytest.mark.fuzz) for n in range(len(calls()))]
)
def test_a_wrong_call_is_one_line(template: Path, tmp_path: Path, number: int) -> None:
    call, where = calls()[number], tmp_path / "here"
    shutil.copytree(template, where, symlinks=True)
    before = content(where)
    done = subprocess.run(
        **command(call), cwd=where, capture_output=True, stdin=subprocess.DEVNULL, check=False, timeout=120
    )
    said = done.stderr.decode().removesuffix("torch is imported\n")
    assert (done.returncode, done.stdout) == (2, b""), (call, done.stdout, said)
    assert said.startswith("error: ") and said.count("\n") == 1 and len(said) < 1000, (call, said)
    assert said[:-1].isprintable() and not [word for word in call.says if word not in said], (call, said)
    assert content(where) == before, call
    assert call.torch or said == done.stderr.decode(), (call, "torch is imported")
