"""Power curves: what counts as found, which edges a dial is about, and what makes noise louder."""

import json

import numpy as np
import torch

from benchmarks.dialled_networks import changed_answers, copied, louder
from benchmarks.power import (
    FALSE_POSITIVES,
    METHODS,
    RESULTS,
    TASKS,
    VALUES,
    WHOLE,
    Point,
    dialled,
    draw,
    merged,
    name_of,
    power,
)
from interpbench.checkpoints.checkpoint_files import in_regimes, released
from interpbench.checkpoints.load import load_checkpoint
from interpbench.circuits.graph import Graph
from interpbench.circuits.ground_truth import State
from interpbench.circuits.naming import edge_name
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.data import draw_pairs
from interpbench.transformer.recording import record


def names(graph: Graph, edges: np.ndarray) -> set[str]:
    return {edge_name(graph.nodes[writer], graph.readers[reader]) for reader, writer in np.argwhere(edges)}


def test_an_edge_is_found_above_all_but_one_percent_of_the_forbidden_ones() -> None:
    checkpoint = load_checkpoint(in_regimes()["trend_to_next[regime=rare]"])
    truth, edges = checkpoint.truth, dialled(checkpoint, "share")
    forbidden = np.argwhere(truth.qkv_edges == State.FORBIDDEN)
    spare = len(forbidden) // FALSE_POSITIVES
    assert spare == 1, "one of a hundred may be above"
    scores = np.where(truth.graph.legal, 0.0, np.nan)
    scores[edges] = np.arange(1, edges.sum() + 1)
    assert power(truth, edges, scores) == 1
    scores[tuple(forbidden[3])] = 100.0
    assert power(truth, edges, scores) == 1
    scores[tuple(forbidden[7])] = 2.0
    assert power(truth, edges, scores) == (edges.sum() - 2) / edges.sum(), "what is no higher is not found"
    assert power(truth, edges, np.where(truth.graph.legal, 0.0, np.nan)) == 0


def test_the_edges_of_a_dial_are_those_of_its_copies() -> None:
    rare = load_checkpoint(in_regimes()["trend_to_next[regime=rare]"])
    second = next(node for node, own in rare.variables.items() if any(name.endswith("#2") for name in own))
    found = names(rare.truth.graph, dialled(rare, "share"))
    assert found and all(str(second) in name for name in found)
    voters = load_checkpoint(in_regimes()["detect_abc[regime=redundant]"])
    (copied,) = {name.partition("#")[0] for own in voters.variables.values() for name in own if "#" in name}
    copies = [
        str(node) for node, own in voters.variables.items() if copied in {n.partition("#")[0] for n in own}
    ]
    found = names(voters.truth.graph, dialled(voters, "copies"))
    assert len(copies) == 3 and found == {
        name
        for name in names(voters.truth.graph, voters.truth.circuit)
        if any(copy in name for copy in copies)
    }


def test_louder_noise_is_that_of_nodes_after_the_circuit() -> None:
    """Around their mean; all others write what they did, and the mean logits are the same."""
    checkpoint = load_checkpoint(in_regimes()["trend_to_next[regime=noisy]"])
    pairs, nodes = draw_pairs(get_task(checkpoint.task), 256), checkpoint.truth.graph.nodes
    network = louder(checkpoint, 3.0)
    assert network is not None
    runs = [record(one, pairs.clean) for one in (checkpoint.network, network)]
    (logits, before), (again, after) = ((run[0][:, 1:], run[1].stack[:, :, 1:]) for run in runs)
    later = torch.tensor([node.layer == 1 for node in nodes])
    torch.testing.assert_close(before[~later], after[~later], rtol=0, atol=0)
    spread, wider = (written.std((2, 3)).norm(dim=1) for written in (before, after))
    torch.testing.assert_close(wider[later], 3 * spread[later], rtol=1e-2, atol=1e-3)
    torch.testing.assert_close(again.mean((1, 2)), logits.mean((1, 2)), rtol=1e-3, atol=1e-3)
    assert changed_answers(checkpoint, network) < 0.01
    ends_last = load_checkpoint(in_regimes()["differs_from_both_neighbours[regime=rare]"])
    assert louder(ends_last, 3.0) is None


def test_a_wide_network_answers_as_the_one_whose_nodes_it_has() -> None:
    """Its circuit has as many edges, on nodes of its own, among many times as many."""
    alone = load_checkpoint(released()["trend_to_next"])
    network, truth = copied("trend_to_next[regime=wide,times=6]", alone)
    assert changed_answers(alone, network) == 0
    required = [(each.qkv_edges == State.REQUIRED).sum() for each in (truth, alone.truth)]
    assert required[0] == required[1] and len(truth.nodes) > 5 * len(alone.truth.nodes)


def test_names_and_figure(tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    assert name_of("copies", "hist", 3) == "hist[regime=redundant]"
    assert name_of("copies", "hist", 5) == "hist[regime=redundant,copies=5]"
    assert name_of("width", "hist", 30) == "hist[regime=wide,times=30]"
    assert name_of("share", "hist", 0.2) == "hist[regime=rare]"
    monkeypatch.setattr("benchmarks.power.FIGURE", tmp_path / "power.png")
    draw([Point("share", "trend_to_next", value, "exact", (0.0, value)) for value in (0.1, 0.5, 1.0)])
    assert (tmp_path / "power.png").stat().st_size > 5_000


def test_what_was_measured_on_networks_that_are_gone_is_kept() -> None:
    """A dial of several networks is replaced value by value, one of a single network as a whole."""
    stored = [
        Point("copies", "hist", 3, "exact", (0.5,)),
        Point("copies", "hist", 5, "exact", (0.4,)),
        Point("copies", "hist", 3, "eap", (0.3,)),
        Point("noise", "hist", 10.1, "exact", (0.2,)),
        Point("noise", "hist", 20.2, "exact", (0.1,)),
    ]
    made = [Point("copies", "hist", 3, "exact", (1.0,)), Point("noise", "hist", 10.2, "exact", (1.0,))]
    assert merged(stored, []) == stored
    assert merged(stored, made) == [*stored[1:3], *made]


def test_the_stored_numbers_are_whole() -> None:
    points = [Point(**one) for one in json.loads(RESULTS.read_text())]
    places = [(point.dial, point.task, point.method, point.value) for point in points]
    assert len(set(places)) == len(places)
    for dial in VALUES:
        measured = {point.task for point in points if point.dial == dial}
        assert measured <= set(TASKS[dial]) and (dial in WHOLE or measured == set(TASKS[dial]))
        for task in measured:
            here = [point for point in points if (point.dial, point.task) == (dial, task)]
            values = {name: {f"{p.value:.3g}" for p in here if p.method == name} for name in METHODS}
            default = [each for name, each in values.items() if not METHODS[name][1]]
            most = max(default, key=len)
            assert all(each <= most for each in values.values()), (dial, task)
            assert all(each == most for each in default) or dial == "width", (dial, task)
            assert dial not in ("share", "width") or len(most) == len(VALUES[dial])
