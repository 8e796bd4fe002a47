"""Files: bounded reads, atomic writes, hashes, JSON."""

import contextlib
import hashlib
import json
import os
import socket
import stat
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from pydantic import JsonValue

from interpbench.core.errors import InterpBenchError
from interpbench.core.text import shown

MOST_JSON, MOST_RECORD, MOST_SCORES = 1 << 24, 1 << 21, 3 << 21
"""The largest files that are read, in bytes: any JSON, a record or an index, scores."""


def write_bytes(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Writes a file so that it is there whole or not at all; a device or a pipe is written to.

    What a process that was killed left half written in the place of this file is removed.

    Args:
        path: the file; folders above it are made.
        data: what it holds.
        mode: its permissions, of which the process's umask takes some away.

    Raises:
        InterpBenchError: if it cannot be written; nothing is left behind then.
    """
    try:
        target = path.resolve() if path.is_symlink() else path  # the link stays
        if target.exists() and not target.is_file():
            if target.is_dir():
                raise InterpBenchError(f"cannot write {path}: it is a folder")
            with target.open("wb") as device:
                device.write(data)
            return
        _replace(target, data, mode)
    except (OSError, RuntimeError, ValueError) as error:  # a loop of links; a name with a null character
        raise InterpBenchError(f"cannot write {path}: {reason(error)}") from error


def _replace(path: Path, data: bytes, mode: int) -> None:
    temporary = path.with_name(f"{_partial(path)}{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        opened = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with open(opened, "wb") as file:  # noqa: PTH123  a descriptor, not a path
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    _remove_abandoned(path)


def _partial(path: Path) -> str:
    """Returns how the names of unfinished files begin that processes of this host write for `path`."""
    return f".{path.name}.{socket.gethostname()}."


def _remove_abandoned(path: Path) -> None:
    """Removes unfinished files that processes of this host which are no more have left for `path`."""
    begin = _partial(path)
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(path.parent)):
            number = entry.name.removeprefix(begin).removesuffix(".partial")
            if entry.name.startswith(begin) and number.isdigit() and not _alive(int(number)):
                Path(entry.path).unlink(missing_ok=True)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True  # another user's
    return True


@contextlib.contextmanager
def locked(folder: Path, wait: bool = False) -> Generator[None]:
    """Keeps a folder to one process while the context lasts; the lock of a process that dies is gone.

    Args:
        folder: it is made if it is not there; unfinished files that a killed process left are removed.
        wait: wait until another process is done with it.

    Raises:
        InterpBenchError: if another process has it, or it cannot be made.
    """
    lock = FileLock(folder / ".lock", timeout=-1 if wait else 0)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
        for unfinished in folder.glob(".*.partial"):
            unfinished.unlink(missing_ok=True)
    except Timeout:
        raise InterpBenchError(f"{folder} is in use by another run; wait for it, or stop it") from None
    except (OSError, ValueError) as error:
        raise InterpBenchError(f"cannot write {folder}: {reason(error)}") from None
    try:
        yield
    finally:
        lock.release()


def check_writable(folder: Path) -> None:
    """Makes a folder, so that what cannot be written is said before the work and not after it.

    Raises:
        InterpBenchError: if it cannot be made or written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise InterpBenchError(f"cannot write {folder}: it is no folder") from None
    except (OSError, ValueError) as error:
        raise InterpBenchError(f"cannot write {folder}: {reason(error)}") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InterpBenchError(f"cannot write {folder}: Permission denied")


def check_file(path: Path) -> None:
    """Makes the folder of a file that is to be written.

    Raises:
        InterpBenchError: if it cannot be written there.
    """
    try:
        if not path.name or path.is_dir():
            raise InterpBenchError(f"cannot write {shown(path)}: it is a folder")
        os.lstat(path)
    except FileNotFoundError:
        check_writable(path.parent)
    except (OSError, ValueError) as error:
        raise InterpBenchError(f"cannot write {shown(path)}: {reason(error)}") from None


def write_json(path: Path, value: object) -> None:
    """Writes JSON, indented, keys in the order given, non-finite numbers refused."""
    write_bytes(path, (json.dumps(value, indent=1, allow_nan=False) + "\n").encode())


def write_text(path: Path, text: str) -> None:
    """Writes text atomically."""
    write_bytes(path, text.encode())


def read_bytes(path: Path, most: int, error: type[InterpBenchError] = InterpBenchError) -> bytes:
    """Reads a file whole, if it is a regular one of at most `most` bytes.

    Raises:
        InterpBenchError: `error`, in one line, if it is not, or cannot be read; nothing large is read before.
    """
    try:
        opened = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # a pipe does not block
        with open(opened, "rb") as file:  # noqa: PTH123  a descriptor, not a path
            status = os.fstat(opened)
            if not stat.S_ISREG(status.st_mode):
                raise error(f"cannot read {path}: it is no regular file")
            if status.st_size > most:
                raise error(f"{path} has {status.st_size:,} bytes; at most {most:,} are read")
            return file.read(status.st_size)
    except (OSError, ValueError) as problem:
        if isinstance(problem, FileNotFoundError):
            raise error(f"{path} does not exist") from None
        raise error(f"cannot read {path}: {reason(problem)}") from None


def read_json(path: Path, error: type[InterpBenchError] = InterpBenchError, most: int = MOST_JSON) -> Any:
    """Reads JSON of at most `most` bytes; anything unreadable becomes one line naming the file.

    Raises:
        InterpBenchError: `error`, for what `read_bytes` and `parse_json` refuse.
    """
    data = read_bytes(path, most, error)
    try:
        return parse_json(data)
    except ValueError as problem:
        said = f": it {problem}" if isinstance(problem, JsonError) else ": damaged or not one of ours"
        raise error(f"{path} is not readable JSON{said}") from None


class JsonError(ValueError):
    """What is wrong with JSON that can be parsed, to be said after `it`."""


def parse_json(data: bytes | str, constants: bool = False) -> JsonValue:
    """Parses JSON in UTF-8, in which no object has a key twice.

    Args:
        data: the text.
        constants: whether NaN and infinity, which JSON does not have, are read all the same.

    Raises:
        JsonError: for a key that comes twice, or a number that is not finite.
        ValueError: for anything else that is not JSON.
    """

    def refuse(constant: str) -> float:
        raise JsonError(f"holds {constant}")

    def number(text: str) -> float:
        value = float(text)
        return value if value not in (float("inf"), float("-inf")) else refuse(text[:20])

    try:
        text = data if isinstance(data, str) else data.decode()
        if constants:
            return json.loads(text, object_pairs_hook=_object)
        return json.loads(text, object_pairs_hook=_object, parse_constant=refuse, parse_float=number)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _object(items: Sequence[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    made = dict(items)
    if len(made) < len(items):
        seen = set[str]()
        for name, _ in items:
            if name in seen:
                raise JsonError(f"names {shown(name)!r} twice")
            seen.add(name)
    return made


def reason(error: BaseException) -> str:
    """Returns why a file operation failed, without the file's name."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


def sha256(data: bytes) -> str:
    """Returns the hexadecimal SHA-256 of `data`."""
    return hashlib.sha256(data).hexdigest()
