"""Imports a user's own code, such as a method, given as `path/to/file.py:name` or `package.module:name`.

A file is imported only if the user names it on a command line or in a call. Records never name a file.
"""

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from interpbench.core.errors import InterpBenchError, UnknownNameError, did_you_mean
from interpbench.core.files import read_bytes, reason, sha256
from interpbench.core.registry import Registry
from interpbench.core.text import shown

T = TypeVar("T")
MOST_SOURCE = 1 << 24
"""The size of the largest source file that is read, in bytes."""
PACKAGE = Path(__file__).parents[1]
"""The folder of this package."""
_sources: dict[str, str] = {}
"""The SHA-256 of the source file of each of the user's modules."""
_places: dict[str, Path] = {}
"""The folder of each of the user's modules, including those that are being imported."""


def is_own(text: str) -> bool:
    """Returns whether `text` names a file or module of the user, rather than a registered name."""
    return text.endswith(".py") or ":" in text


def own_name(
    text: str,
    registry_of: Callable[[], Registry[T]],
    module_of: Callable[[T], str],
    error: type[InterpBenchError],
) -> str:
    """Imports a user's file or module, if not imported yet, and returns a name that it has registered.

    Args:
        text: the file or module, a colon, and the name; the name may be omitted if only one is registered.
        registry_of: returns the registry.
        module_of: returns the name of the module in which a registered value was defined.
        error: the class of the exception to raise.

    Raises:
        UnknownNameError: if the file does not register this name.
        InterpBenchError: `error`, if the file cannot be imported, registers nothing, or registers several
            names and none is given.
    """
    place, _, wanted = text.partition(":")
    if not place:
        raise error(f"{shown(text)!r} names no file; write path/to/file.py:name")
    try:
        module = _import(str(Path(place).resolve()) if place.endswith(".py") else place)
    except InterpBenchError as problem:
        raise error(str(problem)) from problem.__cause__
    registry = registry_of()
    declared = [(name, f"{module_of(value)}.") for name, value in registry.items()]
    names = [name for name, home in declared if home.startswith(f"{module}.")]
    kind = registry.kind
    if wanted and wanted not in names:
        raise UnknownNameError(f"{kind} in {place}", wanted, names)
    if not wanted and len(names) != 1:
        several = f"several {kind}s; say {place}:{' or :'.join(names)}"
        raise error(f"{place} declares {several if names else f'no {kind}; decorate it with @{kind}'}")
    return wanted or names[0]


def own_source(module: str) -> str | None:
    """Returns the SHA-256 of a user's module at its import; None for a module that is not a user's."""
    return _sources.get(module)


def import_own(text: str) -> None:
    """Imports the user's file or module of `path/to/file.py:name`, if it has not been imported.

    Raises:
        InterpBenchError: if there is no such file, or its import fails; the message gives file and line.
    """
    place = text.partition(":")[0]
    if not place:
        raise InterpBenchError(f"{shown(text)!r} names no file; write path/to/file.py:name")
    _import(str(Path(place).resolve()) if place.endswith(".py") else place)


@cache
def _import(place: str) -> str:
    """Imports a user's file or module, and returns the module's name.

    The folder of a file (for a module, the working folder) is added to the search path and stays there, so
    that the file can import others beside it, as with `python file.py`, also in functions that run later.
    """
    path = Path(place)
    is_file = path.suffix == ".py"
    if is_file:
        _check_file(path)
    folder = str(path.parent if is_file else Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)
    _places[_name_of(path) if is_file else place] = Path(folder)
    try:
        module = _execute(path) if is_file else importlib.import_module(place)
    except KeyboardInterrupt:
        raise
    except BaseException as problem:
        raise InterpBenchError(f"cannot import {place}: {blamed(problem) or said(problem)}") from problem
    for name, part in tuple(sys.modules.items()):
        if f"{name}.".startswith(f"{module.__name__}.") and part.__file__:
            _sources[name] = sha256(read_bytes(Path(part.__file__), MOST_SOURCE))
    return module.__name__


def _check_file(path: Path) -> None:
    try:
        if path.is_file():
            return
        files = [file.name for file in path.parent.glob("*.py") if file.is_file()]
    except (OSError, ValueError) as problem:
        raise InterpBenchError(f"there is no file {shown(path)}: {reason(problem)}") from None
    raise InterpBenchError(f"there is no file {shown(path)}{did_you_mean(path.name, files)}")


def _name_of(path: Path) -> str:
    """Returns the name of a file as a module, which differs for files of the same name in other folders."""
    return f"own_{sha256(str(path).encode())[:8]}.{path.stem}"


def _execute(path: Path) -> ModuleType:
    """Imports a file as a module."""
    spec = importlib.util.spec_from_file_location(_name_of(path), path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def blamed(error: BaseException) -> str | None:
    """Returns `file.py:12: ValueError: message` for an exception raised in a user's file; None for others.

    The line is the innermost one of the traceback that is in one of the user's files, or in their folders.
    """
    if isinstance(error, SyntaxError) and error.filename and _is_users("", Path(error.filename)):
        return f"{Path(error.filename).name}:{error.lineno}: {said(error)}"
    frames = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    for frame, line in reversed(frames):
        if _is_users(str(frame.f_globals.get("__name__")), Path(frame.f_code.co_filename)):
            return f"{Path(frame.f_code.co_filename).name}:{line}: {said(error)}"
    return None


def _is_users(module: str, file: Path) -> bool:
    """Returns whether a module is one of the user's, or a file is in the folder of one."""
    if any(f"{module}.".startswith(f"{name}.") for name in _places):
        return True
    return module != "__main__" and file.parent in _places.values() and not file.is_relative_to(PACKAGE)


def own_files() -> list[str]:
    """Returns the names of the user's files and modules that have been imported."""
    return sorted(name.rpartition(".")[2] + (".py" if name.startswith("own_") else "") for name in _places)


def place_of(error: BaseException, leaving_out: str = "") -> str:
    """Returns file and line of this package where an exception was raised, with its message.

    Args:
        error: the exception.
        leaving_out: a file of the package that is passed over.
    """
    trace, place = error.__traceback__, ""
    while trace is not None:
        file = Path(trace.tb_frame.f_code.co_filename)
        if file.is_relative_to(PACKAGE) and str(file) != leaving_out:
            place = f"{file.relative_to(PACKAGE.parent)}:{trace.tb_lineno}: "
        trace = trace.tb_next
    return f"{place}{said(error)}"


def said(error: BaseException) -> str:
    """Returns the type and the message of an exception, as `ValueError: message`."""
    if isinstance(error, SystemExit):
        return f"it calls sys.exit({'' if error.code is None else repr(error.code)})"
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
