"""Public names of packages, which are imported on first use, so that importing a package takes no time."""

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

Lookup = tuple[Callable[[str], Any], Callable[[], list[str]]]
"""The type of a package's functions `__getattr__` and `__dir__`."""
UNKNOWN_VERSION = "unknown"
"""The version of a package that is not installed."""


def exports(package: str, places: Mapping[str, str]) -> Lookup:
    """Returns the functions `__getattr__` and `__dir__` of a package.

    Args:
        package: the name of the package.
        places: the module that defines each public name; for a public module, that module itself.
    """

    def find(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}; it has {', '.join(places)}")
        module = import_module(places[name])
        return module if places[name] == f"{package}.{name}" else getattr(module, name)

    return find, lambda: sorted(places)


def version_of(package: str) -> str:
    """Returns the version of a package; `unknown` if it is not installed and runs from its sources."""
    try:
        return version(package)
    except PackageNotFoundError:
        return UNKNOWN_VERSION
