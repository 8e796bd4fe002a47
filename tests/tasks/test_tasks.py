"""The contract that every registered task keeps, and the registry.

That program, causal model and compiled network agree is in `test_rasp.py`.
"""

import ast
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tracr.rasp import rasp

import interpbench.tasks.handwritten
import interpbench.tasks.programs
from interpbench.alignment.alignment import Alignment, align
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.circuits.ground_truth import State
from interpbench.circuits.naming import Node
from interpbench.core import seeds
from interpbench.core.errors import TaskError, UnknownNameError
from interpbench.tasks import catalogue as registry
from interpbench.tasks import samplers
from interpbench.tasks.catalogue import catalogue, get_task
from interpbench.tasks.data import draw_pairs
from interpbench.tasks.domain import ENUMERATED_LIMIT, RESAMPLE, Sequences, in_hashed_tenth
from interpbench.tasks.identity import task_sha256
from interpbench.tasks.samplers import mixture
from interpbench.tasks.shapes import shape
from interpbench.tasks.task import RaspTask, Task
from interpbench.tasks.task_records import records
from tests.builders import RASP, some

NAMES = list(catalogue())
DRAWN = 3000


@pytest.fixture(params=some(NAMES, 3))
def task(request: pytest.FixtureRequest) -> Task:
    return get_task(request.param)


@pytest.fixture(params=some(RASP, 3))
def rasp_task(request: pytest.FixtureRequest) -> RaspTask:
    found = get_task(request.param)
    assert isinstance(found, RaspTask)
    return found


def draw(task: Task, count: int = DRAWN, held_out: bool = False, seed: int = 0) -> np.ndarray:
    return task.domain.draw(seeds.generator(seed, "test"), count, held_out)


def aligned(task: Task) -> Alignment:
    return align(task, shape(task).graph)


def rows(tokens: np.ndarray) -> set[tuple[int, ...]]:
    return set(map(tuple, tokens.tolist()))


def declared() -> Iterator[str]:
    """Yields every name that a `@task("…")` in the source registers."""
    for path in Path(interpbench.tasks.programs.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "task":
                if isinstance(node.args[0], ast.Constant):
                    yield node.args[0].value  # type: ignore[misc]


def test_every_task_is_covered() -> None:
    assert list(catalogue()) == NAMES
    assert len(set(declared())) > 0
    assert set(declared()) <= set(NAMES)


def test_task_describes_itself(task: Task) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_]*", task.name)
    assert re.fullmatch(r"[A-Z].{10,}\.", task.description), "a sentence, please, in the docstring"
    assert task.listing()
    folders = [*interpbench.tasks.programs.__path__, *interpbench.tasks.handwritten.__path__]
    assert task.group in {info.name for info in pkgutil.iter_modules(folders)}


def test_published_numbers_reach_their_tasks(task: Task) -> None:
    if task.legacy_id is not None:
        assert get_task(task.legacy_id) is get_task(str(task.legacy_id)) is task
        assert [other.name for other in catalogue().values() if other.legacy_id == task.legacy_id] == [
            task.name
        ]


MOSTLY_ZERO = {"keep_only_second", "last_to_front"}
"""Eight of nine positions are 0 whatever the input."""


def test_no_output_is_nearly_always_the_same(task: Task) -> None:
    outputs = task.causal_model.outputs(draw(task))
    distinct, counts = np.unique(outputs[task.scored(outputs)], return_counts=True)
    assert len(distinct) > 1
    assert counts.max() / counts.sum() < 0.8 or task.name in MOSTLY_ZERO


def test_every_output_that_occurs_is_drawn(task: Task) -> None:
    """Classes that no input reaches are allowed: a value set is that of each step, not of the whole."""

    def drawn(tokens: np.ndarray) -> np.ndarray:
        outputs = task.causal_model.outputs(tokens)
        return np.unique(outputs[task.scored(outputs)])

    everything = task.domain.all() if task.domain.enumerated else draw(task, 20_000, seed=1)
    some, many = drawn(draw(task, 10_000)), drawn(everything)
    if task.causal_model.numerical:  # the whole range of numbers
        np.testing.assert_allclose(some[[0, -1]], many[[0, -1]], atol=0.1 * np.ptp(many))
    else:
        np.testing.assert_array_equal(some, many)


