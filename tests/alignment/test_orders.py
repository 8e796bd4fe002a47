"""Orders of being required: what matters once others are patched, with witnesses tried row by row."""

from dataclasses import replace

import numpy as np
import pytest

from interpbench.alignment.alignment import align
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.alignment.find_orders import find_orders, unknown_orders
from interpbench.alignment.structure import structural_edges
from interpbench.causal.model import CausalModel, Intervention, Read, Variable, has_value
from interpbench.circuits.ground_truth import LEVELS, State, Truth, required_edges
from interpbench.circuits.naming import edge_name
from interpbench.core.errors import CheckpointError
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.model_settings import ModelSettings
from interpbench.tasks.regimes.regime import derived
from interpbench.tasks.shapes import shape

VOTE = "max_with_previous[regime=redundant]"


def alignment_of(name):
    task = get_task(name)
    return align(task, shape(task).graph)


@pytest.mark.parametrize("copies, order", [(3, 1), (5, 2), (7, 3)])
def test_copies_that_vote_matter_once_half_of_the_others_are_patched(copies, order):
    alignment = alignment_of(f"max_with_previous[regime=redundant,copies={copies}]")
    found = find_orders(alignment)
    voters = {f"a0.h{head}->m0" for head in range(copies)}
    assert {name for name, each in found.items() if each.order == order and "->m0" in name} == voters
    assert {name for name, each in found.items() if each.order == 0} == {"embed->m0", "m0->logits"}
    assert not voters & set(find_orders(alignment, most=order - 1)), "no smaller set will do"


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", [VOTE, "detect_abc", "frac_prevs", "equals_mirror", "induction", "ioi"])
def test_order_0_is_what_truth_requires(name, level):
    alignment = alignment_of(name)
    truth = find_truth(alignment)
    wanted = set(truth.names(level, State.REQUIRED)) - {"embed"}
    if level == "qkv_edge":  # free ones are one part, as the program has no more
        free = {edge.split("<")[0] for edge in truth.names(level, State.FREE)}
        wanted = {edge for edge in wanted if edge.split("<")[0] not in free} | free
    zero = {name for name, each in find_orders(alignment, level, most=0).items() if each.order == 0}
    assert zero == wanted


@pytest.mark.parametrize("name", [VOTE, "digit_sum[regime=redundant]", "detect_abc[regime=redundant]"])
def test_witnesses_hold_when_tried_alone(name):
    """Patches of the others leave the output of the witness's base; together with the edge they change it."""
    alignment = alignment_of(name)
    model = alignment.task.causal_model
    reads = {edge_name(node, reader): those for (reader, node), those in structural_edges(alignment).items()}
    ends = {f"{alignment.nodes[model.output]}->logits"}
    found = find_orders(alignment)
    assert {each.order for each in found.values()} == {0, 1}
    for edge, each in found.items():
        assert len(each.others) == each.order and edge not in each.others
        base, source = np.array([each.base]), model.run(np.array([each.source]))

        def output(names, base=base, source=source):
            """Returns the output on the base with these edges patched."""
            patched = {
                read: Intervention(source[read[1].parent], np.ones(1, bool))
                for name in names
                for read in reads[name]
            }
            if ends & set(names):
                return source[model.output]
            return model.run(base, None, patched)[model.output]

        clean = model.outputs(base)
        np.testing.assert_array_equal(output(each.others), clean, "None included")
        after = output((*each.others, edge))
        assert (after != clean)[(clean >= 0) & (after >= 0)].any()


@pytest.mark.parametrize("level", ["qkv_edge", "head_edge", "node"])
def test_what_is_the_same_in_both_inputs_can_matter_once_others_are_patched(level):
    """Whether two copies of a token differ is always False, until one of them is patched, and counts then."""
    task = constant_task()
    found = find_orders(align(task, shape(task).graph), level)
    name = "m0" if level == "node" else "m0->m1"
    assert found[name].order == 2


def constant_task():
    """Returns a task with the variables `first` = `second` = `third`, `differ`, and `third - differ`."""
    base = get_task("trend_to_next")
    variables = base.causal_model.variables
    copied = [replace(variables["next"], name=name) for name in ("first", "second", "third")]

    def differ(one, two):
        return np.where(has_value(one) & has_value(two), one != two, -1).astype(np.int16)

    def minus(each, token):
        return np.where(has_value(each) & has_value(token), (token - each) % 3, -1).astype(np.int16)

    differs = Variable("differ", (Read("first", "mlp"), Read("second", "mlp")), differ, (False, True))
    out = Variable("out", (Read("differ", "mlp"), Read("third", "mlp")), minus, variables["next"].values)
    inputs = [variables[name] for name in ("tokens", "indices")]
    homes = {"first": "a0.h0", "second": "a0.h1", "third": "a0.h2", "differ": "m0", "out": "m1"}
    settings = ModelSettings(n_layers=2, n_heads=4)
    return derived(base, lambda: CausalModel([*inputs, *copied, differs, out], "out"), homes, settings)


