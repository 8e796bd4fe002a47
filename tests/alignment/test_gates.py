"""Gates: how the inputs of a node are joined, against programs of one position that are run pair by pair."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from tracr.rasp import rasp

from interpbench.alignment.alignment import align
from interpbench.alignment.find_gates import KINDS, Gate, find_gates
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.shapes import shape
from interpbench.tasks.task import RaspTask

TOKENS = (0, 1, 2)


def gate_of(function: Callable[[int, int], object]) -> tuple[Gate, list[tuple[int, ...]]]:
    """Returns the gate of an MLP that reads a token and the one before it, and all pairs of inputs."""

    def build() -> rasp.SOp:
        shifted = rasp.Select(rasp.indices, rasp.indices, lambda key, query: key == query - 1)
        previous = rasp.Aggregate(shifted, rasp.tokens).named("previous")
        return rasp.SequenceMap(function, rasp.tokens, previous).named("out")

    task = RaspTask(name="pair", build=build, vocab=TOKENS, length=2, attention="causal")
    gates = find_gates(align(task, shape(task).graph))
    inputs = list(itertools.product(TOKENS, repeat=2))
    return gates["m0"], [(*one, *other) for one in inputs for other in inputs]


FUNCTIONS: dict[str, Callable[[int, int], object]] = {
    "both": lambda x, y: x > 0 and y > 0,
    "either": lambda x, y: x > 0 or y > 0,
    "sum": lambda x, y: x + y,
    "equal": lambda x, y: x == y,
    "largest": max,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_kinds_are_those_of_each_pair_tried_alone(name: str) -> None:
    function = FUNCTIONS[name]
    gate, pairs = gate_of(function)
    assert set(gate.edges) == {"embed->m0", "a0.h0->m0"}
    own, previous = (gate.edges.index(edge) for edge in ("embed->m0", "a0.h0->m0"))
    for number, (y, x, y2, x2) in enumerate(pairs):  # the output at the second position reads both
        clean, whole = function(x, y), function(x2, y2)
        assert gate.moved[:, number, 1].tolist() == [clean != whole] * 2
        for place, alone, rest in (
            (own, function(x2, y), function(x, y2)),
            (previous, function(x, y2), function(x2, y)),
        ):
            breaks, keeps = alone != clean, rest != whole
            others = rest != clean or alone != whole
            wanted = [breaks and not keeps, keeps and not breaks, breaks and keeps and others]
            found = gate.kinds[:, place, number, 1].tolist()
            assert found == [each and clean != whole for each in wanted]


def test_what_alone_is_another_is_joined_to_nothing() -> None:
    """An AND does not add where one of its inputs is the same in both runs: the other decides alone."""
    gate, pairs = gate_of(FUNCTIONS["both"])
    for number, (y, x, y2, x2) in enumerate(pairs):
        if (x > 0) == (x2 > 0) or (y > 0) == (y2 > 0):
            assert not gate.kinds[:, :, number, 1].any()
    for edge in gate.edges:
        assert gate.shares(edge)["adder"] == 0 < gate.shares(edge)["and"]
    both = get_task("detect_abc")
    found = find_gates(align(both, shape(both).graph))["m1"]
    assert all(found.shares(edge)["adder"] == 0 < found.shares(edge)["or"] for edge in found.edges)


def test_exchanging_clean_and_corrupted_exchanges_and_and_or() -> None:
    alignment = align(get_task("detect_abc"), shape(get_task("detect_abc")).graph)
    domain = alignment.task.domain
    clean, corrupted = domain.draw(np.random.default_rng(0), 400).reshape(2, 200, -1)
    there, back = find_gates(alignment, (clean, corrupted)), find_gates(alignment, (corrupted, clean))
    assert set(there) == set(back) == {"a1.h0", "a1.h1", "m1", "m2"}
    for node, gate in there.items():
        both = gate.moved & back[node].moved  # outputs that there are in both
        assert np.array_equal(gate.kinds[0] & both, back[node].kinds[1] & both)
        assert np.array_equal(gate.kinds[2] & both, back[node].kinds[2] & both)


def test_what_gives_no_output_is_joined_by_nothing() -> None:
    """Where a patch leaves None, neither the edge nor its siblings did what all of them do."""
    gate, pairs = gate_of(lambda x, y: None if x == y else 10 * x + y)
    own = gate.edges.index("embed->m0")
    silent = 0
    for number, (y, x, y2, x2) in enumerate(pairs):
        if x2 == y or x == y2:  # None with the one or the other patched
            silent += x != y and x2 != y2
            assert not gate.kinds[:, :, number, 1].any() and not gate.moved[own, number, 1]
    assert silent > 10


def test_a_sum_adds_and_a_vote_is_joined_by_nothing_of_the_sort() -> None:
    gate, _ = gate_of(lambda x, y: 10 * x + y)
    assert set(gate.shares("embed->m0")) == set(KINDS)
    assert gate.shares("embed->m0")["and"] == gate.shares("embed->m0")["or"] == 0
    task = get_task("max_with_previous[regime=redundant]")
    vote = find_gates(align(task, shape(task).graph))["m0"]
    voters = [edge for edge in vote.edges if edge.startswith("a0")]
    assert len(voters) == 3
    assert all(share == 0 for edge in voters for share in vote.shares(edge).values())
    assert sum(vote.shares("embed->m0").values()) > 0.5
