"""Ground truth against a literal oracle; what an alignment may say."""

import itertools
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from tracr.rasp import rasp

from interpbench.alignment.alignment import align
from interpbench.alignment.find_ground_truth import PAIRS as TRUTH_PAIRS
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.alignment.structure import structural_edges
from interpbench.circuits.graph import Graph
from interpbench.circuits.ground_truth import LEVELS, State, Truth
from interpbench.core import seeds
from interpbench.core.errors import InterpBenchError, TaskError, UnknownNameError
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.shapes import shape
from interpbench.tasks.task import AttentionKind, RaspTask, Task
from interpbench.training.interventional_accuracy import Evaluation
from tests.builders import RASP
from tests.oracles.truth import Oracle

PAIRS = 100


def one_edge_to_two_maps() -> Any:
    """The MLP computes two maps of the token; the first that reads it is ignored afterwards."""
    ignored = rasp.Map(lambda token: token == "a", rasp.tokens).named("ignored")
    heeded = rasp.Map(lambda token: token == "b", rasp.tokens).named("heeded")
    return rasp.SequenceMap(lambda x, y: y, ignored, heeded).named("second")


def queries_and_keys_from_one_node() -> Any:
    """A head whose queries and keys the same MLP computes: two q/k/v edges, one head edge."""
    shifted = rasp.Map(lambda token: token + 1, rasp.tokens).named("shifted")
    found = rasp.Aggregate(rasp.Select(shifted, shifted, lambda key, query: key == query), rasp.tokens)
    return found.named("found")


def rasp_task(build: Any, vocab: tuple[Any, ...], attention: AttentionKind) -> RaspTask:
    """Makes a task of two tokens that is not registered."""
    return RaspTask(
        name=build.__name__, description="", build=build, vocab=vocab, length=2, attention=attention
    )


EXTRA = {
    task.name: task
    for task in (
        rasp_task(one_edge_to_two_maps, ("a", "b", "c"), "causal"),
        rasp_task(queries_and_keys_from_one_node, (0, 1, 2), "bidirectional"),
    )
}


def task_of(name: str) -> Task:
    return EXTRA[name] if name in EXTRA else get_task(name)


def oracle(name: str, pairs: int = TRUTH_PAIRS) -> tuple[Truth, Oracle]:
    task = task_of(name)
    alignment = align(task, shape(task).graph)
    return find_truth(alignment, pairs), Oracle(task, alignment.nodes)


def sampled(name: str, count: int) -> list[tuple[tuple[object, ...], tuple[object, ...]]]:
    """Returns the pairs on which `find_truth` looks if it gets `count`."""
    task, rng = task_of(name), seeds.generator(0, "truth", name)
    if task.domain.size**2 <= 4 * count:
        return list(itertools.product(itertools.product(task.vocab, repeat=task.length), repeat=2))
    bases, sources = task.domain.draw(rng, count), task.domain.draw(rng, count)
    return [
        (tuple(task.vocab[code] for code in base), tuple(task.vocab[code] for code in source))
        for base, source in zip(bases, sources)
    ]


def check(truth: Truth, literal: Oracle, pairs: Iterable[Any]) -> None:
    """Required is what the oracle finds effective, allowed the rest of the program's graph."""
    effective, structural = literal.effective(pairs), literal.structural()
    for level in LEVELS:
        required, allowed = (set(truth.names(level, state)) for state in (State.REQUIRED, State.ALLOWED))
        assert required == effective[level], level
        assert required | allowed == structural[level], level


def test_the_oracle_is_the_interpreter() -> None:
    for task in map(get_task, RASP):
        literal = Oracle(task, task.default_alignment)
        for tokens, _ in sampled(task.name, 20):
            ours, theirs = literal.run(tokens)[literal.output], task.program.interpret(list(tokens))
            assert [x is None for x in ours] == [x is None for x in theirs]
            assert all(x is None or x == pytest.approx(y) for x, y in zip(ours, theirs))


def test_frac_prevs_on_every_pair_of_inputs() -> None:
    inputs = list(itertools.product("abcx", repeat=4))
    check(*oracle("frac_prevs"), itertools.product(inputs, inputs))


@pytest.mark.parametrize("name", [*EXTRA, *(name for name in RASP if name != "frac_prevs")])
def test_truth_on_sampled_pairs(name: str) -> None:
    check(*oracle(name, PAIRS), sampled(name, PAIRS))