def test_alignment_is_legal_total_and_in_layer_order(task: Task) -> None:
    alignment = aligned(task)
    assert alignment.nodes.keys() == task.causal_model.variables.keys()
    assert set(alignment.nodes.values()) <= set(alignment.graph.nodes)

    def half(node: Node) -> tuple[int, bool]:  # attention, then MLP
        return node.layer, node.head is None

    for name, variable in task.causal_model.variables.items():
        for read in variable.reads:
            assert half(alignment.nodes[read.parent]) < half(alignment.nodes[name])
            assert (read.slot == "mlp") == (alignment.nodes[name].head is None)
    assert [half(node) for node in alignment.aligned_nodes] == sorted(
        half(node) for node in alignment.aligned_nodes
    )
    assert {*alignment.aligned_nodes, *alignment.unaligned_nodes} == set(alignment.graph.nodes[1:])


def test_truth_has_a_required_path(task: Task) -> None:
    truth = find_truth(aligned(task))
    edges = [name.split("->") for name in truth.names("head_edge", State.REQUIRED)]
    reached, frontier = {"embed"}, {"embed"}
    while frontier:
        frontier = {target for source, target in edges if source in frontier} - reached
        reached |= frontier
    assert "logits" in reached
    assert (truth.trivial is None) == (len(reached) > 3)
    assert truth.count("qkv_edge", State.FORBIDDEN) > 0


def test_same_seed_same_data(task: Task) -> None:
    np.testing.assert_array_equal(draw(task), draw(task))
    assert not np.array_equal(draw(task), draw(task, seed=1))
    first, again, other = draw_pairs(task, 32), draw_pairs(task, 32), draw_pairs(task, 32, seed=1)
    assert first.clean.equal(again.clean) and first.corrupted.equal(again.corrupted)
    assert not first.clean.equal(other.clean)


def test_domain_is_as_large_as_it_says(rasp_task: RaspTask) -> None:
    task, domain = rasp_task, rasp_task.domain
    assert isinstance(domain, Sequences)
    assert domain.size == len(task.vocab) ** task.length
    assert domain.enumerated == (domain.size <= ENUMERATED_LIMIT)
    if domain.enumerated:
        numbers, inputs = np.arange(domain.size), domain.all()
    else:
        numbers = np.random.default_rng(0).integers(min(domain.size, 2**63 - 1), size=999)
        inputs = domain.rows(numbers)
    weights = np.array([len(task.vocab) ** place for place in reversed(range(task.length))], object)
    if domain.size < 2**63:
        weights = weights.astype(np.int64)
    np.testing.assert_array_equal(
        inputs.astype(weights.dtype) @ weights, numbers
    )  # so there are no duplicates
    assert inputs.min() == 0 and inputs.max() == len(task.vocab) - 1


def test_inputs_are_codes_and_end_in_none(task: Task) -> None:
    drawn = draw(task)
    assert drawn.shape == (DRAWN, task.length) and drawn.dtype == np.int16
    assert drawn.min() >= -1 and drawn.max() < len(task.vocab)
    there = drawn >= 0
    assert (there[:, :-1] | ~there[:, 1:]).all(), "None only after the end"
    ids = task.token_ids(drawn)
    assert (ids[:, 0] == task.bos).all() and (ids[:, 1:][~there] == task.bos + 1).all()
    np.testing.assert_array_equal(ids[:, 1:][there], drawn[there])
    outputs = task.causal_model.outputs(drawn)
    assert not task.scored(outputs)[~there].any(), "nothing is scored after the end"


def varied(tokens: np.ndarray) -> np.ndarray:
    """Returns the rows of more than one token: constant ones are in both parts."""
    return tokens[(tokens != tokens[:, :1]).any(1)]


@pytest.mark.parametrize("name", [name for name in catalogue() if get_task(name).domain.enumerated])
def test_an_enumerated_domain_is_drawn_from_whole(name: str) -> None:
    task = get_task(name)
    assert not rows(draw(task)).isdisjoint(rows(draw(task, held_out=True)))


