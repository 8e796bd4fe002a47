"""What a training step draws: inputs, interventions, and the program's answers to them, row by row."""

import numpy as np
import pytest
import torch

from interpbench.alignment.structure import structural_ends, structural_reads
from interpbench.causal.model import MANY, Intervention, changed
from interpbench.circuits.ground_truth import State
from interpbench.training.draws import Draws
from interpbench.training.failures import Failures
from interpbench.training.objective import Objective
from interpbench.training.recipe import Recipe
from interpbench.training.sampling import Sampler
from interpbench.transformer.recording import record
from interpbench.transformer.routes import Replaced, Routes
from interpbench.transformer.worlds import Plan, Worlds
from tests.builders import CPU, setting


@pytest.mark.parametrize("name", ["frac_prevs", "max_with_previous", "first_occurrences"])
def test_batches_patch_only_what_they_may(name):
    _, alignment, truth = setting(name)
    sampler = Sampler(alignment, truth, Recipe(), 64, 0)
    batch = sampler(3, CPU)
    assert batch.worlds == ("source", "iit", "strict", "edge_strict")
    graph = alignment.graph
    inside = [graph.node_index[node] for node in alignment.aligned_nodes]
    unaligned = [graph.node_index[node] for node in alignment.unaligned_nodes]
    assert not batch.nodes[:, 0].any() and not batch.nodes[:, 3].any()
    assert not batch.nodes[unaligned, 1].any() and not batch.nodes[inside, 2].any()
    assert batch.nodes[inside, 1].any() and batch.nodes[unaligned, 2].any()
    assert set(batch.nodes[inside, 1].unique().tolist()) == {0, 1, 2}, "subsets mix sources"
    required = torch.from_numpy(truth.qkv_edges == State.REQUIRED)
    illegal = torch.from_numpy(truth.qkv_edges == State.ILLEGAL)
    assert not batch.edges[illegal].any()
    used = batch.edges[required].any(0)
    assert 0.1 < used.float().mean() < 0.4, "a quarter of the rows patch one required edge"
    assert set(batch.nodes[unaligned, 2].unique().tolist()) == {0, 1, 2}, "so do sets of forbidden nodes"
    assert set(batch.edge_sources.unique().tolist()) == {0, 1} and batch.places is None
    assert batch.edges[torch.from_numpy(truth.qkv_edges == State.FORBIDDEN)].any(1).float().mean() > 0.9


def test_about_half_of_the_interventions_change_the_output():
    """With 11 values, a single swap of `previous` mostly changes nothing; draws even that out."""
    for name in ("frac_prevs", "frequency_class", "trend_to_next"):
        _, alignment, truth = setting(name)
        sampler = Sampler(alignment, truth, Recipe(), 64, 0)
        drawn = sampler.interventions(np.random.default_rng(0), 2048)
        after = drawn.counterfactual[alignment.task.causal_model.output]
        share = changed(alignment.task.causal_model.outputs(drawn.base), after).any(1).mean()
        assert 0.4 < share < 0.95, (name, share)


def test_rare_effects_are_drawn_more_often_than_chance():
    _, alignment, truth = setting("frequency_class")
    sampler = Sampler(alignment, truth, Recipe(draws=Draws(strata=0)), 64, 0)
    model, domain = alignment.task.causal_model, alignment.task.domain
    rng = np.random.default_rng(0)
    some = sampler.interventions(rng, 2048)
    base, nodes = some.base, some.nodes
    drawn = changed(model.outputs(base), some.counterfactual[model.output]).any(1).mean()
    plain = sampler._swap(
        some.unchanged,
        [model.run(domain.draw(rng, 2048)) for _ in range(2)],
        nodes[[alignment.graph.node_index[n] for n in alignment.aligned_nodes]].T,
    )
    assert drawn > changed(model.outputs(base), plain[model.output]).any(1).mean()


def test_targets_are_the_programs_answers():
    _, alignment, truth = setting("max_with_previous")
    sampler = Sampler(alignment, truth, Recipe(), 32, 0)
    batch = sampler(0, CPU)
    task = alignment.task
    for world in (0, 2):
        outputs = task.causal_model.outputs(batch.tokens[world, :, 1:].numpy())
        scored = batch.weights[:, world].numpy().T > 0
        np.testing.assert_array_equal(scored, outputs >= 0)
        np.testing.assert_array_equal(batch.targets[:, world].numpy().T[scored], outputs[scored])


def test_swapped_rows_answer_what_the_program_answers_row_by_row():
    """The second source of a row is the next row of the source world, in kernel and program alike."""
    _, alignment, truth = setting("max_with_previous")
    batch = Sampler(alignment, truth, Recipe(), 16, 0)(1, CPU)
    model, graph = alignment.task.causal_model, alignment.graph
    tokens = batch.tokens[:, :, 1:].numpy()
    for row in range(16):
        trace = [model.run(tokens[0, [(row + shift) % 16]]) for shift in range(2)]
        swaps = {
            name: Intervention(trace[source - 1][name], np.ones(1, bool))
            for node, names in alignment.aligned_nodes.items()
            for name in names
            if (source := int(batch.nodes[graph.node_index[node], 1, row]))
        }
        output = model.run(tokens[1, [row]], swaps)[model.output][0]
        scored = batch.weights[:, 1, row].numpy() > 0
        np.testing.assert_array_equal(scored, output >= 0)
        np.testing.assert_array_equal(batch.targets[:, 1, row].numpy()[scored], output[scored])


