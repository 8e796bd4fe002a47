"""RASP programs: interpreter, causal model and compiled network agree; the alignment is Tracr's."""

import dataclasses
import hashlib
import itertools
import os
import re
import subprocess
import sys
from contextlib import nullcontext
from functools import cache
from typing import Any

import haiku as hk
import numpy as np
import pytest
import torch
from tracr.compiler import assemble, compiling
from tracr.craft.transformers import MLP
from tracr.rasp import causal_eval, rasp

import interpbench.rasp.compile as compile_module
from interpbench.causal.model import has_value
from interpbench.circuits.naming import EMBED, Node
from interpbench.core.errors import TaskError
from interpbench.rasp import mechanisms as mech
from interpbench.rasp.compile import BOS, MLP_EXACTNESS, Compiled, compile_program
from interpbench.rasp.compiled_alignment import compiled_alignment, layers
from interpbench.rasp.program import WIDTH_HEAD, Program
from interpbench.rasp.weights import compiled_network
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.task import RaspTask
from interpbench.transformer.model import Transformer
from interpbench.transformer.recording import record
from tests import ROOT
from tests.builders import RASP, some

SOME = 64
WHOLE_DOMAIN, SAMPLES = 20_000, 2000
"""Slow tests run the whole domain, or this many inputs of a larger one."""
MARGIN = 0.9
"""How far the right class of a compiled network is ahead of all others."""


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
    RaspTask(
        name="attention_after_attention",
        description="",
        build=attention_after_attention,
        vocab=("a", "b", "c"),
        length=5,
        attention="bidirectional",
    ),
    RaspTask(
        name="heads_of_unequal_depth",
        description="",
        build=heads_of_unequal_depth,
        vocab=("a", "b"),
        length=5,
        attention="bidirectional",
    ),
    RaspTask(
        name="keys_from_attention",
        description="",
        build=keys_from_attention,
        vocab=(0, 1, 2, 3, 4, 5),
        length=3,
        attention="bidirectional",
    ),
    RaspTask(
        name="values_wider_than_keys",
        description="",
        build=lambda: shift(-1, rasp.tokens),
        vocab=tuple(range(12)),
        length=3,
        attention="causal",
    ),
]
TASKS = {task.name: task for task in [*map(get_task, RASP), *EXTRA]}
every_task = pytest.mark.parametrize("name", TASKS)


@cache
def compiled(name: str) -> Compiled:
    return compile_program(TASKS[name].program)


@cache
def network(name: str) -> Transformer:
    return compiled_network(compiled(name))


def inputs(name: str, many: bool = False) -> np.ndarray:
    domain, count = TASKS[name].domain, SAMPLES if many else SOME
    if domain.size <= (WHOLE_DOMAIN if many else SOME):
        return domain.all()
    return domain.draw(np.random.default_rng(many), count)


def assert_same_values(ours: list[Any], theirs: list[Any]) -> None:
    assert [x is None for x in ours] == [x is None for x in theirs]
    for x, y in zip(ours, theirs):
        assert x == y or abs(x - y) < 1e-9


some_and_many = pytest.mark.parametrize(
    "many", [False, pytest.param(True, marks=pytest.mark.exhaustive)], ids=["some", "many"]
)


@every_task
@some_and_many
def test_causal_model_equals_interpreter(name: str, many: bool) -> None:
    task, tokens = TASKS[name], inputs(name, many)
    ours = task.causal_model.decode(
        task.causal_model.output, task.causal_model.run(tokens)[task.causal_model.output]
    )
    for row, values in zip(tokens, ours):
        assert_same_values(values, task.program.interpret([task.vocab[code] for code in row]))


def share_kept_by_bos(name: str) -> float:
    """Returns the share of attention that BOS keeps from a single selected key, which Tracr's scale leaves.

    The key's score is 100 and that of BOS 50, both divided by the root of Tracr's key size.
    """
    theirs, _ = assemble._get_model_config_and_module_names(compiled(name).craft)
    return float(np.exp(-50 / theirs.key_size**0.5))