def test_orders_that_are_not_looked_for_are_said():
    assert unknown_orders(alignment_of(VOTE)) is None
    assert unknown_orders(alignment_of("detect_abc[regime=redundant,copies=7]")) == (20, 2)


def test_a_witness_leaves_none_where_it_was():
    """In `drop_repeats` patches of others can turn outputs into None, which is no output that stays."""
    assert "a0.h0->m0" not in find_orders(alignment_of("drop_repeats"), most=1)


def test_what_matters_in_no_set_has_no_order():
    """The length of an input that always has the same length: its edges are in the program, and dead."""
    alignment = alignment_of("equals_mirror")
    found = find_orders(alignment)
    allowed = find_truth(alignment).names("qkv_edge", State.ALLOWED)
    assert allowed and not set(allowed) & set(found)


def test_truth_keeps_witnesses_of_what_is_allowed():
    truth = find_truth(alignment_of(VOTE))
    assert set(truth.witnesses) == set(LEVELS)
    for level in LEVELS:
        assert set(truth.witnesses[level]) <= set(truth.names(level, State.ALLOWED))
        assert {each.order for each in truth.witnesses[level].values()} == {1}
    again = Truth.from_json(truth.graph, truth.to_json())
    assert again.witnesses == truth.witnesses and again.sha256 == truth.sha256
    assert truth.trivial is None and replace(truth, witnesses={}).trivial is not None
    voters = {f"a0.h{head}->m0" for head in range(3)} | {f"embed->a0.h{head}<v>" for head in range(3)}
    assert voters | {"embed->m0", "m0->logits"} == set(truth.required)
    inside = {edge_name(truth.graph.nodes[w], truth.graph.readers[r]) for r, w in np.argwhere(truth.circuit)}
    assert inside == set(truth.required), "the circuit that does the task has all of them"
    for name, mask in required_edges(truth).items():
        others = truth.witnesses["qkv_edge"][name].others if name in voters else ()
        patched = {edge_name(truth.graph.nodes[w], truth.graph.readers[r]) for r, w in np.argwhere(mask)}
        assert patched == {name, *others}


def test_released_truths_have_no_witnesses():
    """Nothing in them matters only together with others, so that they are what they were."""
    for name in ("last_two_equal", "polynomial_value", "is_non_decreasing", "has_duplicate", "reverse"):
        assert not find_truth(alignment_of(name)).witnesses, name


@pytest.mark.parametrize(
    "name, others, said",
    [
        ("m0->logits", ["embed->m0"], "a witness for 'm0->logits' that is not of its circuit"),
        ("a0.h3->m0", ["embed->m0"], "a witness for 'a0.h3->m0' that is not of its circuit"),
        ("a0.h0->m0", ["a0.h9->m0"], "a witness for 'a0.h0->m0' that is not of its circuit"),
        ("a0.h0->m0", ["a0.h3->m0"], "a witness for 'a0.h0->m0' that is not of its circuit"),
        ("a0.h0->m0", ["a0.h0->m0"], "a witness for 'a0.h0->m0' that is not of its circuit"),
        ("a0.h0->m0", [], "a witness for 'a0.h0->m0' that is not 1 to 3 others"),
        ("a0.h0->m0", ["a0.h1->m0"] * 2, "a witness for 'a0.h0->m0' that is not 1 to 3 others"),
    ],
)
def test_witnesses_of_what_is_not_in_the_circuit_are_refused(name, others, said):
    truth = find_truth(alignment_of(VOTE))
    data = truth.to_json()
    data["qkv_edge"]["witnesses"] = {name: {"others": others, "base": [0], "source": [1]}}
    with pytest.raises(CheckpointError) as error:
        Truth.from_json(truth.graph, data)
    assert said in str(error.value)


def test_a_witness_is_a_pair_of_inputs():
    truth = find_truth(alignment_of(VOTE))
    for base, source in (([0, 1], [0]), ([0], [-2])):
        data = truth.to_json()
        data["qkv_edge"]["witnesses"]["a0.h0->m0"] |= {"base": base, "source": source}
        with pytest.raises(CheckpointError, match="that is no pair of inputs"):
            Truth.from_json(truth.graph, data)


@pytest.mark.parametrize("level", ["node", "head_edge", "qkv_edge"])
@pytest.mark.parametrize(
    "name", ["max_with_previous[regime=redundant]", "differs_from_both_neighbours", "add_next", "ioi"]
)
def test_sets_that_need_no_run_have_no_witness(name, level, monkeypatch):
    """The search passes over sets in which a patch moves nothing that reads it; run, they give the same."""
    task = get_task(name)
    alignment = align(task, shape(task).graph)
    found = find_orders(alignment, level, most=2, pairs=300)
    monkeypatch.setattr("interpbench.alignment.find_orders._Search.moves", lambda *_: True)
    assert find_orders(alignment, level, most=2, pairs=300) == found
