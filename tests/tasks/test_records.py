"""The stored records of tasks and the page made of them are current; the catalogue's table filters."""

import io
import re
from dataclasses import asdict
from pathlib import Path

import pytest
from rich.console import Console

from interpbench.circuits.grades import GRADES
from interpbench.core.errors import ConfigError
from interpbench.runs.measure_tasks import DOCS, describe, record_of, tasks_page
from interpbench.runs.show import show_task, show_tasks
from interpbench.tasks.catalogue import catalogue, get_task
from interpbench.tasks.task_records import records
from tests import ROOT
from tests.builders import some

QUICK = ["frac_prevs", "hist", "word_length", "sort_digits"]


def listed(**filters: object) -> str:
    console = Console(width=165, file=io.StringIO(), record=True)
    show_tasks(console, **filters)  # type: ignore[arg-type]
    return console.export_text()


def assert_current(name: str) -> None:
    stored, measured = asdict(records()[name]), asdict(describe(get_task(name)))
    for key in ("margin", "most_frequent"):
        before, now = stored.pop(key), measured.pop(key)
        assert before == now or before == pytest.approx(now, rel=0.01), "interpbench tasks --write"
    assert stored == measured, "interpbench tasks --write"


def test_every_task_has_a_record_and_no_record_is_left_over() -> None:
    assert set(records()) == set(catalogue()), "interpbench tasks --write"


def test_the_page_is_current() -> None:
    assert (ROOT / DOCS).read_text() == tasks_page(), "interpbench tasks --write"


@pytest.mark.parametrize("name", QUICK)
def test_some_records_are_current(name: str) -> None:
    assert_current(name)


@pytest.mark.parametrize("name", some(sorted(set(catalogue()) - set(QUICK)), 8))
def test_all_records_are_current(name: str) -> None:
    assert_current(name)


def test_records_are_those_of_published_facts() -> None:
    """Trivial tasks say so, duplicates say of what, and every output that can occur does occur."""
    assert record_of(get_task("digit_sum")).trivial is None
    assert "alone computes" in str(record_of(get_task(8)).trivial)
    assert get_task(47).duplicate_of == get_task(78).duplicate_of == get_task(7).name
    assert get_task("ioi_next_token").program_name == get_task("ioi_published_prompts").program_name == "ioi"
    assert all(0 < record.most_frequent < 1 for record in records().values())
    assert all(record.edges[0] >= 2 for record in records().values())


def test_the_table_lists_everything_on_one_line_each() -> None:
    text = listed()
    for task in catalogue().values():
        (line,) = [line for line in text.splitlines() if line.startswith(f" {task.name} ")]
        assert ("trivial" in line) == (records()[task.name].trivial is not None)
    assert any(f"{name}, " in text for name in GRADES[3:]) and f"{len(catalogue())} tasks" in text


def test_filters() -> None:
    text = listed(group="sorting")
    assert "sort_digits" in text and "frac_prevs" not in text
    text = listed(causal=True, min_edges=6)
    assert "paren_balance" in text and "sort_digits" not in text and "frac_prevs" not in text
    with pytest.raises(ConfigError, match="did you mean sorting"):
        listed(group="sortin")


def test_show_draws_the_circuit(tmp_path: Path) -> None:
    console = Console(width=120, file=io.StringIO(), record=True)
    show_task(console, "sort_digits", tmp_path / "circuit.png")
    text = console.export_text()
    for part in ("rank = width(", "10 classes: 0, 1, 2", "logits <- a2.h0", "makes up", "Picture"):
        assert part in text
    assert (tmp_path / "circuit.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("equals_two_back", r"embed->m0 +│ 0\.31 │ 0\.31 │ 0\.00 "),
        ("identity", "no node reads several edges"),
    ],
)
def test_gates_are_shown_on_request(task: str, said: str) -> None:
    console = Console(width=120, file=io.StringIO(), record=True)
    show_task(console, task, gates=True)
    text = console.export_text()
    assert "Gates (shares of" in text and re.search(said, text)
    show_task(console, task)
    assert "Gates" not in console.export_text()


@pytest.mark.parametrize(
    ("task", "said"),
    [("hist", "1 unreached by these inputs: 0"), ("docstring", '27 unreached by these inputs: ", (, ), ,')],
)
def test_unreached_classes_are_named(task: str, said: str) -> None:
    console = Console(width=120, file=io.StringIO(), record=True)
    show_task(console, task)
    assert said in console.export_text()
    (line,) = [line for line in tasks_page().splitlines() if line.startswith(f"| `{task}` ")]
    assert ("1 unreached: `0`" if task == "hist" else "27 unreached |") in line