@every_task
@some_and_many
def test_compiled_network_equals_causal_model(name: str, many: bool) -> None:
    task, tokens = TASKS[name], inputs(name, many)
    for rows in np.array_split(tokens, 1 + len(tokens) // 1000):
        wanted = task.causal_model.outputs(rows)
        scored = has_value(wanted)
        assert scored.any()
        with torch.no_grad():
            logits = network(name)(torch.from_numpy(task.token_ids(rows)))[:, 1:].numpy()
        if task.causal_model.numerical:
            assert logits.shape[-1] == 1
            tolerance = max(1e-3, share_kept_by_bos(name))
            np.testing.assert_allclose(logits[..., 0][scored], wanted[scored], atol=tolerance)
        else:
            logits, right = logits[scored], wanted[scored, None]
            ahead = np.take_along_axis(logits, right, -1)
            np.put_along_axis(logits, right, -np.inf, -1)
            assert (ahead[:, 0] - logits.max(-1)).min() > MARGIN


@every_task
def test_classes_are_tracr_s_in_sorted_order(name: str) -> None:
    values = {direction.value for direction in compiled(name).output_basis}
    classes = TASKS[name].causal_model.classes
    assert values == {None} if classes is None else classes == mech.sort_values(values)


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
def test_the_alignment_is_tracr_s(name: str) -> None:
    nodes = compiled_alignment(TASKS[name].program)
    ours = {variable: node for variable, node in nodes.items() if node != EMBED}
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
    nodes = TASKS["heads_of_unequal_depth"].default_alignment.values()
    heads = [node for node in nodes if node.head is not None]
    assert {node.layer for node in heads} == {0, 1}
    theirs, _ = assemble._get_model_config_and_module_names(compiled("values_wider_than_keys").craft)
    wide = network("values_wider_than_keys")
    assert wide.cfg.d_head > theirs.key_size
    scores = wide.blocks[0].attn.W_Q[0] @ wide.blocks[0].attn.W_K[0].T / wide.cfg.d_head**0.5
    assert scores.max().item() == pytest.approx(100 / theirs.key_size**0.5)  # Tracr's coldness, Tracr's scale


def test_layers_are_the_next_with_room() -> None:
    attention, mlp = False, True
    assert layers([]) == []
    assert layers([mlp, mlp, attention, mlp]) == [0, 1, 2, 2]
    assert layers([attention, attention, mlp, attention]) == [0, 1, 1, 2]


@pytest.mark.parametrize("name", some(TASKS, 8))
def test_compilation_has_no_memory(name: str) -> None:
    first = network(name)
    for other in ("hist", "paren_balance"):
        compile_program(dataclasses.replace(TASKS[other]).program)
    again = compile_program(dataclasses.replace(TASKS[name]).program)
    assert again.labels == compiled(name).labels
    for ours, theirs in zip(compiled_network(again).parameters(), first.parameters(), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("name", ["mean_of_ends", "paren_balance", "divide_by_max", "keys_from_attention"])
def test_whole_matrices_are_what_tracr_computes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_module, "whole_matrices", nullcontext)
    theirs = compile_program(dataclasses.replace(TASKS[name]).program)
    for ours, block in zip(compiled(name).craft.blocks, theirs.craft.blocks, strict=True):
        assert isinstance(ours, MLP) == isinstance(block, MLP)
        if isinstance(ours, MLP):
            for mine, his in ((ours.fst, block.fst), (ours.snd, block.snd)):
                assert mine.input_space == his.input_space and mine.output_space == his.output_space
                assert mine.matrix.tobytes() == his.matrix.tobytes()


def digest(names: list[str]) -> str:
    """Returns a hash of these tasks' compiled weights."""
    weights = (weight.detach().numpy() for name in names for weight in network(name).parameters())
    return hashlib.sha256(b"".join(weight.tobytes() for weight in weights)).hexdigest()


def test_compilation_does_not_depend_on_the_hash_seed() -> None:
    names = ["mean_of_ends", "first_occurrences", "keys_from_attention"]
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    printed = subprocess.run(
        [sys.executable, "-c", f"from tests.rasp.test_rasp import digest; print(digest({names}), end='')"],
        cwd=ROOT,
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
        if program.causal_model.classes is None:
            ours = logits[0, 1:, row].tolist()
            assert ours == pytest.approx(applied.decoded[1:], abs=1e-4)
        else:
            ours = [program.causal_model.classes[code] for code in logits[:, 1:, row].argmax(0)]
            assert ours == applied.decoded[1:]


SAME_TOKEN = rasp.Select(rasp.tokens, rasp.tokens, equal)
TWO = rasp.numerical(rasp.Map(lambda x: 2.0, rasp.tokens))
UNCOMPILABLE = {
    "an input": rasp.tokens,
    "a categorical default": rasp.Aggregate(SAME_TOKEN, rasp.tokens, default="a"),
    "a mean of other numbers than 0 and 1": rasp.numerical(rasp.Aggregate(SAME_TOKEN, TWO, default=0)),
}


@pytest.mark.parametrize("expression", UNCOMPILABLE.values(), ids=UNCOMPILABLE.keys())
def test_what_tracr_cannot_compile_is_a_task_error(expression: Any) -> None:
    with pytest.raises(TaskError, match="cannot compile"):
        compile_program(Program(expression, ("a", "b"), 3, False))


def pair(a: Any, b: Any) -> Any:
    return rasp.SequenceMap(lambda a, b: (a, b), a, b)


BEFORE = rasp.Select(rasp.indices, rasp.indices, rasp.Comparison.LT)
PLACES = pair(rasp.tokens, rasp.indices)
COMPOSED = {
    "and": (
        rasp.SelectorAnd(SAME_TOKEN, BEFORE),
        "Select(pair(k1, k2), pair(q1, q2), lambda k, q: first(k[0], q[0]) and second(k[1], q[1]))",
        rasp.Select(PLACES, PLACES, lambda k, q: k[0] == q[0] and k[1] < q[1]),
    ),
    "or": (
        rasp.SelectorOr(SAME_TOKEN, BEFORE),
        "Select(k, q, lambda k, q: first(k, q) or second(k, q))",
        rasp.Select(PLACES, PLACES, lambda k, q: k[0] == q[0] or k[1] < q[1]),
    ),
    "not": (
        rasp.SelectorNot(SAME_TOKEN),
        "Select(k, q, lambda k, q: not predicate(k, q))",
        rasp.Select(rasp.tokens, rasp.tokens, lambda k, q: k != q),
    ),
}


@pytest.mark.parametrize(("refused", "said", "instead"), COMPOSED.values(), ids=COMPOSED.keys())
def test_a_refused_selector_says_what_to_write_instead(refused: Any, said: str, instead: Any) -> None:
    """What it says compiles, and selects the same."""
    with pytest.raises(TaskError, match="composite selector") as caught:
        _ = Program(rasp.SelectorWidth(refused), ("a", "b"), 3, True).causal_model
    assert said in str(caught.value)
    theirs, ours = rasp.SelectorWidth(refused), Program(rasp.SelectorWidth(instead), ("a", "b"), 3, True)
    for tokens in itertools.product("ab", repeat=3):
        assert ours.interpret(tokens) == causal_eval.evaluate(theirs, list(tokens))
    assert compile_program(ours).program is ours
