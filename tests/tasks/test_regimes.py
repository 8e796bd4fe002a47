"""Regimes: tasks made of other tasks, and their names."""

from collections import Counter

import numpy as np
import pytest

from interpbench.alignment.alignment import align
from interpbench.causal.model import Intervention
from interpbench.circuits.naming import EMBED
from interpbench.core.errors import InterpBenchError
from interpbench.runs.train_settings import TrainConfig, check_train
from interpbench.tasks.catalogue import get_task, known_task, program_of
from interpbench.tasks.model_settings import ModelSettings
from interpbench.tasks.regimes.bystanders import COPY, units_of
from interpbench.tasks.regimes.redundant import vote
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
    assert task.listing()[:2] == task.base.listing() and task.description == task.base.description
    assert (task.group, task.tolerance) == (task.base.group, task.base.tolerance)
    assert get_task("frac_prevs[regime=alive]").alignment != {} and task.crowd is not None
    assert get_task("frac_prevs").crowd is None
    asked = known_task("trend_to_next[regime=alive,draw=7]")
    assert asked is not None and asked is get_task(asked.name), "of a task of the catalogue, it can be made"
    assert known_task("trend_to_next[regime=alive,copies=99]") is None


def voted(values):
    """Returns the vote of some values by counting, earliest first among equals; of numbers the median."""
    if all(value is None or isinstance(value, float) for value in values) and any(values):
        return sorted(values, key=lambda value: float("inf") if value is None else value)[len(values) // 2]
    return max(values, key=values.count)


@pytest.mark.parametrize("kind", ["codes", "numbers"])
def test_votes_against_counting(kind):
    rng = np.random.default_rng(0)
    values = rng.integers(-1, 3, (5, 40, 7))
    given = values.astype(np.int16) if kind == "codes" else np.where(values < 0, np.nan, values / 2.0)
    for count in (1, 3, 5):
        found = vote(list(given[:count]))
        for place in np.ndindex(40, 7):
            here = [float(copy[place]) for copy in given[:count]]
            if kind == "codes":
                assert found[place] == voted([int(value) for value in here])
            else:
                wanted = voted([None if np.isnan(value) else value for value in here])
                assert found[place] == wanted or (np.isnan(found[place]) and wanted is None)


@pytest.mark.parametrize(
    "name", ["max_with_previous", "detect_abc", "digit_sum", "polynomial_value", "mean_of_ends"]
)
def test_one_copy_is_outvoted_and_two_decide(name):
    """The literal program: the task's own, with what the copies' readers see set to the vote."""
    task = get_task(f"{name}[regime=redundant]")
    align(task, shape(task).graph)
    model, base, rng = task.causal_model, task.base.causal_model, np.random.default_rng(2)
    tokens = task.domain.draw(rng, 300)
    sources = [model.run(task.domain.sources(rng, tokens)) for _ in range(2)]
    clean, everywhere = model.run(tokens), np.ones(len(tokens), bool)
    np.testing.assert_array_equal(clean[model.output], base.outputs(tokens))
    originals = [name.removesuffix("#2") for name in model.variables if name.endswith("#2")]
    assert originals and len({task.alignment[f"{name}#2"] for name in originals}) == 1

    def swapped(numbers):
        """Returns the model's runs with copies swapped: `numbers` says from which source, by copy."""
        swaps = {
            name if copy == 1 else f"{name}#{copy}": Intervention(sources[source][name], everywhere)
            for copy, source in numbers.items()
            for name in originals
        }
        return model.run(tokens, swaps)[model.output]

    def literal(numbers):
        """Returns the task's own output with its variables set to the vote."""
        votes = {}
        for name in originals:
            values = [sources[numbers[copy]][name] if copy in numbers else clean[name] for copy in (1, 2, 3)]
            votes[name] = Intervention(vote(values), everywhere)
        return base.run(tokens, votes)[base.output]

    for copy in (1, 2, 3):
        np.testing.assert_array_equal(swapped({copy: 0}), clean[model.output], "one is outvoted")
    np.testing.assert_array_equal(
        swapped({1: 0, 3: 0}),
        base.run(tokens, {name: Intervention(sources[0][name], everywhere) for name in originals})[
            base.output
        ],
        "two decide",
    )
    for numbers in ({1: 0, 2: 1}, {2: 1, 3: 0}, {1: 1, 2: 0, 3: 0}):
        np.testing.assert_array_equal(swapped(numbers), literal(numbers))


@pytest.mark.parametrize("name", ["equals_mirror", "sum_last_two", "clip_to_2_7", "two_brackets_balanced"])
def test_what_is_made_redundant_matters(name):
    """The first variable that MLPs alone read is a constant there; its copies would change nothing."""
    task = get_task(f"{name}[regime=redundant]")
    model, rng = task.causal_model, np.random.default_rng(4)
    tokens = task.domain.draw(rng, 2000)
    source, clean = model.run(task.domain.sources(rng, tokens)), model.run(tokens)
    copies = [each for each in model.variables if f"{each.partition('#')[0]}#2" in model.variables]
    swaps = {each: Intervention(source[each], np.ones(len(tokens), bool)) for each in copies}
    assert len(copies) >= 3 and model.effective(clean, model.run(tokens, swaps)).any()


@pytest.mark.parametrize(
    "settings, said",
    [
        ({"alignment": {"maximum": "m0"}}, "the name of max_with_previous[regime=alive] says which nodes"),
        (
            {"model": ModelSettings(n_layers=4)},
            "model.n_layers=4: max_with_previous[regime=alive] has bysta",
        ),
        ({"model": ModelSettings(n_heads=5)}, "model.n_heads=5"),
    ],
)
def test_bystanders_stay_where_they_were_placed(settings, said):
    with pytest.raises(InterpBenchError) as error:
        check_train(TrainConfig("max_with_previous[regime=alive]", **settings))
    assert said in str(error.value)


def test_regimes_compose():
    """Copies that vote, among bystanders that copy them."""
    task = get_task("max_with_previous[regime=redundant,regime=alive]")
    assert task.program_name == "max_with_previous"
    assert any(line.startswith("previous#3 also at a") for line in task.listing()[len(task.base.listing()) :])
    assert set(task.alignment) == {"previous", "previous#2", "previous#3", "maximum"}
    assert len(set(task.alignment.values())) == 4
    crowded = set(task.crowd.causal_model.variables)
    assert any(name.startswith("previous#3~") for name in crowded)


@pytest.mark.parametrize(
    "name, said",
    [
        ("hist[regime=aliv]", "unknown regime 'aliv'; did you mean alive"),
        ("hist[regime=alive,copy=3]", "unknown parameter of regime alive 'copy'; did you mean copies?"),
        ("hist[regime=alive,copies=x]", "regime alive: copies"),
        ("hist[regime=alive,copies=0]", "regime alive: copies"),
        ("hist[regime=alive,copies=2,copies=3]", "regime alive: parameter copies is given twice"),
        ("hist[regime=alive,regime=alive]", "alive already"),
        ("two_brackets_balanced[regime=alive,copies=16]", "fewer copies"),
        ("hist[regime=alive,copies=90]", "regime alive: copies"),
        ("max_with_previous[regime=redundant,copies=4]", "copies=4 is even; use 3"),
        ("max_with_previous[regime=redundant,variable=previos]", "did you mean previous?"),
        ("frac_prevs[regime=redundant]", "has no variable for regime=redundant: one that only MLPs read"),
        ("max_with_previous[regime=alive,regime=redundant]", "comes before regime=alive"),
        ("max_with_previous[regime=redundant,regime=redundant]", "has no variable for regime=redundant"),
        ("hist[regime=]", "unknown regime ''"),
        ("hist[,regime=alive]", "the brackets begin with a comma"),
        ("hist[regime=alive,]", "unknown parameter of regime alive ''"),
    ],
)
def test_wrong_regimes_are_refused_in_one_line(name, said):
    with pytest.raises(InterpBenchError) as error:
        get_task(name)
    assert said in str(error.value) and "\n" not in str(error.value)
