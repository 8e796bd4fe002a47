"""Copies of a circuit, between which nothing but the draw of the circuit tells."""

import numpy as np
import pytest

from interpbench.alignment.alignment import align
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.alignment.peers import copies_of_circuit
from interpbench.core.errors import TaskError
from interpbench.scoring.against_copies import auroc_against_copies
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.shapes import shape


def copies(name: str, pairs: int = 300):
    """Returns a task's truth, and the nodes and edges of the copies of its circuit."""
    task = get_task(name)
    truth = find_truth(align(task, shape(task).graph), pairs)
    return truth, copies_of_circuit(task, truth)


@pytest.mark.parametrize("name", ["hist[regime=alive]", "detect_abc[regime=alive,copies=3]"])
def test_the_first_copy_is_the_circuit_and_all_have_its_form(name):
    truth, found = copies(name)
    last = truth.graph.readers[-1]
    assert last.slot == "logits"
    circuit = truth.circuit.copy()
    circuit[-1] = False
    assert (found[0][1] == circuit).all(), "all but the edge into the logits"
    assert len(found) >= 2
    for nodes, edges in found:
        assert edges.sum() == circuit.sum() and nodes.sum() == found[0][0].sum()
        assert not edges[-1].any() and not nodes[0]
    for _, edges in found[1:]:
        assert (edges & ~circuit).any()


def test_what_does_not_look_at_the_draw_has_one_half_over_all_draws():
    """Exactly, for any fixed scores: each copy is as likely the circuit as any other."""
    rng = np.random.default_rng(0)
    for name in ("hist[regime=alive]", "detect_abc[regime=alive,copies=3]"):
        edges = [each for _, each in copies(name)[1]]
        values = rng.normal(size=edges[0].shape)
        turned = [[edges[first], *edges[:first], *edges[first + 1 :]] for first in range(len(edges))]
        assert np.mean([auroc_against_copies(values, order) for order in turned]) == pytest.approx(0.5)
        assert auroc_against_copies(edges[0].astype(float), edges) == 1.0
        assert auroc_against_copies(-edges[0].astype(float), edges) == 0.0


def test_where_circuits_are_in_other_networks_tells_edges_but_no_copies():
    """An entrant who knows how programs are drawn guesses by the layers and kinds of an edge's ends."""
    found = [copies(f"random_rasp[seed={100 + seed},regime=alive]", 60) for seed in range(16)]
    shapes = {truth.graph for truth, _ in found}
    graph = max(shapes, key=lambda each: sum(truth.graph == each for truth, _ in found))
    alike = [(truth, each) for truth, each in found if truth.graph == graph]
    assert len(alike) >= 8
    against, plain = [], []
    for left_out, (truth, each) in enumerate(alike):
        prior = np.mean([one.circuit for number, (one, _) in enumerate(alike) if number != left_out], axis=0)
        against.append(auroc_against_copies(prior, [edges for _, edges in each]))
        legal = graph.legal
        plain.append(auroc_against_copies(prior[legal], [truth.circuit[legal], ~truth.circuit[legal]]))
    assert np.mean(plain) > 0.75
    values = np.array([value for value in against if value is not None])
    assert abs(values.mean() - 0.5) < 3 * values.std(ddof=1) / np.sqrt(len(values))


def test_a_task_without_bystanders_has_no_copies():
    with pytest.raises(TaskError, match="task hist has no copies of its circuit; regime=alive makes them"):
        copies("hist")


def test_pictures_say_what_bystanders_carry():
    """By the names of what they copy; of a task with no bystanders, what is carried is what is aligned."""
    task = get_task("max_with_previous[regime=alive]")
    alignment = align(task, shape(task).graph)
    said = {str(node): names for node, names in alignment.carried.items()}
    copies = dict.fromkeys(("a0.h0", "a0.h1", "a1.h0", "a1.h1"), ("previous",))
    assert said == {**copies, "m0": ("maximum",), "m1": ("maximum",)}
    task = get_task("max_with_previous")
    alone = align(task, shape(task).graph)
    assert alone.carried == alone.aligned_nodes
