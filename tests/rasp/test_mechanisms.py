"""Edge cases of mechanisms: several values selected, none selected, None. One row, so `[0]` below."""

import numpy as np
import pytest
import torch
from tracr.rasp import rasp

from interpbench.causal.model import NONE
from interpbench.rasp import mechanisms as mech
from interpbench.rasp.compile import compile_program
from interpbench.rasp.program import Program
from interpbench.rasp.weights import compiled_network
from interpbench.tasks.catalogue import get_task
from interpbench.transformer.recording import record

ALWAYS = mech.selection(mech.selection_table(lambda key, query: True, (0, 1, 2), (0, 1, 2)), causal=False)
NEVER = mech.selection(mech.selection_table(lambda key, query: False, (0, 1, 2), (0, 1, 2)), causal=False)
SAME = mech.selection(
    mech.selection_table(lambda key, query: key == query, (0, 1, 2), (0, 1, 2)), causal=False
)
SEEN = mech.selection(mech.selection_table(lambda key, query: True, (0, 1, 2), (0, 1, 2)), causal=True)


def codes(*values: int) -> np.ndarray:
    return np.array([values], np.int16)


@pytest.mark.parametrize(
    ("values", "picked"),
    [
        ((2, 1, 1), 1),  # the most frequent
        ((2, 1, 0), NONE),  # equally frequent ones have equal logits
        ((2, NONE, 1), NONE),
        ((2, NONE, 2), 2),
        ((NONE, NONE, 1), 1),  # None has no vote
        ((NONE, NONE, NONE), NONE),
    ],
)
def test_pick_among_several_values(values: tuple[int, ...], picked: int) -> None:
    here = codes(0, 0, 0)
    assert mech.pick(ALWAYS, 3)(here, here, codes(*values))[0].tolist() == [picked] * 3


def test_pick_looks_back_only_when_causal() -> None:
    here = codes(0, 0, 0, 0)
    assert mech.pick(SEEN, 3)(here, here, codes(2, 1, 1, 0))[0].tolist() == [2, NONE, 1, 1]


@pytest.mark.parametrize("causal", [True, False])
def test_pick_does_what_the_compiled_network_does(causal: bool) -> None:
    everything = rasp.Select(rasp.indices, rasp.indices, lambda key, query: True)
    program = Program(rasp.Aggregate(everything, rasp.tokens), ("a", "b", "c"), 5, causal)
    tokens = np.array(list(np.ndindex(3, 3, 3, 3, 3)))
    ids = torch.from_numpy(np.insert(tokens, 0, 3, axis=1))
    logits = compiled_network(compile_program(program))(ids)[:, 1:].detach().numpy()
    outputs = program.causal_model.outputs(tokens)
    decided = outputs != NONE
    np.testing.assert_array_equal(logits.argmax(-1)[decided], outputs[decided])
    second, largest = np.moveaxis(np.sort(logits, -1)[..., -2:], -1, 0)
    assert np.all(largest - second < 1e-5, where=~decided)  # nothing but rounding decides ties there
    assert np.all(largest - second > 0.1, where=decided)


def test_empty_selections() -> None:
    here = codes(0, 1, 2)
    assert mech.pick(NEVER, 3)(here, here, here)[0].tolist() == [NONE] * 3
    assert mech.width(NEVER)(here, here)[0].tolist() == [0] * 3
    assert mech.average(NEVER, 0.25)(here, here, np.ones((1, 3)))[0].tolist() == [0.25] * 3


def test_none_selects_nothing_and_is_never_selected() -> None:
    query, key = codes(0, NONE, NONE), codes(NONE, 0, 0)
    assert mech.width(ALWAYS)(query, key)[0].tolist() == [2, 0, 0]
    assert mech.width(SAME)(codes(NONE, 1, 2), codes(NONE, 2, 2))[0].tolist() == [0, 0, 2]
    assert mech.pick(ALWAYS, 3)(query, key, codes(2, 1, 1))[0].tolist() == [1, NONE, NONE]


def test_average_is_none_only_where_a_none_is_selected() -> None:
    values = np.array([[1.0, np.nan, 0.0]])
    averaged = mech.average(SAME, 0)(codes(0, 1, 2), codes(0, 1, 0), values)
    np.testing.assert_array_equal(averaged, [[0.5, np.nan, 0]])


