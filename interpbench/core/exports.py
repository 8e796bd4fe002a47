"""Public names of a package that are imported on first use, so that importing the package takes no time."""

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

Lookup = tuple[Callable[[str], Any], Callable[[], list[str]]]
UNKNOWN_VERSION = "unknown"


def exports(package: str, places: Mapping[str, str]) -> Lookup:
    """Returns the `__getattr__` and the `__dir__` of a package.

    Args:
        package: its name.
        places: public name to the module that has it; a module that has its own name is itself what is meant.
    """

    def find(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}; it has {', '.join(places)}")
        module = import_module(places[name])
        return module if places[name] == f"{package}.{name}" else getattr(module, name)

    return find, lambda: sorted(places)


def version_of(package: str) -> str:
    """Returns the version of an installed package, and of one that runs from its sources, `unknown`."""
    try:
        return version(package)
    except PackageNotFoundError:
        return UNKNOWN_VERSION