@pytest.mark.parametrize("name", [name for name in catalogue() if not get_task(name).domain.enumerated])
def test_held_out_inputs_are_never_trained_on(name: str) -> None:
    task = get_task(name)
    kept, held = (varied(draw(task, held_out=held_out)) for held_out in (False, True))
    assert min(len(kept), len(held)) > DRAWN / 2
    assert rows(kept).isdisjoint(rows(held))
    assert not task.domain.is_held_out(kept).any() and task.domain.is_held_out(held).all()


@pytest.mark.parametrize("name", [name for name in RASP if not get_task(name).domain.enumerated])
def test_a_tenth_is_held_out(name: str) -> None:
    shape = (20_000, get_task(name).length)
    everything = seeds.generator(0, "all").integers(len(get_task(name).vocab), size=shape)
    assert abs(in_hashed_tenth(everything).mean() - 0.1) < 0.01


def test_corrupted_inputs_change_the_output(rasp_task: RaspTask) -> None:
    task = rasp_task
    pairs = draw_pairs(task, 64)
    assert (pairs.clean[:, 0] == task.bos).all() and (pairs.corrupted[:, 0] == task.bos).all()

    def interpret(row: list[int]) -> list[object]:
        return task.program.interpret([task.vocab[token] for token in row[1:]])

    for clean, corrupted, scored in zip(
        *(part.tolist() for part in (pairs.clean, pairs.corrupted, pairs.scored))
    ):
        before, after = interpret(clean), interpret(corrupted)
        assert scored == [False, *(value is not None for value in before)]
        assert any(x != y and x is not None and y is not None for x, y in zip(before, after))


def test_no_corruption_is_dead(task: Task) -> None:
    """Every answer changes, or is lost, by whatever corruption the task names."""
    base = draw(task, 256)
    before = task.causal_model.outputs(base)
    for name, corrupt in task.domain.corruptions.items():
        pairs = draw_pairs(task, 64, corruption=name)
        outputs = [
            task.causal_model.outputs(np.where(ids[:, 1:] > task.bos, -1, ids[:, 1:]).astype(np.int16))
            for ids in (pairs.clean, pairs.corrupted)
        ]
        scored = pairs.scored[:, 1:].numpy()
        np.testing.assert_array_equal(scored, task.scored(outputs[0]))
        assert ((outputs[0] != outputs[1]) & scored).any(1).all(), name
        if name != RESAMPLE:
            after = task.causal_model.outputs(corrupt(np.random.default_rng(0), base))
            assert ((before != after) & task.scored(before)).any(1).all(), name
    with pytest.raises(UnknownNameError, match="resampl"):
        draw_pairs(task, 8, corruption="resampl")


def test_the_published_direction_of_a_selector() -> None:
    """Task 113 sends tokens to their places: keys are places, queries indices, as in the published one."""
    assert get_task(113).listing()[-1] == "moved = aggregate(select(keys=place, queries=indices), tokens)"
    model = get_task(113).causal_model
    slots = {read.slot: read.parent for read in model.variables["moved"].reads}
    assert slots == {"q": "indices", "k": "place", "v": "tokens"}


# What a task is, as a hash.

SAME = {frozenset({"hist_of_letters", "hist_of_letters_again"})}
"""One program on one domain, published twice."""
HASHED = ("frac_prevs", "trend_to_next", "divide_by_max", "docstring", "ioi")


def test_no_two_tasks_share_a_hash_unless_they_are_the_same_and_stored_ones_are_theirs() -> None:
    names: dict[str, set[str]] = {}
    for task in catalogue().values():
        found = task_sha256(task)
        assert re.fullmatch(r"[0-9a-f]{64}", found)
        assert records()[task.name].sha256 == found, f"{task.name} has changed: interpbench tasks --write"
        names.setdefault(found, set()).add(task.name)
    assert {frozenset(some) for some in names.values() if len(some) > 1} == SAME


@pytest.mark.parametrize("seed", ["0", "1", "random"])
def test_a_hash_is_the_same_in_every_process(seed: str) -> None:
    code = (
        "from interpbench.tasks.catalogue import get_task\n"
        "from interpbench.tasks.identity import task_sha256\n"
        f"for n in {HASHED}: print(task_sha256(get_task(n)))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment
    )
    assert done.stdout.split() == [task_sha256(get_task(name)) for name in HASHED]


def double(token: int) -> int:
    return 2 * token


