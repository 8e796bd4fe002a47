"""Single edges: what is computed of one node alone, what the screen passes over, and what it would miss."""

import numpy as np
import pytest
import torch

from interpbench.circuits.naming import Node
from interpbench.training.intervention_tests import InterventionTests
from interpbench.training.one_node import reader
from interpbench.training.screening import EdgeScreen
from interpbench.transformer.fast.circuits import Circuits
from interpbench.transformer.fast.frozen_run import frozen_run
from tests.builders import chunk_of, direct, evaluation_of, intervention_tests_of, margin_of, released_tests
from tests.wrong_networks import cancelling_heads, right_network, without_gradients

ARCHITECTURES = (
    *({"normalization": name} for name in (None, "LN", "LNPre", "RMS")),
    {"positions": "rotary", "d_head": 4},
    {"mlp": "gated", "activation": "silu"},
)


@pytest.mark.parametrize("shape", ARCHITECTURES, ids=str)
@pytest.mark.parametrize("name", ["max_with_previous", "frac_prevs"])
def test_where_nothing_is_screened_every_edge_is_run(name, shape):
    """Also an untrained network has rows that are right by chance, and edges that change that."""
    tests = intervention_tests_of(name, **shape)
    chunk = chunk_of(tests)
    expected = direct(tests, chunk)
    screen = EdgeScreen(tests, share=0.0, checks=0.0)
    found = {outcome.place: outcome.right for outcome in screen.measure(chunk, tests.places["edges"])}
    assert list(found) != [] and set(found) == set(expected)
    own = {tests.edge_name(np.array(place)) for place, reads in tests.evaluation.reads.items() if reads}
    for name_of, right in found.items():
        if name_of not in own:  # the program's own edges are held against the program's own answer
            np.testing.assert_array_equal(right, expected[name_of], err_msg=name_of)
    assert screen.run + screen.proved == screen.items


@pytest.mark.parametrize("shape", ARCHITECTURES, ids=str)
def test_one_node_alone_changes_as_it_does_in_the_network(shape):
    tests = intervention_tests_of("max_with_previous", **shape)
    chunk, graph = chunk_of(tests, 8), tests.truth.graph
    ev, base, source = tests.evaluation, chunk.base, chunk.sources[0]
    deltas = source.stack - base.stack
    generator = torch.Generator().manual_seed(0)
    for node in (Node(1, 2), Node(1)):
        there, index = reader(ev.network, node, base), graph.node_index[node]
        gradient = torch.randn(base.stack[index].shape, generator=generator)
        for slot in ("q", "k", "v") if node.head is not None else ("mlp",):
            place = next(
                i for i, r in enumerate(graph.readers) if (r.layer, r.head, r.slot) == (*[1], node.head, slot)
            )
            writers = np.flatnonzero(graph.legal[place])
            (effects,) = there.effects(slot, deltas[writers], [gradient])
            for number, writer in enumerate(writers):
                mask = np.zeros((1, *graph.legal.shape), bool)
                mask[0, place, writer] = True
                written = patched_output(ev, base, source, mask, index)
                change = written - base.stack[index]
                torch.testing.assert_close(
                    effects[number], (gradient * change).sum((0, 1)), atol=1e-4, rtol=1e-4
                )
                rows = torch.arange(8)
                torch.testing.assert_close(
                    there.written(slot, deltas[writer], rows), written, atol=1e-5, rtol=1e-5
                )


def patched_output(ev, base, source, mask, index):
    """Returns what a writer writes with edges patched, by the fast way of circuits."""

    class Kept(Circuits):
        def write(self, writers, outputs):
            written = super().write(writers, outputs)
            if index in writers:
                self.kept = written[list(writers).index(index)]
            return written

        def ignores(self, writers):
            return False

    kept = Kept(torch.from_numpy(mask).float(), source.stack, base.stack)
    with torch.no_grad():
        frozen_run(ev.network, base.stack[0], kept)
    return kept.kept


