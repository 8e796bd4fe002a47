"""Files: atomic writes, hashes, JSON."""

import contextlib
import hashlib
import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from interpbench.core.errors import InterpBenchError


def write_bytes(path: Path, data: bytes) -> None:
    """Writes a file so that it is there whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise InterpBenchError(f"cannot write {path}: {error.strerror}") from error


@contextlib.contextmanager
def locked(folder: Path) -> Generator[None]:
    """Keeps a folder to one process while the context lasts; the lock of a process that dies is gone.

    Raises:
        InterpBenchError: if another process has it, or it cannot be made.
    """
    lock = FileLock(folder / ".lock", timeout=0)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise InterpBenchError(f"{folder} is in use by another run; wait for it, or stop it") from None
    except OSError as error:
        raise InterpBenchError(f"cannot write {folder}: {error.strerror}") from None
    try:
        yield
    finally:
        lock.release()


def write_json(path: Path, value: Any) -> None:
    """Writes JSON, indented, keys in the order given, non-finite numbers refused."""
    write_bytes(path, (json.dumps(value, indent=1, allow_nan=False) + "\n").encode())


def write_text(path: Path, text: str) -> None:
    """Writes text atomically."""
    write_bytes(path, text.encode())


def read_json(path: Path, error: type[InterpBenchError] = InterpBenchError) -> Any:
    """Reads JSON; anything unreadable becomes one line naming the file."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        raise error(f"{path} does not exist") from None
    except OSError as problem:
        raise error(f"cannot read {path}: {problem.strerror}") from None
    except (ValueError, RecursionError):
        raise error(f"{path} is not readable JSON: damaged or not one of ours") from None


def sha256(data: bytes) -> str:
    """Returns the hexadecimal SHA-256 of `data`."""
    return hashlib.sha256(data).hexdigest()