@pytest.mark.parametrize("name", ["max_with_previous", "frac_prevs", "ioi_published_prompts"])
def test_probes_ask_for_the_programs_variables_in_every_world(name):
    """World by world and row by row, with the program run on that row alone, padding included."""
    _, alignment, truth = setting(name)
    batch = Sampler(alignment, truth, Recipe(Objective(probe=1.0)), 8, 0)(1, CPU)
    model, graph = alignment.task.causal_model, alignment.graph
    bos = len(alignment.task.vocab)
    tokens = batch.tokens[:, :, 1:].numpy()
    tokens = np.where(tokens > bos, -1, tokens)
    names = [name for names in alignment.aligned_nodes.values() for name in names]
    assert list(batch.values) == names
    for row in range(8):
        sources = [model.run(tokens[0, [(row + shift) % 8]]) for shift in range(2)]
        swaps = {
            name: Intervention(sources[source - 1][name], np.ones(1, bool))
            for node, names in alignment.aligned_nodes.items()
            for name in names
            if (source := int(batch.nodes[graph.node_index[node], 1, row]))
        }
        wanted = [sources[0], model.run(tokens[1, [row]], swaps), model.run(tokens[2, [row]])]
        for world, trace in enumerate(wanted):
            for name in names:
                value = batch.values[name][:, world, row].numpy()
                np.testing.assert_allclose(value, trace[name][0], rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "alone"),
    [("max_with_previous", 0.0), ("frac_prevs", 0.0), ("ioi_published_prompts", 0.0), ("frac_prevs", 1.0)],
)
def test_edge_rows_answer_what_the_program_answers_edge_by_edge(name, alone):
    """Row by row: each patched read gets its parent's value from the row's own source for it."""
    _, alignment, truth = setting(name)
    draws = Draws(required=0.5, own_sources=0.7, edges_alone=alone)
    sampler = Sampler(alignment, truth, Recipe(draws=draws), 16, 0)
    batch, model = sampler(1, CPU, failures=Failures({"edge_sets all": 0.1})), alignment.task.causal_model
    rows = batch.tokens.shape[1]
    assert rows == (32 if alone else 16), "edges have the rows of the other terms as well"
    tokens = batch.tokens[:, :, 1:].numpy()
    tokens = np.where(tokens > len(alignment.task.vocab), -1, tokens)
    for row in range(rows):
        sources = [model.run(tokens[0, [(row + shift) % rows]]) for shift in range(2)]
        edges, swaps = {}, {}
        for (reader, writer), reads in structural_reads(alignment).items():
            source = sources[int(batch.edge_sources[writer, row])]
            if batch.edges[reader, writer, row]:
                edges |= {read: Intervention(source[read[1].parent], np.ones(1, bool)) for read in reads}
                end = structural_ends(alignment).get((reader, writer))
                for variable in () if end is None else alignment.variables_at(end):
                    swaps[variable] = Intervention(source[variable], np.ones(1, bool))
        output = model.run(tokens[-1, [row]], swaps, edges)[model.output][0]
        scored = batch.weights[:, -1, row].numpy() > 0
        there = ~np.isnan(output) if model.numerical else output >= 0
        np.testing.assert_array_equal(scored, there)
        np.testing.assert_allclose(batch.targets[:, -1, row].numpy()[scored], output[scored], rtol=1e-6)


def test_rows_swapped_at_one_position_answer_what_the_program_answers():
    _, alignment, truth = setting("max_with_previous")
    batch = Sampler(alignment, truth, Recipe(draws=Draws(positions=0.5)), 32, 0)(1, CPU)
    model, graph = alignment.task.causal_model, alignment.graph
    tokens, places = batch.tokens[:, :, 1:].numpy(), batch.places[1].numpy() > 0
    assert 0.3 < (places.sum(0) == 1).mean() < 0.7 and not places[0, places.sum(0) == 1].any()
    assert batch.places[0].all() and batch.places[2:].all()
    for row in range(32):
        trace = [model.run(tokens[0, [(row + shift) % 32]]) for shift in range(2)]
        swaps = {
            name: Intervention(trace[source - 1][name], places[None, 1:, row])
            for node, names in alignment.aligned_nodes.items()
            for name in names
            if (source := int(batch.nodes[graph.node_index[node], 1, row]))
        }
        output = model.run(tokens[1, [row]], swaps)[model.output][0]
        scored = batch.weights[:, 1, row].numpy() > 0
        np.testing.assert_array_equal(scored, output >= 0)
        np.testing.assert_array_equal(batch.targets[:, 1, row].numpy()[scored], output[scored])


