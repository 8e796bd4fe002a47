"""RASP programs: interpreter, causal model and compiled network agree; placement is Tracr's."""

import dataclasses
import hashlib
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import haiku as hk
import numpy as np
import pytest
import torch
from tracr.compiler import assemble, compiling
from tracr.rasp import rasp

from interpbench.causal.model import NONE, has_value
from interpbench.circuits.components import EMBED, Node
from interpbench.core.errors import TaskError
from interpbench.rasp import mechanisms as mech
from interpbench.rasp.compile import BOS, MLP_EXACTNESS, Compiled, compile_program
from interpbench.rasp.placement import layers, place
from interpbench.rasp.program import WIDTH_HEAD, Program
from interpbench.rasp.weights import compiled_network
from interpbench.tasks.catalogue import catalogue
from interpbench.tasks.task import Task
from interpbench.transformer.model import Transformer
from interpbench.transformer.patching import record

WHOLE_DOMAIN, SAMPLES = 2000, 300


def equal(key: Any, query: Any) -> bool:
    return key == query


def shift(by: int, of: Any) -> Any:
    return rasp.Aggregate(rasp.Select(rasp.indices, rasp.indices, lambda key, query: key == query + by), of)


def attention_after_attention() -> Any:
    return shift(1, shift(-1, shift(1, rasp.tokens)).named("middle"))


def heads_of_unequal_depth() -> Any:
    """Two heads and a width of depth 1, a head of depth 2, an MLP that waits for all."""
    early = rasp.SequenceMap(lambda x, y: x + y, shift(1, rasp.tokens), shift(-1, rasp.tokens))
    late = shift(1, shift(1, rasp.tokens))
    count = rasp.SelectorWidth(rasp.Select(rasp.tokens, rasp.tokens, equal))
    return rasp.SequenceMap(lambda x, y: x + y, rasp.SequenceMap(lambda x, y: f"{x}{y}", early, count), late)


def keys_from_attention() -> Any:
    """A head whose keys another head computes, and a width whose queries an MLP computes."""
    following = shift(1, rasp.indices).named("following")
    before = rasp.Aggregate(rasp.Select(following, rasp.indices, equal), rasp.tokens).named("before")
    doubled = rasp.Map(lambda x: x * 2, rasp.indices).named("doubled")
    ahead = rasp.SelectorWidth(rasp.Select(rasp.indices, doubled, lambda key, query: key >= query))
    return rasp.SequenceMap(lambda x, y: 10 * x + y, before, ahead)


EXTRA = [
    Task("attention_after_attention", "", attention_after_attention, ("a", "b", "c"), 5, "bidirectional"),
    Task("heads_of_unequal_depth", "", heads_of_unequal_depth, ("a", "b"), 5, "bidirectional"),
    Task("keys_from_attention", "", keys_from_attention, (0, 1, 2, 3, 4, 5), 3, "bidirectional"),
    Task("values_wider_than_keys", "", lambda: shift(-1, rasp.tokens), tuple(range(12)), 3, "causal"),
]
TASKS = {task.name: task for task in [*catalogue().values(), *EXTRA]}
every_task = pytest.mark.parametrize("name", TASKS)


@cache
def compiled(name: str) -> Compiled:
    return compile_program(TASKS[name].program)


@cache
def network(name: str) -> Transformer:
    return compiled_network(compiled(name))


@cache
def inputs(name: str) -> np.ndarray:
    domain = TASKS[name].domain
    return domain.all() if domain.size <= WHOLE_DOMAIN else domain.draw(np.random.default_rng(0), SAMPLES)


def run(model: Transformer, token_ids: np.ndarray) -> np.ndarray:
    """Returns logits `[row, pos, class]`, BOS left out."""
    with torch.no_grad():
        return model(torch.from_numpy(token_ids))[:, 1:].numpy()


def assert_same_values(ours: list[Any], theirs: list[Any]) -> None:
    assert [x is None for x in ours] == [x is None for x in theirs]
    for x, y in zip(ours, theirs):
        assert x == y or abs(x - y) < 1e-9