def test_a_hash_changes_with_program_and_domain() -> None:
    def one(function: Callable[[int], int], name: str = "one") -> RaspTask:
        def build() -> object:
            return rasp.Map(function, rasp.tokens).named("mapped")

        shape: dict[str, Any] = {"vocab": (0, 1, 2), "length": 3, "attention": "causal"}
        return RaspTask(name=name, description="", build=build, **shape)

    task = one(double)
    assert task_sha256(task) == task_sha256(one(lambda token: token + token, "other")), (
        "what it computes, not how it is called"
    )
    others = [
        one(lambda token: token + 2),
        one(lambda token: 4 if token == 2 else token),
        replace(task, vocab=(0, 1, 3)),
        replace(task, vocab=("a", "b", "c")),
        replace(task, length=4),
        replace(task, attention="bidirectional"),
        replace(task, tolerance=0.1),
        replace(task, alignment={"mapped": "m1"}),
        replace(task, sampler=mixture([samplers.constant], 3, 3)),
    ]
    assert len({task_sha256(task), *(task_sha256(other) for other in others)}) == 1 + len(others)


# The registry.


@pytest.fixture
def scratch(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the test registers is gone afterwards."""
    for attribute in ("_values", "_aliases"):
        monkeypatch.setattr(catalogue(), attribute, dict(getattr(catalogue(), attribute)))


def copy_to_the_left() -> object:
    """Each token's right neighbour."""
    following = rasp.Select(rasp.indices, rasp.indices, lambda key, query: key == query + 1)
    return rasp.Aggregate(following, rasp.tokens).named("copy")


def constant() -> object:
    """The same at every position of every input."""
    return rasp.Map(lambda token: 1, rasp.tokens).named("constant")


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("frac_prev", "frac_prevs"), ("trend", "trend_to_next"), ("revers", "reverse"), ("HIST", "hist")],
)
def test_unknown_names_get_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(UnknownNameError, match=rf"^unknown task '{name}'; did you mean .*\b{nearest}\b.*\?$"):
        get_task(name)


def test_unknown_numbers_are_refused() -> None:
    with pytest.raises(UnknownNameError, match=r"^unknown task '100000'"):
        get_task(100_000)


@pytest.mark.parametrize(("name", "number"), [("hist", None), ("new", 3), ("3", None)])
@pytest.mark.usefixtures("scratch")
def test_a_taken_name_or_number_is_refused(name: str, number: int | None) -> None:
    register = registry.task(name, vocab="ab", length=3, attention="causal", legacy_id=number)
    with pytest.raises(ValueError, match="is registered twice"):
        register(copy_to_the_left)
    assert list(catalogue()) == NAMES


@pytest.mark.usefixtures("scratch")
def test_a_user_s_task_works() -> None:
    register = registry.task("mine", vocab="cab", length=3, attention="bidirectional", legacy_id=9999)
    assert register(copy_to_the_left) is copy_to_the_left
    mine = get_task("mine")
    assert mine is get_task(9999)
    assert mine.description == "Each token's right neighbour." and mine.vocab == ("a", "b", "c")
    outputs = mine.causal_model.run(np.array([[0, 2, 1]], np.int16))["copy"]
    assert mine.causal_model.decode("copy", outputs) == [["c", "b", None]]
    assert draw_pairs(mine, 8).scored.tolist() == [[False, True, True, False]] * 8
    assert find_truth(aligned(mine)).names("node", State.REQUIRED) == ["embed", "a0.h0"]


def test_the_user_s_task_is_gone() -> None:
    assert "mine" not in catalogue() and 9999 not in catalogue()


@pytest.mark.usefixtures("scratch")
def test_dead_corruption_is_refused() -> None:
    registry.task("dead", vocab="ab", length=3, attention="causal")(constant)
    with pytest.raises(TaskError, match=r"task dead: corruption resample changed the output of only 0 of"):
        draw_pairs(get_task("dead"), 8)


def test_nothing_is_drawn_twice_where_the_domain_is_enumerated() -> None:
    rng, domain = np.random.default_rng(0), Sequences(3, 4)
    assert len(rows(domain.draw(rng, 50))) == 50
    _, counts = np.unique(domain.draw(rng, 3 * domain.size + 5), axis=0, return_counts=True)
    assert sorted(counts) == [3] * (domain.size - 5) + [4] * 5
