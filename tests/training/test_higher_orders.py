"""Certificates of what matters only together with others: it is patched with the others of its witness."""

import numpy as np
import torch

from interpbench.alignment.structure import structural_reads
from interpbench.causal.model import Intervention
from interpbench.circuits.certificate import OWN_SOURCES
from interpbench.training.recipe import Recipe
from interpbench.training.sampling import Sampler
from tests.builders import CPU, chunk_of, intervention_tests_of

VOTE = "max_with_previous[regime=redundant]"


def test_the_program_is_asked_with_the_others_patched_too():
    """Row by row, against the program with the same of its reads intervened on."""
    tests = intervention_tests_of(VOTE)
    chunk, alignment = chunk_of(tests, rows=200), tests.evaluation.alignment
    model, (source,) = alignment.task.causal_model, chunk.sources
    clean = chunk.base.trace[model.output]
    assert set(tests.places["required_edges"]) == set(tests.truth.required)
    everywhere = np.ones(200, bool)
    for name, witness in tests.truth.witnesses["qkv_edge"].items():
        answers = {}
        for patched in ((name, *witness.others), witness.others):
            reads = {
                read: Intervention(source.trace[read[1].parent], everywhere)
                for place, those in structural_reads(alignment).items()
                if tests.edge_name(np.array(place)) in patched
                for read in those
            }
            answers[patched] = model.run(chunk.base.tokens, None, reads)[model.output]
        together, alone = answers.values()
        np.testing.assert_array_equal(tests._with_required(name, chunk.base, source), together)
        np.testing.assert_array_equal(alone, clean)
        assert (together != clean).any(1).mean() > 0.3, (
            "the claim is about many rows, not of the witness alone"
        )


def test_a_network_without_the_voters_fails():
    """Its voters are silent, so that single patches of theirs change nothing, as they should."""
    tests = intervention_tests_of(VOTE)
    network = tests.evaluation.network
    with torch.no_grad():
        network.blocks[0].attn.W_O.zero_()
    chunk = chunk_of(tests, rows=300)
    names = list(tests.truth.witnesses["qkv_edge"])
    outcomes = list(tests.measure(chunk, {"effective_edges": names, "required_edges": names}))
    effective = {each.place: each for each in outcomes if each.kind == "effective_edges"}
    assert set(effective) == set(names)
    for name, outcome in effective.items():
        assert outcome.counts.sum() > 50, name
        assert tests.effect[name] == [0, 300], "and it says that patching them has no effect"


def test_a_network_that_takes_one_voter_alone_fails_where_single_edges_are_patched():
    """The program's answer stays with one voter patched, so that a network that follows it is wrong."""
    tests = intervention_tests_of(VOTE)
    chunk = chunk_of(tests, rows=300, sources=2)
    ev, inert = tests.evaluation, [tests.edge_name(edge) for edge in tests.inert]
    voters = [name for name in tests.truth.witnesses["qkv_edge"] if name.startswith("a0")]
    assert set(voters) <= set(inert), "each of them alone has to leave the output"
    routes = np.zeros((300, *tests.truth.graph.legal.shape), np.int8)
    for name, source in zip(voters, (1, 2)):
        reader, writer = tests.inert[inert.index(name)]
        routes[:, reader, writer] = source
    answers = tests.answers(chunk.base, chunk.sources, routes)
    model = ev.causal_model
    votes = [chunk.sources[0].trace["previous"], chunk.sources[1].trace["previous"]]
    third = chunk.base.trace["previous"]
    agree = (votes[0] == votes[1]) | (votes[1] == third)
    wanted = np.where(agree, votes[1], votes[0])
    literal = model.run(
        chunk.base.tokens,
        {name: Intervention(wanted, np.ones(300, bool)) for name in ("previous", "previous#2", "previous#3")},
    )
    np.testing.assert_array_equal(answers, literal[model.output], "two sources, and the earliest of three")
    assert OWN_SOURCES in tests.places["edge_sets"]


def test_training_draws_sets_of_voters_each_from_a_source_of_its_own():
    tests = intervention_tests_of(VOTE)
    batch = Sampler(tests.evaluation.alignment, tests.truth, Recipe(), 256, 0)(0, CPU)
    assert batch.edge_sources.ndim == 3
    places = [
        tests.inert[[tests.edge_name(edge) for edge in tests.inert].index(name)]
        for name in ("a0.h0->m0", "a0.h1->m0", "a0.h2->m0")
    ]
    patched = torch.stack([batch.edges[r, w] for r, w in places])
    sources = torch.stack([batch.edge_sources[r, w] for r, w in places])
    assert (patched.sum(0) >= 2).float().mean() > 0.2
    differ = (patched.sum(0) >= 2) & ((sources * patched).amax(0) > (sources + 2 * (1 - patched)).amin(0))
    assert differ.float().mean() > 0.02
