"""What each edit of a balanced sampler promises, and that it draws from many inputs."""

import numpy as np
import pytest

from interpbench.tasks import samplers
from interpbench.tasks.catalogue import catalogue, get_task
from interpbench.tasks.samplers import Edit, one_changed, shuffled

COUNT, LENGTH, SIZE = 500, 9, 11
BALANCED = samplers.balanced([(0, 1), (3, 4)], filler=2)


def edited(edit: Edit, size: int = SIZE) -> np.ndarray:
    rng = np.random.default_rng(0)
    uniform = rng.integers(size, size=(COUNT, LENGTH), dtype=np.int16)
    rows = np.asarray(edit(rng, uniform.copy(), size))
    assert rows.shape == uniform.shape and rows.min() >= 0 and rows.max() < size
    return rows


def level(rows: np.ndarray, opening: int, closing: int) -> np.ndarray:
    return ((rows == opening).astype(int) - (rows == closing)).cumsum(1)


HOLDS = {
    "rising": (samplers.rising, lambda rows: np.diff(rows) >= 0),
    "falling": (samplers.falling, lambda rows: np.diff(rows) <= 0),
    "distinct": (samplers.distinct, lambda rows: np.diff(np.sort(rows)) > 0),
    "even": (samplers.even, lambda rows: rows % 2 == 0),
    "alternating": (samplers.alternating, lambda rows: np.diff(rows) % 2 == 1),
    "last_repeated": (samplers.last_repeated, lambda rows: rows[:, -1] == rows[:, -2]),
    "constant": (samplers.constant, lambda rows: rows == rows[:, :1]),
}


@pytest.mark.parametrize(("edit", "holds"), HOLDS.values(), ids=HOLDS.keys())
def test_an_edit_keeps_its_promise(edit: Edit, holds) -> None:
    rows = edited(edit)
    assert holds(rows).all()
    distinct = len(np.unique(rows, axis=0))
    assert distinct == SIZE if edit is samplers.constant else distinct > 0.9 * COUNT
    broken = edited(one_changed(edit))
    assert (broken != edited(edit)).sum(1).max() <= LENGTH
    assert 0.1 < 1 - holds(broken).reshape(COUNT, -1).all(1).mean() < 1


def test_balanced_brackets() -> None:
    rows = edited(BALANCED, 5)
    for pair in ((0, 1), (3, 4)):
        assert (level(rows, *pair) >= 0).all() and (level(rows, *pair)[:, -1] == 0).all()
    mixed = edited(shuffled(BALANCED), 5)
    assert (level(mixed, 0, 1)[:, -1] == 0).all() and (level(mixed, 0, 1) < 0).any()
    assert len(np.unique(rows, axis=0)) > COUNT / 2


def test_shares_differ_from_row_to_row() -> None:
    for rows, counts in (
        (edited(samplers.often(3)), lambda rows: (rows == 3).sum(1)),
        (edited(samplers.one_often), lambda rows: (rows == rows[:, :1]).sum(1)),
        (edited(samplers.small), lambda rows: rows.max(1)),
    ):
        assert len(np.unique(counts(rows))) >= LENGTH


def test_repeats_mirrors_and_patterns_are_common_but_not_everywhere() -> None:
    for found in (
        np.diff(edited(samplers.repeats(1))) == 0,
        edited(samplers.mirrored) == edited(samplers.mirrored)[:, ::-1],
    ):
        assert 0.4 < found.mean() < 0.7
    rows = edited(samplers.containing(0, 1, 2))
    found = (rows[:, :-2] == 0) & (rows[:, 1:-1] == 1) & (rows[:, 2:] == 2)
    assert found.any(0).all() and 0.15 < found.mean() < 0.34


SAMPLED = [task.name for task in catalogue().values() if task.sampler is not None]


@pytest.mark.parametrize("name", SAMPLED)
def test_a_sampler_leaves_some_inputs_uniform_and_repeats_few(name: str) -> None:
    domain = get_task(name).domain
    rows = domain.draw(np.random.default_rng(0), 3000)
    assert rows.dtype == np.int16
    assert len(np.unique(rows, axis=0)) > 0.5 * min(3000, domain.size)
