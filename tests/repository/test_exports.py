"""The public names of packages: listed, found on first use, and importing no more than they need."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests import ROOT

LAZY = [
    path.parent
    for path in sorted((ROOT / "interpbench").glob("*/__init__.py"))
    if "exports(\n" in path.read_text()
]
"""The packages whose names are imported on first use."""


def imports_for_type_checkers(source: str) -> dict[str, str]:
    """Returns the names that a module imports under `if TYPE_CHECKING:`, each with the module it is from."""
    guarded = [node for node in ast.parse(source).body if isinstance(node, ast.If)]
    imports = [node for guard in guarded for node in guard.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module or "" for node in imports for alias in node.names}


@pytest.mark.parametrize("folder", LAZY, ids=lambda folder: folder.name)
def test_every_public_name_is_listed_and_found(folder: Path) -> None:
    package = import_module(f"interpbench.{folder.name}")
    names = imports_for_type_checkers((folder / "__init__.py").read_text())
    assert sorted(package.__all__) == sorted(names) == dir(package)
    for name, module in names.items():
        assert getattr(package, name) is getattr(import_module(module), name)
        # a module of this name would take the name's place as soon as it is imported
        assert not (folder / f"{name}.py").exists() and not (folder / name).exists()


@pytest.mark.parametrize("folder", LAZY, ids=lambda folder: folder.name)
def test_another_name_is_refused_as_python_does(folder: Path) -> None:
    package = import_module(f"interpbench.{folder.name}")
    with pytest.raises(AttributeError, match=f"'interpbench.{folder.name}' has no attribute 'nothing'"):
        _ = package.nothing


def test_a_name_that_needs_no_torch_imports_none() -> None:
    program = (
        "import sys; from interpbench.circuits import Graph; from interpbench.core import Estimate; "
        "from interpbench.scoring import EvaluationRecord; assert not {'torch', 'scipy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)
