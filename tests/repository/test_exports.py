"""The public names of packages: listed, found on first use, and importing no more than they need."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from interpbench.core.exports import public_names
from tests import ROOT

LAZY = [
    path.parent
    for path in sorted((ROOT / "interpbench").glob("*/__init__.py"))
    if "exports(__name__, __file__)" in path.read_text()
]


@pytest.mark.parametrize("folder", LAZY, ids=lambda folder: folder.name)
def test_every_public_name_is_listed_and_found(folder: Path) -> None:
    package = import_module(f"interpbench.{folder.name}")
    assert package.__all__ and dir(package) == sorted(package.__all__)
    for name, module in public_names((folder / "__init__.py").read_text()):
        assert getattr(package, name) is getattr(import_module(module), name)
        assert not (folder / f"{name}.py").exists() and not (folder / name).exists()


@pytest.mark.parametrize("folder", LAZY, ids=lambda folder: folder.name)
def test_another_name_is_refused_as_python_does(folder: Path) -> None:
    package = import_module(f"interpbench.{folder.name}")
    with pytest.raises(
        AttributeError, match=f"module 'interpbench.{folder.name}' has no attribute 'nothing'"
    ):
        _ = package.nothing
    assert not hasattr(package, "_nothing")


def test_a_name_that_needs_no_torch_imports_none() -> None:
    program = (
        "import sys; from interpbench.circuits import Graph; from interpbench.core import Estimate; "
        "from interpbench.scoring import EvaluationRecord; assert not {'torch', 'scipy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)
