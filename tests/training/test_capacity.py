"""What single nodes can compute: the widths that a program needs, and a node that is too narrow for it."""

import numpy as np
import pytest
import torch

from interpbench.alignment.alignment import align
from interpbench.circuits.naming import parse_node
from interpbench.runs.cli import main
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.model_settings import ModelSettings
from interpbench.tasks.shapes import shape
from interpbench.training.capacity import _Alone, capacities


def shares(name: str, steps: int, **widths: int) -> dict[str, float]:
    task = get_task(name)
    cfg = shape(task, ModelSettings(**widths))
    found = capacities(align(task, cfg.graph), cfg, steps)
    return {variable: share for one in found for variable, share in one.right.items()}


def test_a_head_needs_the_dimensions_of_what_it_selects() -> None:
    """Eleven tokens, each attending evenly to the ten others: a table of rank 11, ten keys of a query."""
    task = get_task("all_equal")
    assert task.causal_model.variables["others_head"].head_dimensions == 10
    assert shape(task).d_head == 16
    narrow, own = (_first("all_equal", width)["others_head"] for width in (4, None))
    assert narrow < 0.7 < 0.99 < own, (narrow, own)


@pytest.mark.parametrize(("name", "apart"), [("all_equal", True), ("ioi", False)])
def test_queries_and_keys_are_drawn_apart_where_the_program_says_which_reads_what(
    name: str, apart: bool
) -> None:
    task = get_task(name)
    cfg = shape(task)
    alignment = align(task, cfg.graph)
    head = next(node for node in alignment.aligned_nodes if node.head is not None)
    alone = _Alone(alignment, cfg, head, 0)
    drawn = alone.draw(np.random.default_rng(0), 64, held_out=False).parents
    same = [torch.equal(drawn["q", parent], drawn["k", parent]) for parent in alone.parents]
    assert same and not any(same) if apart else all(same)


def _first(name: str, d_head: int | None) -> dict[str, float]:
    task = get_task(name)
    cfg = shape(task, ModelSettings(d_head=d_head))
    return dict(next(capacities(align(task, cfg.graph), cfg, 400)).right)


@pytest.mark.parametrize("name", ["frac_prevs", pytest.param("induction", marks=pytest.mark.exhaustive)])
def test_every_node_of_the_default_network_holds_its_variable(name: str) -> None:
    found = shares(name, 400)
    assert set(found) == {
        variable for variable, node in get_task(name).default_alignment.items() if node != parse_node("embed")
    }
    assert min(found.values()) > 0.95, found


def test_the_same_seed_gives_the_same_bits() -> None:
    torch.set_num_threads(1)
    assert shares("frac_prevs", 20) == shares("frac_prevs", 20)


def test_the_command_says_which_node_is_too_narrow(monkeypatch, capsys) -> None:
    monkeypatch.setattr("sys.argv", ["interpbench", "capacity", "all_equal", "--steps", "5"])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr().out
    assert ended.value.code == 1 and "not learned in 5 steps" in said and "--steps 10, --d-head 32" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["histt"], "unknown task 'histt'; did you mean hist"),
        (["hist", "--d-head", "0"], "d_head: input should be greater than or equal to 1 (got 0)"),
        (["hist", "--steps", "0"], "--steps 0: 1 to 1,000,000 are possible"),
        (["hist", "--steps", "99999999"], "--steps 99999999: 1 to 1,000,000 are possible"),
    ],
)
def test_wrong_arguments_are_one_line(monkeypatch, capsys, arguments: list[str], said: str) -> None:
    monkeypatch.setattr("sys.argv", ["interpbench", "capacity", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    errors = capsys.readouterr().err
    assert ended.value.code == 2 and said in errors and len(errors.splitlines()) == 1
