"""What methods see of gates: the pairs that are chosen, what is said of a gate, and the table."""

import json

import numpy as np

from benchmarks.gates import (
    BEGIN,
    DIRECTIONS,
    METHODS,
    NETWORKS,
    PAGE,
    RESULTS,
    Seen,
    gates_of,
    pairs_at,
    places_of,
    said,
    table,
)
from interpbench.alignment.alignment import align
from interpbench.alignment.find_gates import KINDS
from interpbench.circuits.naming import edge_name
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.data import draw_pairs
from interpbench.tasks.shapes import shape


def test_only_outputs_of_one_gate_are_scored() -> None:
    task = get_task("equals_two_back")
    alignment = align(task, shape(task).graph)
    pairs = draw_pairs(task, 200, 2)
    gates = gates_of(alignment, pairs)
    assert set(gates) == {"m0"}, "of the head, one edge varies"
    for place, kind in enumerate(KINDS):
        some, names = pairs_at(pairs, gates["m0"], place)
        assert set(names) == {"embed->m0", "a0.h0->m0"}
        assert some.scored.any(1).all() and not some.scored[:, :3].any(), "BOS, and two tokens without output"
        for clean, corrupted, scored in zip(
            some.clean.tolist(), some.corrupted.tolist(), some.scored.tolist()
        ):
            for at in (at for at, each in enumerate(scored) if each):
                (x, y), (x2, y2) = ((side[at], side[at - 2]) for side in (clean, corrupted))
                first, second = x2 == y, x == y2
                alone = (first != (x == y)) + (second != (x == y))
                kept = (second != (x2 == y2)) + (first != (x2 == y2))
                wanted = {"and": (2, 0), "or": (0, 2), "adder": (2, 2)}
                assert (alone, kept) == wanted[kind] and (x == y) != (x2 == y2)


def test_the_ratio_of_two_directions_says_the_gate() -> None:
    noising, denoising = np.array([1.0, 0.1, 1.0, 0.0]), np.array([0.4, 1.0, 0.6, 0.0])
    assert [KINDS[place] for place in said(noising, denoising)] == ["and", "or", "adder", "adder"]


def test_what_was_measured_is_what_the_command_measures() -> None:
    assert {one["network"] for one in json.loads(RESULTS.read_text())} <= set(NETWORKS)


def test_edges_are_found_by_name() -> None:
    graph = shape(get_task("equals_two_back")).graph
    places = places_of(graph, ["embed->m0", "a0.h1->m0"])
    assert {edge_name(graph.nodes[w], graph.readers[r]) for r, w in np.argwhere(places)} == {
        "embed->m0",
        "a0.h1->m0",
    }


def test_the_page_has_the_table_of_what_was_measured() -> None:
    every = [Seen(**one) for one in json.loads(RESULTS.read_text())]
    made = table(every)
    assert f"{BEGIN}\n{made}\n" in PAGE.read_text()
    assert len(made.splitlines()) == 2 + 2 * len(METHODS)
    for one in every:
        assert set(one.found) == set(DIRECTIONS) and one.found["both"] >= 0
    exact = [one for one in every if one.method == "exact"]
    assert all(one.right == 1 for one in exact) and {one.kind for one in exact} == set(KINDS)