@every_task
def test_causal_model_equals_interpreter(name: str) -> None:
    task, tokens = TASKS[name], inputs(name)
    ours = task.model.decode(task.model.output, task.model.run(tokens)[task.model.output])
    for row, values in zip(tokens, ours):
        assert_same_values(values, task.program.interpret([task.vocab[code] for code in row]))


@every_task
def test_compiled_network_equals_causal_model(name: str) -> None:
    task, tokens = TASKS[name], inputs(name)
    wanted, logits = task.model.outputs(tokens), run(network(name), task.token_ids(tokens))
    scored = has_value(wanted)
    if task.model.numerical:
        assert logits.shape[-1] == 1
        np.testing.assert_allclose(logits[..., 0][scored], wanted[scored], atol=1e-3)
    else:
        np.testing.assert_array_equal(logits.argmax(-1)[scored], wanted[scored])


@every_task
def test_classes_are_tracr_s_in_sorted_order(name: str) -> None:
    classes = TASKS[name].model.classes
    if classes is None:
        assert [direction.value for direction in compiled(name).output_basis] == [None]
    else:
        assert list(classes) == [direction.value for direction in sorted(compiled(name).output_basis)]
        assert list(classes) == sorted(classes)  # type: ignore[type-var]


def tracr_placement(made: Compiled) -> dict[str, Node]:
    """Returns where Tracr's assembler puts the block that writes a variable's directions."""
    _, modules = assemble._get_model_config_and_module_names(made.craft)
    nodes: dict[str, Node] = {}
    for module, block in zip(modules, made.craft.blocks):
        layer = int(re.findall(r"\d+", module)[0])
        if module.endswith("mlp"):
            written = {direction.name for direction in block.snd.output_space.basis}
            nodes |= {name: Node(layer) for label, name in made.labels.items() if label in written}
        else:
            for head, parts in enumerate(block.as_multi().heads()):
                label = parts.w_ov.output_space.basis[0].name
                counted = label.removesuffix("_selector_width_attn_output")
                nodes[made.labels[counted] + (WIDTH_HEAD if counted != label else "")] = Node(layer, head)
    return nodes


@every_task
def test_placement_is_tracr_s(name: str) -> None:
    ours = {variable: node for variable, node in place(TASKS[name].program).items() if node != EMBED}
    assert ours == tracr_placement(compiled(name))


@every_task
def test_shape_is_tracr_s(name: str) -> None:
    theirs, _ = assemble._get_model_config_and_module_names(compiled(name).craft)
    ours = network(name).cfg
    assert (ours.n_layers, ours.n_heads) == (theirs.num_layers, theirs.num_heads)
    assert ours.d_mlp == theirs.mlp_hidden_size
    assert ours.d_head >= theirs.key_size


def test_extra_programs_are_what_they_are_for() -> None:
    assert network("attention_after_attention").cfg.n_layers == 3
    heads = [node for node in TASKS["heads_of_unequal_depth"].placement.values() if node.head is not None]
    assert {node.layer for node in heads} == {0, 1}
    theirs, _ = assemble._get_model_config_and_module_names(compiled("values_wider_than_keys").craft)
    assert network("values_wider_than_keys").cfg.d_head > theirs.key_size


def test_layers_are_the_next_with_room() -> None:
    attention, mlp = False, True
    assert layers([]) == []
    assert layers([mlp, mlp, attention, mlp]) == [0, 1, 2, 2]
    assert layers([attention, attention, mlp, attention]) == [0, 1, 1, 2]


