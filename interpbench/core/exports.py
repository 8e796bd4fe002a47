"""Public names of a package, whose modules are imported when a name is used for the first time.

So `from interpbench.scoring import EvaluationRecord` imports neither torch nor scipy, which other names need.
The package imports its public names under `if TYPE_CHECKING:`, for editors and type checkers; the module of
each name is read from these lines, as in SPEC 1 of Scientific Python. No public name may be the name of a
module, because Python puts the modules of a package into it under their names.
"""

import ast
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any


def exports(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns the functions `__getattr__` and `__dir__` of a package, given its `__name__` and `__file__`."""

    @cache
    def modules() -> dict[str, str]:
        return dict(public_names(Path(file).read_text(encoding="utf-8")))

    def get(name: str) -> Any:
        if name.startswith("_") or name not in modules():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(modules()[name]), name)

    return get, lambda: sorted(modules())


def public_names(source: str) -> list[tuple[str, str]]:
    """Returns the names that a module imports under `if TYPE_CHECKING:`, each with the module it is from."""
    guarded = [node for node in ast.parse(source).body if isinstance(node, ast.If)]
    imports = [node for guard in guarded for node in guard.body if isinstance(node, ast.ImportFrom)]
    return [(alias.name, node.module or "") for node in imports for alias in node.names]
