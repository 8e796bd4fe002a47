"""Regimes that change where variables are: shares, rare copies, wide networks and other kinds of layers."""

import numpy as np
import pytest

from interpbench.alignment.alignment import align
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.causal.model import Intervention
from interpbench.circuits.ground_truth import State
from interpbench.core.errors import InterpBenchError
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.shapes import shape

ROWS = 300
SHARED = ("detect_abc", "has_duplicate", "digit_sum", "polynomial_value")
"""Categories and numbers."""


def run(task, seed=0):
    """Returns inputs, the variables on them, and those on their sources."""
    rng = np.random.default_rng(seed)
    tokens = task.domain.draw(rng, ROWS)
    model = task.causal_model
    return tokens, model.run(tokens), model.run(task.domain.sources(rng, tokens))


def swapped(task, tokens, **swaps):
    """Returns the output with variables set to values, by name."""
    everywhere = np.ones(len(tokens), bool)
    interventions = {name: Intervention(values, everywhere) for name, values in swaps.items()}
    return task.causal_model.run(tokens, interventions)[task.causal_model.output]


def shared(task):
    """Returns the name of the first variable that is in shares."""
    return next(name for name in task.causal_model.variables if name.endswith("#1")).removesuffix("#1")


@pytest.mark.parametrize("regime", ["shares", "cancelling", "rare", "wide", "normed", "superposed"])
@pytest.mark.parametrize("name", ["all_even", "has_duplicate", "digit_sum"])
def test_the_output_is_that_of_the_task_alone(name, regime):
    task = get_task(f"{name}[regime={regime}]")
    align(task, shape(task).graph)
    tokens, clean, _ = run(task)
    np.testing.assert_allclose(clean[task.causal_model.output], task.base.causal_model.outputs(tokens))
    assert task.listing()[: len(task.base.listing())] == task.base.listing() and task.added


@pytest.mark.parametrize("name", SHARED)
def test_the_sum_of_shares_is_what_readers_see(name):
    """The task's own program with the variable set to the sum, one share being that of another input."""
    task = get_task(f"{name}[regime=shares]")
    tokens, clean, source = run(task)
    variable, base = shared(task), task.base.causal_model
    values = base.variables[variable].values
    whole = base.run(tokens)[variable]
    for one, other in (("#1", "#2"), ("#2", "#1")):
        total = source[variable + one] + clean[variable + other]
        if values is not None:
            none = (source[variable + one] < 0) | (clean[variable + other] < 0)
            total = np.where(none, -1, total % len(values)).astype(np.int16)
        wanted = swapped(task.base, tokens, **{variable: total})
        np.testing.assert_allclose(swapped(task, tokens, **{variable + one: source[variable + one]}), wanted)
    if values is not None:
        there = whole >= 0
        for share in ("#1", "#2"):
            pairs = set(zip(clean[variable + share][there].tolist(), whole[there].tolist()))
            assert len(pairs) > len(values), f"{share} does not tell the variable"


def test_what_one_share_does_the_other_undoes():
    task = get_task("all_even[regime=cancelling]")
    tokens, clean, source = run(task)
    model, variable = task.causal_model, shared(task)
    first = {f"{variable}#1": source[f"{variable}#1"]}
    np.testing.assert_array_equal(swapped(task, tokens, **first), clean[model.output], "no effect at all")
    assert (first[f"{variable}#1"] != clean[f"{variable}#1"]).any()
    both = {**first, f"{variable}#2": clean[f"{variable}#2"]}
    changed = swapped(task, tokens, **both) != clean[model.output]
    assert changed.any(), "with the other kept, it has one"
    alignment = align(task, shape(task).graph)
    truth, node = find_truth(alignment), task.alignment[f"{variable}#1"]
    assert node in truth.names("node", State.ALLOWED) and truth.witnesses["node"][node].order == 1
    out_of = [edge for edge in truth.names("qkv_edge", State.REQUIRED) if edge.startswith(f"{node}->")]
    assert len(out_of) == 2, "each of its two edges has an effect alone"


def test_a_rare_path_acts_where_the_token_stands():
    task = get_task("differs_from_previous[regime=rare,share=0.02]")
    rng, model = np.random.default_rng(1), task.causal_model
    token = task.domain.token
    drawn = task.domain.sample(rng, 20_000)
    assert (drawn == token).any(1).mean() == pytest.approx(0.02, abs=0.005)
    names = {name.removesuffix("#2") for name in model.variables if name.endswith("#2")}
    (copied,) = names
    tokens = np.concatenate([drawn[(drawn == token).any(1)][:100], drawn[:200]])
    clean, source = model.run(tokens), model.run(rng.permutation(drawn)[:300])
    for name, here in ((copied, tokens != token), (f"{copied}#2", tokens == token)):
        changed = swapped(task, tokens, **{name: source[name]}) != clean[model.output]
        assert changed.any() and not changed[~here].any()
    strata = {stratum.name: stratum for stratum in task.domain.strata()}
    rare = strata["the rare token"].draw(rng, 50, False)
    assert (rare == token).any(1).all() and rare.shape == (50, task.length)
    truth = find_truth(align(task, shape(task).graph))
    assert {task.alignment[copied], task.alignment[f"{copied}#2"]} <= set(truth.names("node", State.REQUIRED))


