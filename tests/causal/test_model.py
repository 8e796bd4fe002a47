"""The causal model on its own: runs, interventions on variables and reads, None, and what it refuses."""

import numpy as np
import pytest

from interpbench.causal import CausalModel, Intervention, Read, Variable
from interpbench.causal.model import NONE, changed, has_value
from interpbench.core.errors import TaskError
from interpbench.tasks.catalogue import get_task

TOKENS = Variable("tokens", (), lambda tokens: tokens, ("a", "b", "c"))
NEXT = Variable("next", (Read("tokens", "mlp"),), lambda x: np.where(x < 0, NONE, (x + 1) % 3), (0, 1, 2))
SUM = Variable(
    "sum",
    (Read("tokens", "mlp"), Read("next", "mlp")),
    lambda x, y: np.where(x < 0, np.nan, x + 10.0 * y),
    None,
)
MODEL = CausalModel([TOKENS, NEXT, SUM], "sum")
ROWS = np.array([[0, 1, 2], [2, 0, NONE]])


def literal(rows: np.ndarray, following: np.ndarray | None = None) -> np.ndarray:
    """The output by a loop, with the values that `sum` sees of `next`."""
    made = np.full(rows.shape, np.nan)
    for place in np.ndindex(rows.shape):
        if (token := rows[place]) >= 0:
            made[place] = token + 10 * ((token + 1) % 3 if following is None else following[place])
    return made


def test_a_run_computes_every_variable_in_order() -> None:
    trace = MODEL.run(ROWS)
    assert list(trace) == ["tokens", "next", "sum"]
    assert trace["next"].tolist() == [[1, 2, 0], [0, 1, NONE]]
    np.testing.assert_array_equal(trace["sum"], literal(ROWS))
    np.testing.assert_array_equal(MODEL.outputs(ROWS), trace["sum"])


@pytest.mark.parametrize(
    "where", [np.array([True, False]), np.array([[True, False, False], [False, True, True]])]
)
def test_an_intervention_sets_a_variable_in_rows_or_places(where: np.ndarray) -> None:
    values = np.array([[2, 2, 2], [1, 1, 1]])
    there = np.broadcast_to(where if where.ndim == 2 else where[:, None], ROWS.shape)
    trace = MODEL.run(ROWS, {"next": Intervention(values, where)})
    np.testing.assert_array_equal(trace["next"], np.where(there, values, MODEL.run(ROWS)["next"]))
    np.testing.assert_array_equal(trace["sum"], literal(ROWS, trace["next"]))


def test_an_intervention_on_a_read_is_seen_by_that_child_alone() -> None:
    values, everywhere = np.zeros_like(ROWS), np.ones(2, bool)
    trace = MODEL.run(ROWS, edges={("sum", Read("next", "mlp")): Intervention(values, everywhere)})
    np.testing.assert_array_equal(trace["next"], MODEL.run(ROWS)["next"])
    np.testing.assert_array_equal(trace["sum"], literal(ROWS, values))
    trace = MODEL.run(ROWS, edges={("next", Read("tokens", "mlp")): Intervention(values, everywhere)})
    assert trace["tokens"].tolist() == ROWS.tolist() and (trace["next"] == 1).all()


@pytest.mark.parametrize(
    "name", ["two_brackets_balanced", "sort_digits", "frac_prevs", "ioi", "paren_balance"]
)
def test_what_no_intervention_reaches_may_be_given(name: str) -> None:
    task, rng = get_task(name), np.random.default_rng(0)
    model = task.causal_model
    base, source = (task.domain.draw(rng, 50) for _ in range(2))
    clean, other = model.run(base), model.run(source)
    reads = [(variable.name, read) for variable in model.variables.values() for read in variable.reads]
    for _ in range(20):
        swaps = {
            name: Intervention(other[name], rng.random(50) < 0.5)
            for name in rng.choice([*model.variables], 1)
        }
        _, read = chosen = reads[rng.integers(len(reads))]
        edges = {chosen: Intervention(other[read.parent], rng.random(base.shape) < 0.5)}
        for interventions in ((swaps, None), (None, edges), (swaps, edges)):
            expected, found = model.run(base, *interventions), model.run(base, *interventions, clean)
            for variable, values in expected.items():
                np.testing.assert_array_equal(found[variable], values)


def test_values_are_decoded_and_none_is_none() -> None:
    trace = MODEL.run(ROWS)
    assert MODEL.decode("tokens", ROWS) == [["a", "b", "c"], ["c", "a", None]]
    assert MODEL.decode("sum", trace["sum"])[1] == [2.0, 10.0, None]
    assert MODEL.numerical and MODEL.classes is None
    assert has_value(ROWS).tolist() == has_value(trace["sum"]).tolist() == [[True] * 3, [True, True, False]]


def test_what_changed_is_what_has_two_values_that_differ() -> None:
    before, after = np.array([[0, 1, NONE, 2]]), np.array([[0, 2, 1, NONE]])
    assert changed(before, after).tolist() == [[False, True, False, False]]
    numbers = np.array([[0.0, 1.0, np.nan, 2.0]])
    assert changed(numbers, numbers + np.array([[1e-9, 1.0, 1.0, np.nan]])).tolist() == [
        [False, True, False, False]
    ]


@pytest.mark.parametrize(
    ("variables", "output", "said"),
    [
        ([TOKENS, SUM, NEXT], "sum", "variable 'sum' reads 'next', which has to be listed before it"),
        ([TOKENS, NEXT], "sum", "needs the variables 'tokens' and 'sum'"),
        ([Variable("x", (), lambda tokens: tokens, None)], "x", "needs the variables 'tokens' and 'x'"),
    ],
)
def test_what_is_no_model_is_refused(variables: list[Variable], output: str, said: str) -> None:
    with pytest.raises(TaskError, match=said):
        CausalModel(variables, output)
