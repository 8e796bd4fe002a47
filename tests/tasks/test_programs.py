"""Every published task computes what it says: program, causal model and a literal oracle agree."""

from typing import Any

import numpy as np
import pytest

from interpbench.core import seeds
from interpbench.tasks.catalogue import catalogue, get_task
from interpbench.tasks.task import Task
from tests.oracles.programs import PROGRAMS

DRAWN, SHAPED = 100, 20
PUBLISHED = {task.name: task.legacy_id for task in catalogue().values() if task.legacy_id is not None}


def inputs(task: Task) -> np.ndarray:
    """Draws inputs, and such as uniform ones hardly ever are: sorted, alternating, constant, mirrored."""
    drawn = task.domain.draw(seeds.generator(0, "oracle"), DRAWN)
    some, places = drawn[:SHAPED], np.arange(task.length)
    ascending = np.sort(some)
    alternating = some[:, places % 2]
    constant = some[:, 0 * places]
    mirrored = some[:, np.minimum(places, places[::-1])]
    return np.concatenate([drawn, ascending, ascending[:, ::-1], alternating, constant, mirrored])


def assert_same(ours: list[Any], wanted: list[Any], numerical: bool) -> None:
    if numerical:
        assert [x is None for x in ours] == [x is None for x in wanted]
        assert all(abs(x - y) < 1e-9 for x, y in zip(ours, wanted) if x is not None)
    else:
        assert ours == wanted


@pytest.mark.parametrize("name", [name for name in PUBLISHED if PUBLISHED[name] in PROGRAMS])
def test_program_and_causal_model_equal_the_oracle(name: str) -> None:
    task, oracle = get_task(name), PROGRAMS[PUBLISHED[name]]
    codes = inputs(task)
    modelled = task.causal_model.decode(task.causal_model.output, task.causal_model.outputs(codes))
    for row, from_model in zip(codes, modelled, strict=True):
        tokens = [task.vocab[code] for code in row]
        wanted = oracle(tokens)
        assert_same(task.program.interpret(tokens), wanted, task.causal_model.numerical)
        assert_same(from_model, wanted, task.causal_model.numerical)


def test_every_published_task_has_an_oracle() -> None:
    assert set(PUBLISHED.values()) <= set(PROGRAMS)


def test_oracles_are_of_all_published_programs() -> None:
    assert set(PROGRAMS) == set(range(1, 132)) - {16, 27}  # two numbers that the benchmark skips