def test_truth_of_a_hand_example() -> None:
    truth, _ = oracle("trend_to_next")  # which neighbour is next does not depend on the tokens
    assert truth.names("node", State.REQUIRED) == ["embed", "a0.h0", "m0"]
    required = ["embed->a0.h0<v>", "embed->m0", "a0.h0->m0", "m0->logits"]
    assert truth.names("qkv_edge", State.REQUIRED) == required
    assert truth.names("qkv_edge", State.ALLOWED) == ["embed->a0.h0<q>", "embed->a0.h0<k>"]


def test_forbidden_edges_of_compiled_networks_do_nothing(compiled: Any) -> None:
    network, alignment, truth = compiled
    evaluation = Evaluation(network, alignment)
    domain = alignment.task.domain
    base, source = (evaluation.activations(domain.draw(np.random.default_rng(i), 64)) for i in (0, 1))
    wanted = evaluation.predictions(base.logits)
    forbidden = np.argwhere(truth.qkv_edges == State.FORBIDDEN)
    scored = alignment.task.scored(base.trace[alignment.task.causal_model.output])
    for number, predictions in evaluation.single_edges(base, source.stack, forbidden):
        np.testing.assert_allclose(
            predictions[scored], wanted[scored], atol=1e-4, err_msg=str(forbidden[number])
        )


# What an alignment may say.

GRAPH = Graph(2, 4)


def test_an_override_moves_a_variable() -> None:
    task = get_task("frac_prevs")
    assert str(align(task, GRAPH).nodes["frac_prevs"]) == "a1.h2"  # the task's own
    alignment = align(task, GRAPH, {"frac_prevs": "a1.h0"})
    assert {name: str(node) for name, node in alignment.nodes.items()} == {
        **{"tokens": "embed", "indices": "embed", "is_x": "m0", "frac_prevs": "a1.h0"}
    }
    assert find_truth(alignment).names("qkv_edge", State.REQUIRED) == [
        "embed->m0",
        "m0->a1.h0<v>",
        "a1.h0->logits",
    ]


@pytest.mark.parametrize(
    ("override", "error", "message"),
    [
        (
            {"frac_prevs": "a2.h0"},
            TaskError,
            "frac_prevs is at a2.h0, but the network has 2 layers of 4 heads",
        ),
        (
            {"frac_prevs": "a1.h4"},
            TaskError,
            "frac_prevs is at a1.h4, but the network has 2 layers of 4 heads",
        ),
        (
            {"frac_prevs": "m1"},
            TaskError,
            "frac_prevs is at m1, which has no input 'q'; align it with a head",
        ),
        ({"is_x": "a0.h1"}, TaskError, "is_x is at a0.h1, which has no input 'mlp'; align it with an MLP"),
        (
            {"frac_prevs": "a0.h0"},
            TaskError,
            "at a0.h0 cannot read is_x at m0, which does not come before a0.h0",
        ),
        ({"is_x": "m1"}, TaskError, "frac_prevs at a1.h2 cannot read is_x at m1, which does not come before"),
        ({"is_x": "embed"}, TaskError, "is_x is at embed, which has no input 'mlp'"),
        ({"frac_prev": "a1.h0"}, UnknownNameError, "'frac_prev'; did you mean frac_prevs?"),
        ({"frac_prevs": "head 3"}, InterpBenchError, "'head 3' is not a node; write embed, a0.h1"),
    ],
)
def test_illegal_overrides_are_refused(
    override: dict[str, str], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)):
        align(get_task("frac_prevs"), GRAPH, override)


def test_two_steps_do_not_share_an_mlp() -> None:
    with pytest.raises(
        TaskError, match="opposite at m1 cannot read distance at m1, which does not come before m1"
    ):
        align(get_task("reverse"), Graph(4, 4), {"opposite": "m1"})


@pytest.mark.parametrize("override", [{"tokens": "a0.h0"}, {"indices": "a1.h0"}])
def test_inputs_are_at_no_head(override: dict[str, str]) -> None:
    with pytest.raises(TaskError, match=f"{next(iter(override))} .*embed"):
        align(get_task("frac_prevs"), GRAPH, override)


def test_a_network_that_is_too_small_is_refused() -> None:
    with pytest.raises(TaskError, match=r"task mean_of_ends: .* but the network has 1 layers of 4 heads"):
        align(get_task("mean_of_ends"), Graph(1, 4))


def test_every_label_that_a_node_reads_is_an_edge() -> None:
    """The 129 published programs have 644 edges between nodes; the published rule finds 622 of them."""
    count = 0
    for task in map(get_task, RASP):
        if task.legacy_id is not None:
            edges = structural_edges(align(task, shape(task).graph))
            count += len({(node, reader.destination) for reader, node in edges})
    assert count == 644
