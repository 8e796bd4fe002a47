"""`docs/methods.md` and `interpbench methods`: complete, and true of the tests and tools named."""

import io
import re

import pytest
from rich.console import Console

from benchmarks.compare_published import TOOLS
from interpbench.discovery.known_methods import known_methods
from interpbench.discovery.method import methods
from interpbench.runs.methods import COLUMNS, list_methods
from tests import ROOT

OURS = [name for name, made in methods().items() if made.__module__.startswith("interpbench.")]


@pytest.mark.parametrize("name", OURS)
def test_every_method_says_where_it_comes_from_and_what_compares_it(name: str) -> None:
    about = methods()[name].record
    assert all([about.source, about.code, about.looks_at, about.units, about.deviations, about.test])
    for path in re.findall(r"tests/[\w/]+\.py", about.test):
        assert (ROOT / path).is_file(), path
    assert set(re.findall(r"--tools (\w+)", about.test)) <= set(TOOLS)
    for module in re.findall(r"benchmarks\.(\w+)", about.test):
        assert (ROOT / "benchmarks" / f"{module}.py").is_file(), module
    trains = "constants_rate" in known_methods()[name].settings
    assert trains == (about.authors_steps is not None), "a method that trains says its authors' steps"


def test_the_command_prints_what_the_page_says() -> None:
    console = Console(width=4000, record=True, file=io.StringIO())
    list_methods(console)
    printed = re.sub(r"[│\s]+", " ", console.export_text())
    for name, known in known_methods().items():
        assert name in printed
        for key in COLUMNS:
            assert str(getattr(known.record, key)) in printed
