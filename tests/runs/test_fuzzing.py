"""Damaged files of every kind that is read: one line of the project's own error, or read correctly.

Each of them is read within two seconds of CPU time and 500 MB of memory, and nothing is run, written
elsewhere or sent. `make test` reads some versions of each kind, `make fuzz` ten thousand files.
"""

import contextlib
import json
import random
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from interpbench.core.errors import InterpBenchError
from tests.readable_files import KINDS

FEW, MANY = 60, 500
"""Damaged versions of each kind of file, of which there are more than twenty: tests, and `make fuzz`."""
HEADROOM = 500 << 20
"""Bytes of memory that reading a damaged file may take at most."""
SECONDS = 2.0
"""CPU seconds that reading a damaged file may take at most."""
HOSTILE: tuple[Any, ...] = (
    *(None, True, -1, 0, 1 << 62, 10**300, -(10**5), 1e308, 0.5, "", [], {}, [[]], {"": {}}, [None] * 50),
    *(
        "x" * 5000,
        "../../../etc/passwd",
        "/etc/passwd",
        "evil/evil.py:x",
        "ioi[owner/repo]",
        "a\nb",
        "\x1b[31m",
    ),
    *(
        "hf://owner/name@main/x",
        "$x^",
        "|",
        "<script>alert(1)</script>",
        "\ud800",
        "a0.h0",
        "a9.h9",
        "embed->m0",
    ),
)
"""What a value of a JSON file is replaced by."""


def mutations(data: bytes, seed: str, count: int) -> Iterator[bytes]:
    """Yields damaged versions of a file: bits, bytes, words, blocks, cuts, parts of other places; and of JSON
    every other one as JSON with a value, a key or a part that does not belong there."""
    rng = random.Random(seed)
    try:
        parsed = json.loads(data)
    except ValueError:
        parsed = None
    for number in range(count):
        yield _replaced(parsed, rng) if parsed is not None and number % 2 else _bytes(data, rng)


def _bytes(data: bytes, rng: random.Random) -> bytes:
    numbers = (0, 1, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 40, (1 << 63) - 1)
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        near = min(len(changed), 400)
        place = rng.randrange(len(changed) + 1) if rng.random() < 0.5 else rng.randrange(near + 1)
        kind = rng.randrange(6)
        if kind == 0 and place < len(changed):
            changed[place] ^= 1 << rng.randrange(8)
        elif kind == 1 and place < len(changed):
            changed[place] = rng.randrange(256)
        elif kind == 2:
            size = rng.choice((1, 2, 4, 8))
            word = (rng.choice(numbers) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
            changed[place : place + size] = word
        elif kind == 3:
            del changed[place : place + rng.choice((1, 2, 8, 100, 10_000))]
        elif kind == 4:
            start = rng.randrange(len(data))
            changed[place:place] = data[start : start + rng.choice((1, 4, 16, 64))]
        else:
            changed[place:place] = str(rng.choice(numbers)).encode() * rng.choice((1, 1, 50))
        if not changed:
            changed = bytearray(b"x")
    return bytes(changed)


def _replaced(parsed: Any, rng: random.Random) -> bytes:
    made = json.loads(json.dumps(parsed))
    for _ in range(rng.choice((1, 1, 2))):
        node: Any = made
        while True:
            keys = list(node) if isinstance(node, dict) else list(range(len(node)))
            if not keys:
                break
            key = rng.choice(keys)
            if isinstance(node[key], dict | list) and node[key] and rng.random() < 0.8:
                node = node[key]
                continue
            kind = rng.randrange(5)
            if kind == 0 and isinstance(node, dict):
                node[rng.choice(("x", "__class__", "format", "task", "../x"))] = node.pop(key)
            elif kind == 1:
                del node[key]
            elif kind == 2 and isinstance(node[key], int | float) and not isinstance(node[key], bool):
                node[key] = rng.choice((-node[key], node[key] * 1e9, node[key] + 1, str(node[key])))
            else:
                node[key] = rng.choice(HOSTILE)
            break
    text = json.dumps(made)
    return (
        text.replace(":", rng.choice((': NaN, "x":', ': 1e999, "y":')), 1) if rng.random() < 0.05 else text
    ).encode()


# What may happen while a file is read.

_watched: list[str] | None = None
_FORBIDDEN = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "socket.connect")
_FORBIDDEN += (
    "socket.getaddrinfo",
    "os.remove",
    "os.rename",
    "os.mkdir",
    "shutil.rmtree",
    "pickle.find_class",
)


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _watched is None:
        return
    if event in _FORBIDDEN:
        _watched.append(f"{event} {arguments[:1]}")
    elif event == "open" and isinstance(arguments[0], str) and any(c in str(arguments[1]) for c in "wax+"):
        _watched.append(f"open {arguments[:2]}")


sys.addaudithook(_audit)


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """Lets what is within take neither much time nor much memory, and run, write and send nothing."""
    global _watched

    def late(*_: object) -> None:
        raise AssertionError(f"reading takes more than {SECONDS} CPU seconds")

    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limit = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGVTALRM, late)
    _watched = []
    resource.setrlimit(resource.RLIMIT_AS, (used + HEADROOM, limit[1]))
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, limit)
        signal.signal(signal.SIGVTALRM, before)
        seen, _watched = _watched, None
    assert not seen, seen


def survives(read: Callable[[], object]) -> bool:
    """Reads; returns whether that worked. Any error but the project's own, or more than a line, fails."""
    with bounded():
        try:
            read()
        except InterpBenchError as error:
            said = str(error)
            assert said.isprintable() and len(said) < 1000, said
            return False
    return True


@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.fuzz)])
@pytest.mark.parametrize("name", sorted(KINDS))
def test_damaged_files(name: str, tmp_path: Path, count: int) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    kind = KINDS[name](folder)
    whole = kind.path.read_bytes()
    kind.read()  # what is imported late is imported
    refused = 0
    for data in mutations(whole, name, count):
        kind.write(data)
        refused += not survives(kind.read)
    kind.write(whole)
    assert survives(kind.read) and 0 < refused


def test_there_are_ten_thousand_of_them() -> None:
    assert len(KINDS) * MANY >= 10_000
