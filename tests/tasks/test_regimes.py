"""Regimes: tasks made of other tasks, and their names."""

from collections import Counter

import numpy as np
import pytest

from interpbench.alignment.alignment import align
from interpbench.causal.model import Intervention
from interpbench.circuits.naming import EMBED
from interpbench.core.errors import InterpBenchError
from interpbench.tasks.catalogue import get_task, known_task, program_of
from interpbench.tasks.regimes.bystanders import COPY, units_of
from interpbench.tasks.shapes import shape

ALIVE = ("max_with_previous", "detect_abc", "paren_balance", "frac_prevs", "induction", "digit_sum", "ioi")
"""Programs with diamonds, numbers, heads alone, MLPs alone, and written by hand."""


def original(name):
    """Returns the name of the variable that a variable is a copy of."""
    return name.partition(COPY)[0]


@pytest.mark.parametrize("name", ALIVE)
def test_every_node_carries_a_copy_and_every_copy_computes_the_program(name):
    task = get_task(f"{name}[regime=alive]")
    graph, model = shape(task).graph, task.crowd.causal_model
    carried = set(task.crowd.default_alignment.values()) - {EMBED}
    assert carried == set(graph.nodes[1:]), "no node is dead"
    tokens = task.domain.draw(np.random.default_rng(0), 200)
    plain, crowded = task.base.causal_model.run(tokens), model.run(tokens)
    for copy, values in crowded.items():
        if original(copy) in plain:
            np.testing.assert_array_equal(values, plain[original(copy)])
    for unit in units_of(task.base):
        counts = Counter(original(copy) for copy in crowded)
        assert all(counts[variable.name] >= 2 for variable in unit.variables)
    align(task, graph), align(task.crowd, graph)


@pytest.mark.parametrize("name", ALIVE)
def test_the_circuit_decides_the_output_and_bystanders_do_not(name):
    """Swaps of the circuit's variables act as in the program; swaps of all others leave the output."""
    task = get_task(f"{name}[regime=alive]")
    model, base, rng = task.crowd.causal_model, task.base.causal_model, np.random.default_rng(1)
    tokens = task.domain.draw(rng, 300)
    source = model.run(task.domain.sources(rng, tokens))
    everywhere = np.ones(len(tokens), bool)
    inside = {original(variable) for variable in task.alignment}
    assert inside == {variable.name for unit in units_of(task.base) for variable in unit.variables}
    for variable in inside:
        swap = {variable: Intervention(source[variable], everywhere)}
        there, here = model.run(tokens, swap), base.run(tokens, swap)
        np.testing.assert_array_equal(there[model.output], here[base.output])
    outside = [copy for copy in model.variables if COPY in copy]
    swaps = {copy: Intervention(source[copy], everywhere) for copy in outside}
    clean, swapped = model.run(tokens), model.run(tokens, swaps)
    np.testing.assert_array_equal(swapped[model.output], clean[model.output])
    assert model.effective(clean, swapped).any(), "but something else that is read out changes"


def test_each_copy_of_the_output_is_as_likely_the_circuit():
    """No layer, and no place among the copies, gives the circuit away."""
    draws = [get_task(f"max_with_previous[regime=alive,copies=3,draw={draw}]") for draw in range(300)]
    counts = Counter(task.alignment["maximum"] for task in draws)
    assert set(counts) == {"m0", "m1", "m2"} and all(70 <= count <= 130 for count in counts.values())


def test_names_of_regimes():
    task = get_task("frac_prevs[regime=alive,copies=2,draw=1]")
    assert task.name == "frac_prevs[regime=alive,draw=1]", "dials with their defaults are left out"
    assert task is get_task(task.name) is known_task(task.name)
    assert program_of(task.name) == "frac_prevs" == task.program_name
    assert task.listing() == task.base.listing() and task.description == task.base.description
    assert (task.group, task.tolerance) == (task.base.group, task.base.tolerance)
    assert get_task("frac_prevs[regime=alive]").alignment != {} and task.crowd is not None
    assert get_task("frac_prevs").crowd is None
    asked = known_task("trend_to_next[regime=alive,draw=7]")
    assert asked is not None and asked is get_task(asked.name), "of a task of the catalogue, it can be made"
    assert known_task("trend_to_next[regime=alive,copies=99]") is None


@pytest.mark.parametrize(
    "name, said",
    [
        ("hist[regime=aliv]", "unknown regime 'aliv'; did you mean alive?"),
        ("hist[regime=alive,copy=3]", "unknown parameter of regime alive 'copy'; did you mean copies?"),
        ("hist[regime=alive,copies=x]", "regime alive: copies"),
        ("hist[regime=alive,copies=0]", "regime alive: copies"),
        ("hist[regime=alive,copies=2,copies=3]", "regime alive: parameter copies is given twice"),
        ("hist[regime=alive,regime=alive]", "alive already"),
        ("two_brackets_balanced[regime=alive,copies=16]", "fewer copies"),
        ("hist[regime=alive,copies=90]", "regime alive: copies"),
        ("hist[regime=]", "unknown regime ''"),
    ],
)
def test_wrong_regimes_are_refused_in_one_line(name, said):
    with pytest.raises(InterpBenchError) as error:
        get_task(name)
    assert said in str(error.value) and "\n" not in str(error.value)