def test_a_step_patches_what_its_batch_says():
    """The training kernel, world by world, against routes of every row: sources, places and edges alike."""
    network, alignment, truth = setting("max_with_previous")
    network.requires_grad_(False)
    batch = Sampler(alignment, truth, Recipe(draws=Draws(positions=0.5, own_sources=0.8)), 16, 0)(1, CPU)
    logits, planned = (
        network.run(
            network.embedding(batch.tokens.flatten(0, 1)),
            Worlds(batch.nodes, batch.edges, (), (), False, batch.places, batch.edge_sources, plan),
        ).unflatten(2, (4, 16))
        for plan in (None, batch.plan)
    )
    assert Plan.of(batch.nodes.numpy(), batch.edge_sources.numpy()) != batch.plan
    assert torch.equal(logits, planned), "a plan may have swaps that no row takes"
    legal = torch.from_numpy(alignment.graph.legal)
    source = record(network, batch.tokens[0])[1].stack
    given = torch.stack([source, source.roll(-1, -1)], 1)
    base = network.embedding(batch.tokens[1])
    for world in (1, 2, 3):
        routes = batch.nodes[:, world].T[:, None] * legal  # [row, R, W]
        if world == 3:
            routes = (batch.edges * (1 + batch.edge_sources)).permute(2, 0, 1)
        masks = torch.stack([routes == 1, routes == 2], -1).float()
        for place in range(batch.tokens.shape[2]):  # a row is swapped at some places only: these rows alone
            everywhere = batch.places[world, :, :].all(0) if world == 1 else torch.ones(16, dtype=torch.bool)
            expected = network.run(base, Routes(masks, given, by_row=True))[:, place]
            torch.testing.assert_close(logits[:, place, world][:, everywhere], expected[:, everywhere])
    one = torch.where(batch.places[1][None, None] > 0, 1.0, 0.0)
    swapped = batch.nodes[:, 1]
    patch = torch.where((swapped == 2)[:, None, None], given[:, 1], given[:, 0])
    clean = record(network, batch.tokens[1])[1].stack
    single = (swapped > 0).sum(0) == 1  # with one node swapped, what it writes elsewhere is clean
    mixed = patch * one[0] + clean * (1 - one[0])
    expected = network.run(base, Replaced(swapped > 0, mixed))
    torch.testing.assert_close(logits[:, :, 1][..., single], expected[..., single], rtol=1e-4, atol=1e-5)


def test_batches_of_a_pool_differ_in_their_tensors_alone():
    _, alignment, truth = setting("max_with_previous")
    sampler = Sampler(alignment, truth, Recipe(draws=Draws(positions=0.5)), 16, 0)
    first, second = sampler(0, CPU), sampler(1, CPU)
    made = first.with_tensors(second.tensors())
    assert made.plan == second.plan and made.worlds == second.worlds
    assert all(map(torch.equal, made.tensors().values(), second.tensors().values()))
    assert {"tokens", "places", "edge_sources", *(f"values/{name}" for name in first.values)} <= set(
        first.tensors()
    )


def test_none_is_never_trained_on():
    _, alignment, truth = setting("first_occurrences")
    batch = Sampler(alignment, truth, Recipe(), 64, 0)(0, CPU)
    outputs = alignment.task.causal_model.outputs(batch.tokens[0, :, 1:].numpy())
    assert (outputs < 0).any()
    assert not batch.weights[:, 0].numpy().T[outputs < 0].any()


@pytest.mark.parametrize("name", ["sort_digits", "identity_by_attention"])
def test_edges_are_alone_while_little_else_is_wrong(name: str) -> None:
    """They have the rows of the other terms then, in three of four pools; guidance goes on as before."""
    _, alignment, truth = setting(name)
    draws = Draws(edges_alone=0.75)
    sampler, usual = (Sampler(alignment, truth, Recipe(draws=one), 64, 0) for one in (draws, Draws()))
    edges = Failures({"required_edges x": 0.5, "nodes y": 0.01})
    alone = ("source", "edge_strict")
    pools = [sampler(step, CPU, failures=edges) for step in range(0, 8 * sampler.steps, sampler.steps)]
    assert [batch.worlds == alone for batch in pools] == 2 * [False, True, True, True]
    for batch in pools[1:4]:
        rows = 64 * len(usual.worlds(0)) // 2
        assert batch.tokens.shape[:2] == (2, rows) and batch.nodes.shape[1:] == (2, rows)
        assert not batch.nodes.any() and batch.edges is not None and batch.edges.shape[2] == rows
        assert sampler.worlds(sampler.steps, edges) == alone
    others = Failures({"required_edges x": 0.5, "nodes y": 0.2})
    for given in (others, Failures()):
        mixed, plain = (one(usual.steps, CPU, failures=given) for one in (sampler, usual))
        assert mixed.worlds == plain.worlds != alone
        assert all(torch.equal(a, b) for a, b in zip(mixed.tensors().values(), plain.tensors().values()))
    task = alignment.task
    many = task.causal_model.head_dimensions > MANY
    assert Draws().of_task(task).edges_alone == (0.75 if many else 0.0)
    assert Draws(edges_alone=0.5).of_task(task).edges_alone == 0.5