@every_task
def test_compilation_has_no_memory(name: str) -> None:
    first = network(name)
    for other in ("hist", "paren_balance"):
        compile_program(dataclasses.replace(TASKS[other]).program)
    again = compile_program(dataclasses.replace(TASKS[name]).program)
    assert again.labels == compiled(name).labels
    for ours, theirs in zip(compiled_network(again).parameters(), first.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def digest(names: list[str]) -> str:
    """Returns a hash of these tasks' compiled weights."""
    made = hashlib.sha256()
    for name in names:
        for weight in network(name).parameters():
            made.update(weight.detach().numpy().tobytes())
    return made.hexdigest()


def test_compilation_does_not_depend_on_the_hash_seed() -> None:
    names = ["mean_of_ends", "first_occurrences", "keys_from_attention"]
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    printed = subprocess.run(
        [sys.executable, "-c", f"import test_rasp; print(test_rasp.digest({names}), end='')"],
        cwd=Path(__file__).parent,
        env=os.environ | {"PYTHONHASHSEED": seed},
        capture_output=True,
        check=True,
        text=True,
    )
    assert printed.stdout == digest(names)


@pytest.mark.parametrize("name", ["frac_prevs", "mean_of_ends"])
def test_network_equals_tracr_s_own(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Tracr overwrites the initial weights; compiling their random draws would take JAX most of the time.
    zeros = lambda self, shape, dtype: np.zeros(shape, dtype)  # noqa: E731
    monkeypatch.setattr(hk.initializers.VarianceScaling, "__call__", zeros)
    task, tokens = TASKS[name], inputs(name)[:5]
    program = task.program
    theirs = compiling.compile_rasp_to_model(
        program.expression,
        set(program.vocab),
        program.length,
        causal=program.causal,
        compiler_bos=BOS,
        mlp_exactness=MLP_EXACTNESS,
    )
    model = network(name)
    ids = torch.from_numpy(task.token_ids(tokens))
    logits, recorded = record(model, ids)
    for row, values in enumerate(tokens):
        applied = theirs.apply([BOS, *(program.vocab[code] for code in values)])
        residual = recorded.residuals[-1][..., row].T.detach().numpy()
        np.testing.assert_allclose(residual, np.asarray(applied.transformer_output)[0], atol=1e-3)
        if program.model.classes is None:
            ours = logits[0, 1:, row].tolist()
            assert ours == pytest.approx(applied.decoded[1:], abs=1e-4)
        else:
            ours = [program.model.classes[code] for code in logits[:, 1:, row].argmax(0)]
            assert ours == applied.decoded[1:]


# Edge cases of mechanisms: codes 0, 1, … into values, -1 for None; one row, so `[0]` below.

ALWAYS = mech.selection(lambda key, query: True, (0, 1, 2), (0, 1, 2), causal=False)
NEVER = mech.selection(lambda key, query: False, (0, 1, 2), (0, 1, 2), causal=False)
SAME = mech.selection(equal, (0, 1, 2), (0, 1, 2), causal=False)
SEEN = mech.selection(lambda key, query: True, (0, 1, 2), (0, 1, 2), causal=True)


def codes(*values: int) -> np.ndarray:
    return np.array([values], np.int16)


@pytest.mark.parametrize(
    ("values", "picked"),
    [
        ((2, 1, 1), 1),  # the most frequent
        ((2, 1, 0), 0),  # the first in class order among equals
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
    assert mech.pick(SEEN, 3)(here, here, codes(2, 1, 1, 0))[0].tolist() == [2, 1, 1, 1]


def test_pick_does_what_the_compiled_network_does() -> None:
    expression = rasp.Aggregate(rasp.Select(rasp.tokens, rasp.tokens, equal), rasp.indices)
    vote = rasp.Aggregate(rasp.Select(rasp.indices, rasp.indices, lambda k, q: True), rasp.tokens)
    for program in (Program(expression, ("a", "b"), 5, False), Program(vote, ("a", "b", "c"), 5, True)):
        size = len(program.vocab)
        tokens = np.array(list(np.ndindex(*[size] * 5)), np.int16)
        ids = np.concatenate([np.full((len(tokens), 1), size), tokens], 1).astype(np.int64)
        picked = run(compiled_network(compile_program(program)), ids).argmax(-1)
        np.testing.assert_array_equal(picked, program.model.outputs(tokens))


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
    "expression",
    [
        rasp.tokens,
        rasp.Aggregate(rasp.Select(rasp.tokens, rasp.tokens, equal), rasp.tokens, default="a"),
        rasp.numerical(
            rasp.Aggregate(
                rasp.Select(rasp.tokens, rasp.tokens, equal),
                rasp.numerical(rasp.Map(lambda x: 2.0, rasp.tokens)),
                default=0,
            )
        ),
    ],
)
def test_what_tracr_cannot_compile_is_a_task_error(expression: Any) -> None:
    with pytest.raises(TaskError, match="cannot compile"):
        compile_program(Program(expression, ("a", "b"), 3, False))