def test_what_the_screen_passes_over_is_sampled_and_said():
    tests = released_tests("hist")
    chunk = chunk_of(tests, 64)
    screen = EdgeScreen(tests, share=0.5, checks=0.5)
    outcomes = list(screen.measure(chunk, tests.places["edges"]))
    assert screen.items == sum(int(outcome.counts.sum()) for outcome in outcomes)
    passed_over, sampled, wrong = screen.edges.sum(0)
    assert 0 < passed_over < screen.items and passed_over == screen.items - screen.run
    assert screen.proved > 0
    assert 0.4 < sampled / passed_over < 0.6
    assert 0 <= wrong <= sampled and screen.largest >= 0
    counts = screen.counts()
    assert sum(passed for passed, _, _ in counts.edges.values()) == passed_over
    assert counts.sampled == sampled
    some = tests.places["edges"][:3]
    assert {outcome.place for outcome in screen.measure(chunk, some)} == set(some)


def test_an_edge_that_gradients_do_not_see_is_found_by_the_sample():
    """A hidden unit that is off in the clean run has no gradient; one edge turns it on, two nodes later.

    The screen passes over it, as it must by what it knows; the sample is what says so.
    """
    tests = intervention_tests_of("max_with_previous", activation="relu")
    network, graph = tests.evaluation.network, tests.truth.graph
    features = network.cfg.d_model
    for block in network.blocks:  # a network that always answers the first class, by its bias
        for weight in (*block.attn.parameters(), *block.mlp.parameters()):
            weight.zero_()
    network.unembed.W_U.zero_()
    network.unembed.b_U[0] = 5.0
    first, last = network.blocks[0], network.blocks[1]
    first.attn.W_V[3, :, 0] = network.embed.W_E[0] - network.embed.W_E[1]  # differs between tokens
    first.attn.W_O[3, 0, 0] = 1.0
    chunk = chunk_of(tests, 512)
    written = chunk.base.stack[graph.node_index[Node(0, 3)]][0]
    given = chunk.sources[0].stack[graph.node_index[Node(0, 3)]][0]
    last.mlp.W_in[0, 0], last.mlp.W_out[0, 1] = 1.0, 1.0
    last.mlp.b_in[0] = -max(float(written.max()), float(given.max())) + 0.5 * float(written.std())
    network.unembed.W_U[1, 1] = 1e4
    chunk = chunk_of(tests, 512)
    tests.evaluation.right = lambda predictions, wanted: (predictions == 0).all(1)  # what it always answers
    screen = EdgeScreen(tests, share=0.2, checks=1.0)
    edge = "embed->a0.h3<v>"
    (outcome,) = screen.measure(chunk, [edge])
    clean = (tests.evaluation.predictions(chunk.base.logits) == 0).all(1)
    newly = clean & ~outcome.right
    assert features == 12 and newly.sum() > 0, "the edge alone turns the unit on"
    assert screen.edges[:, 2].sum() > 0, "and the sample says that the screen has missed it"


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_a_trained_network_is_screened_without_a_miss(share):
    tests = released_tests("hist")
    chunk = chunk_of(tests, 256)
    expected = direct(tests, chunk)
    screen = EdgeScreen(tests, share, checks=0.02)
    for outcome in screen.measure(chunk, tests.places["edges"]):
        np.testing.assert_array_equal(outcome.right, expected[outcome.place])
    assert screen.run < screen.items / 2 and screen.largest < 1


@pytest.mark.parametrize("dead", [False, True], ids=["with gradients", "without"])
def test_an_edge_into_a_class_that_is_not_the_next_one_is_run(dead):
    """It is not seen by the gradient of the margin, or by none at all where gradients are no numbers."""
    wide = cancelling_heads("hist", 4 * margin_of("hist"), layer=0, signs=(1,), added=True)
    ev, truth = evaluation_of("hist", without_gradients(wide) if dead else wide)
    tests = InterventionTests(ev, truth)
    chunk = chunk_of(tests, 512)
    screen = EdgeScreen(tests, share=0.2, checks=0.0)
    edge = f"embed->a0.h{right_network('hist').cfg.n_heads}<v>"
    (outcome,) = screen.measure(chunk, [edge])
    wrong = ~direct(tests, chunk)[edge]
    assert wrong.sum() > 20
    assert (~outcome.right).sum() > wrong.sum() / 30, "some are run"
    assert edge in dict(screen.watch()), "and from then on all"
    (again,) = screen.measure(chunk, [edge])
    np.testing.assert_array_equal(~again.right, wrong)
