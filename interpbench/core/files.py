"""Reads files of bounded size, writes files atomically, locks folders, and parses JSON strictly."""

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
"""The sizes of the largest files that are read, in bytes: of JSON in general, of records, and of scores."""


def write_bytes(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Writes a file atomically: it is replaced as a whole, or not at all.

    A device or a pipe is written to directly. Temporary files that killed processes have left for this file
    are removed.

    Args:
        path: the file; folders above it are made.
        data: the contents of the file.
        mode: the permissions of the file, less those in the umask.

    Raises:
        InterpBenchError: if the file cannot be written; no temporary file is left.
    """
    try:
        target = path.resolve() if path.is_symlink() else path  # a link is kept, and its target replaced
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
    """Returns the prefix of the names of temporary files that processes of this host write for `path`."""
    return f".{path.name}.{socket.gethostname()}."


def _remove_abandoned(path: Path) -> None:
    """Removes the temporary files for `path` whose processes, on this host, no longer run."""
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
        return True  # the process of another user
    return True


@contextlib.contextmanager
def locked(folder: Path, wait: bool = False) -> Generator[None]:
    """Returns a context in which no other process can lock a folder; the lock ends with the process.

    Args:
        folder: the folder, which is made if it does not exist. Temporary files that a killed process left in
            it are removed.
        wait: whether to wait while another process has locked it.

    Raises:
        InterpBenchError: if another process has locked it, or it cannot be made.
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
    """Makes a folder and checks that it can be written to, before the work whose results it is for.

    Raises:
        InterpBenchError: if it cannot be made or written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise InterpBenchError(f"cannot write {folder}: it is not a folder") from None
    except (OSError, ValueError) as error:
        raise InterpBenchError(f"cannot write {folder}: {reason(error)}") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InterpBenchError(f"cannot write {folder}: Permission denied")


def check_file(path: Path) -> None:
    """Makes the folder of a file and checks that the file can be written, before the work it is for.

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
    """Writes plain data as indented JSON, with keys in their order; NaN and infinity raise ValueError."""
    write_bytes(path, (json.dumps(value, indent=1, allow_nan=False) + "\n").encode())


def write_text(path: Path, text: str) -> None:
    """Writes a text file atomically, in UTF-8."""
    write_bytes(path, text.encode())


def read_bytes(path: Path, most: int, error: type[InterpBenchError] = InterpBenchError) -> bytes:
    """Returns the contents of a file, after checking that it is a regular file and not too large.

    Args:
        path: the file.
        most: the largest size, in bytes.
        error: the class of the exception to raise.

    Raises:
        InterpBenchError: `error`, if the file cannot be read, is not a regular file, or is too large.
    """
    try:
        opened = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # a pipe does not block
        with open(opened, "rb") as file:  # noqa: PTH123  a descriptor, not a path
            status = os.fstat(opened)
            if not stat.S_ISREG(status.st_mode):
                raise error(f"cannot read {path}: it is not a regular file")
            if status.st_size > most:
                raise error(f"{path} has {status.st_size:,} bytes; at most {most:,} are read")
            return file.read(status.st_size)
    except (OSError, ValueError) as problem:
        if isinstance(problem, FileNotFoundError):
            raise error(f"{path} does not exist") from None
        raise error(f"cannot read {path}: {reason(problem)}") from None


def read_json(path: Path, error: type[InterpBenchError] = InterpBenchError, most: int = MOST_JSON) -> Any:
    """Returns the plain data in a file of JSON, as `parse_json` reads it.

    Args:
        path: the file.
        error: the class of the exception to raise.
        most: the largest size of the file, in bytes.

    Raises:
        InterpBenchError: `error`, if the file cannot be read, is too large, or is not JSON.
    """
    data = read_bytes(path, most, error)
    try:
        return parse_json(data)
    except ValueError as problem:
        said = str(problem) if isinstance(problem, JsonError) else "it is damaged, or of another kind"
        raise error(f"{path} is not readable JSON: {said}") from None


class JsonError(ValueError):
    """JSON has a key twice in one object, or a number that is not finite."""


def parse_json(data: bytes | str, constants: bool = False) -> JsonValue:
    """Parses JSON in UTF-8; a key twice in one object is an error.

    Args:
        data: the JSON.
        constants: whether NaN and Infinity, which are not JSON, are allowed.

    Raises:
        JsonError: if an object has a key twice, or a number is not finite.
        ValueError: if `data` is not JSON for any other reason.
    """

    def refuse(constant: str) -> float:
        raise JsonError(f"the file holds {constant}, which is not a finite number")

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
                raise JsonError(f"the file names {shown(name)!r} twice")
            seen.add(name)
    return made


def reason(error: BaseException) -> str:
    """Returns the reason for which a file operation failed, without the file's name."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


def sha256(data: bytes) -> str:
    """Returns the hexadecimal SHA-256 of `data`."""
    return hashlib.sha256(data).hexdigest()
