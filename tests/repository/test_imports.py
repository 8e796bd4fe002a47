"""Importing the package, any module of it, changes nothing in the process; commands do that when they run."""

import importlib
import json
import subprocess
import sys
import tomllib

import pytest

import interpbench
from tests import ROOT

MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted((ROOT / "interpbench").rglob("*.py"))
]
LIBRARIES = """
import importlib, json, sys
for name in json.load(sys.stdin):
    importlib.import_module(name)
print(json.dumps([name for name in sys.modules if name.partition(".")[0] not in ("interpbench", "__main__")]))
"""
EFFECTS = """
import contextlib, ctypes, importlib, json, locale, logging, os, random, signal, sys, threading, warnings

import matplotlib, numpy as np, torch

libraries, modules, more = json.load(sys.stdin)
for name in libraries:
    with contextlib.suppress(ImportError, AttributeError):  # made by another module, under a name of its own
        importlib.import_module(name)


def logs():
    loggers = [logging.root, *(v for v in logging.root.manager.loggerDict.values() if hasattr(v, "handlers"))]
    return {
        one.name: (one.level, one.propagate, one.disabled, list(map(repr, one.handlers)))
        for one in loggers
        if one.level or one.handlers or one.disabled or not one.propagate
    }


def state():
    mask = os.umask(0o22)
    os.umask(mask)
    return {
        "torch's threads": (torch.get_num_threads(), torch.get_num_interop_threads()),
        "denormal numbers": float(torch.tensor([1e-40]).mul(1)[0]) > 0,
        "torch's defaults": (torch.get_default_dtype(), torch.get_default_device(), torch.is_grad_enabled()),
        "torch's precision": torch.get_float32_matmul_precision(),
        "torch's determinism": torch.are_deterministic_algorithms_enabled(),
        "torch's generator": torch.get_rng_state().tolist(),
        "numpy's errors and generator": (np.geterr(), repr(np.random.get_state())),
        "generator": hash(random.getstate()),
        "filters of warnings": list(warnings.filters),
        "logging": (logs(), logging.root.manager.disable, logging.raiseExceptions),
        "sys.path": (list(sys.path), list(map(repr, sys.meta_path))),
        "sys.argv": list(sys.argv),
        "hooks": (sys.excepthook, sys.displayhook, threading.excepthook),
        "streams": (sys.stdout, sys.stderr, sys.stdin),
        "recursion": sys.getrecursionlimit(),
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "umask": mask,
        "locale": locale.setlocale(locale.LC_ALL),
        "signals": [str(signal.getsignal(number)) for number in signal.valid_signals()],
        "threads": threading.active_count(),
        "matplotlib": (dict(matplotlib.rcParams), matplotlib.get_backend(auto_select=False)),
    }


looked_up = []
sys.addaudithook(lambda event, values: looked_up.append(str(values[1])) if event == "ctypes.dlsym" else None)
before = state()
for name in modules:
    importlib.import_module(name)
exec(more)
after = state()
changed = [what for what in before if before[what] != after[what]]
print(json.dumps(changed + [name for name in looked_up if "mall" in name]))
"""

CHANGES = """
from interpbench.core.process import prepare_torch
from interpbench.runs.entry import configure_logging

prepare_torch(7)
configure_logging()
warnings.simplefilter("ignore")
sys.path.append("x")
os.environ["X"] = "1"
random.random(), np.random.rand(), torch.rand(1)
"""


def run(program: str, given: object) -> object:
    done = subprocess.run(
        [sys.executable, "-c", program], input=json.dumps(given), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def libraries() -> object:
    """The modules of libraries that importing the package imports, in their order."""
    return run(LIBRARIES, MODULES)


def test_importing_any_module_changes_nothing_in_the_process(libraries: list[str]) -> None:
    """What libraries change when they are imported is not ours: they are imported before."""
    assert run(EFFECTS, [libraries, MODULES, ""]) == []


def test_what_takes_long_and_few_need_is_imported_where_it_is_used(libraries: list[str]) -> None:
    assert {"statsmodels", "wandb", "transformer_lens", "huggingface_hub"}.isdisjoint(libraries)


def test_such_effects_are_found() -> None:
    found = run(EFFECTS, [[], [], CHANGES])
    assert found == [
        *("torch's threads", "denormal numbers", "torch's generator", "numpy's errors and generator"),
        *("generator", "filters of warnings", "logging", "sys.path", "environment", "mallopt"),
    ]


PUBLIC = """
import interpbench, json, sys
from interpbench import checkpoints, scoring, transformer
heavy = [name for name in ("torch", "jax", "rich", "scipy") if name in sys.modules]
print(json.dumps([dir(interpbench), heavy]))
"""


def test_public_names_are_listed_before_anything_is_imported_for_them() -> None:
    """So that completion in a notebook shows them."""
    names, heavy = run(PUBLIC, None)  # type: ignore[misc]
    assert names == sorted(interpbench.__all__) and heavy == []
    assert {"load", "discover", "compare", "tasks", "Truth", "__version__"} <= set(names)


@pytest.mark.parametrize("package", ["", ".checkpoints", ".circuits", ".causal", ".scoring", ".transformer"])
def test_every_public_name_is_there(package: str) -> None:
    module = importlib.import_module(f"interpbench{package}")
    assert set(module.__all__) <= set(dir(module)) and all(hasattr(module, name) for name in module.__all__)
    assert not hasattr(module, "no_such_name")


def test_the_version_is_that_of_the_project() -> None:
    said = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert interpbench.__version__ == said
    assert (ROOT / "interpbench" / "py.typed").read_bytes() == b""