def test_a_wide_network_has_the_circuit_anywhere():
    task = get_task("max_with_previous[regime=wide,times=12]")
    alone, wide = (shape(each).graph for each in (task.base, task))
    assert len(wide.nodes) - 1 >= 12 * (len(alone.nodes) - 1)
    places = [dict(get_task(f"max_with_previous[regime=wide,draw={draw}]").alignment) for draw in range(9)]
    assert len({tuple(place.values()) for place in places}) >= 6
    plain, truth = (find_truth(align(each, shape(each).graph)) for each in (task.base, task))
    assert [truth.count(level, State.REQUIRED) for level in ("node", "qkv_edge")] == [
        plain.count(level, State.REQUIRED) for level in ("node", "qkv_edge")
    ]


def test_layers_of_large_models():
    cfg = shape(get_task("detect_abc[regime=normed,norm=RMS,positions=rotary,mlp=gated]"))
    assert (cfg.normalization, cfg.positions, cfg.mlp) == ("RMS", "rotary", "gated")
    assert shape(get_task("detect_abc[regime=normed]")).normalization == "LN"
    plain = shape(get_task("detect_abc"))
    assert (cfg.n_layers, cfg.n_heads, cfg.d_model) == (plain.n_layers, plain.n_heads, plain.d_model)


def test_more_values_than_dimensions():
    """Five tokens, nine positions, five previous tokens and yes or no, in a third of as many dimensions."""
    task = get_task("equals_two_back[regime=superposed]")
    assert task.listing()[-1] == "21 values in 7 dimensions"
    narrow, plain = shape(task), shape(task.base)
    assert (narrow.d_model, plain.d_model) == (7, 16)
    assert (narrow.n_layers, narrow.n_heads, narrow.d_mlp) == (plain.n_layers, plain.n_heads, plain.d_mlp)
    assert shape(get_task("frac_prevs[regime=superposed,share=0.5]")).d_model == 5, "a number is one feature"


def test_regimes_keep_the_nodes_that_a_program_asks_for():
    """`frac_prevs` has its output at another head than Tracr's."""
    task = get_task("frac_prevs[regime=normed]")
    wanted = align(task.base, shape(task.base).graph).nodes
    assert align(task, shape(task).graph).nodes == wanted


@pytest.mark.parametrize(
    "name, said",
    [
        ("ioi[regime=rare]", "task ioi has no token that can be rare"),
        ("hist[regime=rare,share=0.001]", "regime rare: share"),
        ("detect_abc[regime=rare]", "no token with which both"),
        ("max_with_previous[regime=shares]", "has no variable for regime=shares"),
        ("detect_abc[regime=alive,regime=wide]", "alive already; copies= and heads= say how large it is"),
        ("detect_abc[regime=wide,regime=alive]", "is wide already; regime=alive says by copies="),
        ("two_brackets_balanced[regime=wide,times=30]", "nodes, more than 900; try times="),
        ("detect_abc[regime=alive,regime=normed]", "regime=normed comes before regime=alive"),
        ("detect_abc[regime=alive,regime=rare]", "regime=rare comes before regime=alive"),
        ("hist[regime=wide,times=99]", "regime wide: times"),
        ("hist[regime=normed,norm=Layer]", "regime normed: norm"),
        ("hist[regime=rare,regime=rare]", "is rare already"),
        ("detect_abc[regime=alive,regime=superposed]", "regime=superposed comes before regime=alive"),
        ("detect_abc[regime=superposed,regime=superposed]", "31 values are in 10 dimensions as it is"),
    ],
)
def test_what_a_regime_cannot_do_is_said_in_one_line(name, said):
    with pytest.raises(InterpBenchError) as error:
        get_task(name)
    assert said in str(error.value) and "\n" not in str(error.value)


RARE = (
    "add_next",
    "all_even",
    "count_a",
    "equals_mirror",
    "hist",
    "max_with_previous",
    "trend_to_next",
)
"""Tasks in which the last token will do, and in which it is another one."""


@pytest.mark.parametrize("name", RARE)
def test_both_copies_act_and_the_second_where_the_token_stands(name):
    task = get_task(f"{name}[regime=rare]")
    rng, model, domain = np.random.default_rng(3), task.causal_model, task.domain
    tokens = domain.with_token(rng, domain.draw(rng, 2000))
    source, clean = model.run(domain.draw(rng, 2000)), model.run(tokens)
    copies = [each for each in model.variables if each.endswith("#2")]
    for names in (copies, [each.removesuffix("#2") for each in copies]):
        swaps = {each: Intervention(source[each], np.ones(2000, bool)) for each in names}
        assert model.effective(clean, model.run(tokens, swaps)).any(), names
    truth = find_truth(align(task, shape(task).graph))
    assert task.alignment[copies[0]] in truth.names("node", State.REQUIRED)


@pytest.mark.parametrize("draw", range(3))
@pytest.mark.parametrize("name", ["detect_abc", "all_even", "polynomial_value"])
def test_bystanders_of_shares_read_copies_and_no_fillers(name, draw):
    """A filler can stand at a node with the name of a unit's home."""
    task = get_task(f"{name}[regime=cancelling,regime=alive,draw={draw}]")
    align(task, shape(task).graph), align(task.crowd, shape(task).graph)
    tokens = task.domain.draw(np.random.default_rng(0), 100)
    crowd = task.crowd.causal_model.run(tokens)
    np.testing.assert_array_equal(crowd[task.crowd.causal_model.output], task.causal_model.outputs(tokens))
