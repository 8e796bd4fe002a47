"""What a user registers in a file of their own: `path/to/file.py:name` or `package.module:name`.

Only what a user asks for on a command line or in a call is ever imported; a record never names a file.
"""

import importlib
import importlib.util
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from interpbench.core.errors import InterpBenchError, UnknownNameError, did_you_mean
from interpbench.core.files import sha256
from interpbench.core.registry import Registry

T = TypeVar("T")

_sources: dict[str, str] = {}


def is_own(text: str) -> bool:
    """Returns whether `text` can only mean a file or module of the user's own."""
    return text.endswith(".py") or ":" in text


def own_name(
    text: str, registry: Registry[T], module_of: Callable[[T], str], error: type[InterpBenchError]
) -> str:
    """Imports a user's file or module, once, and returns the registered name that is meant.

    Args:
        text: the file or module and, after a colon, the name; it may be left out if there is only one.
        registry: where the file registers what it declares.
        module_of: the name of the module that a registered value was declared in.
        error: what to raise.

    Raises:
        UnknownNameError: for a name that the file does not declare.
        InterpBenchError: `error`, if the file cannot be imported, or declares none, or several.
    """
    place, _, wanted = text.partition(":")
    try:
        module = _import(str(Path(place).resolve()) if place.endswith(".py") else place)
    except InterpBenchError as problem:
        raise error(str(problem)) from problem.__cause__
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
    """Returns the SHA-256 of a user's file as it was imported, by its module's name; None for any other."""
    return _sources.get(module)


@cache
def _import(place: str) -> str:
    """Imports a user's file or module, once, and returns the module's name."""
    path = Path(place)
    is_file = path.suffix == ".py"
    if is_file and not path.is_file():
        files = [file.name for file in path.parent.glob("*.py")]
        raise InterpBenchError(f"there is no file {place}{did_you_mean(path.name, files)}")
    folder = str(path.parent if is_file else Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        module = _execute(path) if is_file else importlib.import_module(place)
    except Exception as problem:
        raise InterpBenchError(f"cannot import {place}: {type(problem).__name__}: {problem}") from problem
    for name, part in tuple(sys.modules.items()):
        if f"{name}.".startswith(f"{module.__name__}.") and part.__file__:
            _sources[name] = sha256(Path(part.__file__).read_bytes())
    return module.__name__


def _execute(path: Path) -> ModuleType:
    """Runs a file as a module, whose name tells files of one name in several folders apart."""
    name = f"own_{sha256(str(path).encode())[:8]}.{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