def test_none_passes_through_maps() -> None:
    table = mech.table(lambda x, y: 10 * x + y, [(0, 1), (0, 1)], (0, 1, 10, 11))
    assert table(codes(0, NONE, 1, 1), codes(1, 1, NONE, 0))[0].tolist() == [1, NONE, NONE, 2]
    np.testing.assert_array_equal(mech.to_number(float, (3, 5))(codes(1, NONE)), [[5, np.nan]])
    numbers = np.array([[0.5, np.nan, 0.5, 0]])
    np.testing.assert_array_equal(mech.of_number(lambda x: 2 * x, None)(numbers), [[1, np.nan, 1, 0]])
    halves = mech.of_number(lambda x: "half" if x else "none", ("half", "none"))
    assert halves(numbers)[0].tolist() == [0, NONE, 0, 1]
    np.testing.assert_array_equal(mech.linear(1, -2)(numbers, numbers), [[-0.5, np.nan, -0.5, 0]])


def test_arithmetic_errors_and_none_results_are_no_values() -> None:
    assert mech.image(lambda x: 1 / x, (0, 1, 2)) == (0.5, 1)
    assert mech.image(lambda x: None if x else x, (0, 1)) == (0,)
    inverse = mech.table(lambda x: 1 / x, [(0, 1, 2)], (0.5, 1.0))
    assert inverse(codes(0, 1, 2))[0].tolist() == [NONE, 1, 0]
    np.testing.assert_array_equal(mech.to_number(lambda x: 1 / x, (0, 2))(codes(0, 1)), [[np.nan, 0.5]])


@pytest.mark.parametrize(
    ("predicate", "dimensions"),
    [
        (lambda key, query: True, 1),
        (lambda key, query: False, 1),
        (lambda key, query: key == query, 1),  # the others have to be low, not equal
        (lambda key, query: key != query, 4),
        (lambda key, query: key < query, 4),
        (lambda key, query: key == query + 1 or (key == 1 and query == 0), 1),
    ],
)
def test_dimensions_that_a_head_needs(predicate, dimensions: int) -> None:
    values = tuple(range(5))
    assert mech.head_dimensions(mech.selection_table(predicate, values, values)) == dimensions


@pytest.mark.parametrize(
    ("predicate", "dimensions"),
    [
        (lambda key, query: key <= query, 1),  # all that a causal query sees
        (lambda key, query: True, 1),
        (lambda key, query: key < query, 4),
        (lambda key, query: key <= query and (key, query) != (0, 4), 1),
    ],
)
def test_a_causal_head_needs_no_dimensions_for_what_it_cannot_see(predicate, dimensions: int) -> None:
    values = tuple(range(5))
    table = mech.selection_table(predicate, values, values)
    assert mech.head_dimensions(table, in_order=True) == dimensions


COMPILED = ["hist", "frac_prevs", "max_with_previous", "count_smaller", "trend_to_next", "detect_abc"]


@pytest.mark.parametrize("name", COMPILED)
def test_compiled_heads_look_where_the_program_says(name: str) -> None:
    """Tracr's own networks attend evenly to what is selected; heads of widths to BOS, too, as to a key."""
    task = get_task(name)
    network = compiled_network(compile_program(task.program))
    tokens = task.domain.draw(np.random.default_rng(0), 64)
    trace = task.causal_model.run(tokens)
    _, cache = record(network, torch.from_numpy(task.token_ids(tokens)))
    looked = 0
    for variable, node in task.default_alignment.items():
        if task.causal_model.variables[variable].attends is None:
            continue
        chosen = task.causal_model.attended(variable, trace)
        bos = ~chosen.any(2, keepdims=True) | task.causal_model.variables[variable].attends_bos
        wanted = np.concatenate([bos, chosen], 2)
        wanted = wanted / wanted.sum(2, keepdims=True)
        block = network.get_submodule(f"blocks.{node.layer}")
        q, k, _ = block.attn.project(block.ln1(cache.residuals[node.layer]))
        pattern = block.attn.pattern(q, k)[node.head].detach().numpy()  # [query, key, row]
        np.testing.assert_allclose(pattern[1:].transpose(2, 0, 1), wanted, atol=2e-3)
        looked += 1
    assert looked
