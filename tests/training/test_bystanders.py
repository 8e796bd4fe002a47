"""Training among bystanders: what is drawn and asked for, row by row, and what is left of it afterwards."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from interpbench.alignment.alignment import align
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.alignment.structure import structural_reads
from interpbench.causal.model import Intervention
from interpbench.circuits.ground_truth import State
from interpbench.training.draws import Draws
from interpbench.training.recipe import Recipe
from interpbench.training.sampling import Sampler
from interpbench.transformer.model import Transformer
from interpbench.transformer.recording import record
from interpbench.transformer.routes import Routes
from interpbench.transformer.worlds import Worlds
from tests.builders import CPU, setting, trainer

TASKS = ("max_with_previous[regime=alive]", "frac_prevs[regime=alive]", "detect_abc[regime=alive]")
KEPT = "max_with_previous[regime=alive]"


def crowd_of(name):
    """Returns the alignment and the truth of all copies."""
    alignment = setting(name)[1]
    joint = align(alignment.task.crowd, alignment.graph)
    return joint, find_truth(joint, pairs=500)


@pytest.mark.parametrize("name", TASKS)
def test_targets_of_every_copy_are_the_programs_row_by_row(name):
    """In each world, with the program of all copies run on that row alone under the row's interventions."""
    joint, truth = crowd_of(name)
    batch, model, graph = Sampler(joint, truth, Recipe(), 16, 0)(1, CPU), joint.task.causal_model, joint.graph
    assert batch.worlds == ("source", "iit", "edge_strict"), "no node is left that carries nothing"
    tokens, several, both = batch.tokens[:, :, 1:].numpy(), 0, 0
    for row in range(16):
        sources = [model.run(tokens[0, [(row + shift) % 16]]) for shift in range(2)]
        everywhere = np.ones(1, bool)
        swaps, edge_swaps = (
            {
                variable: Intervention(sources[source - 1][variable], everywhere)
                for node, variables in joint.aligned_nodes.items()
                for variable in variables
                if (source := int(batch.nodes[graph.node_index[node], world, row]))
            }
            for world in (1, 2)
        )
        reads, ends, both = {}, {}, both + len(edge_swaps)
        for (reader, writer), those in structural_reads(joint).items():
            if not batch.edges[reader, writer, row]:
                continue
            source = sources[int(batch.edge_sources[reader, writer, row])]
            several += len(those) > 0
            reads |= {read: Intervention(source[read[1].parent], everywhere) for read in those}
            if graph.readers[reader] == joint.logits:
                ends |= {
                    variable: Intervention(source[variable], everywhere)
                    for variable in joint.variables_at(graph.nodes[writer])
                    if variable in model.ends
                }
        patched = model.run(tokens[2, [row]], edge_swaps | ends, reads)
        runs = sources[0], model.run(tokens[1, [row]], swaps), patched
        targets = {model.output: batch.targets, **batch.readouts}
        weights = {model.output: batch.weights, **batch.readout_weights}
        assert set(targets) == set(model.ends) == set(weights)
        for world, trace in enumerate(runs):
            for end in model.ends:
                value = trace[end][0]
                there = ~np.isnan(value) if value.dtype.kind == "f" else value >= 0
                np.testing.assert_array_equal(weights[end][:, world, row].numpy() > 0, there)
                given = targets[end][:, world, row].numpy()[there]
                np.testing.assert_allclose(given, value[there], rtol=1e-6)
    assert several > 32, "many rows patch several edges of the copies together"
    assert both > 8, "and swap nodes as well"
    from_each = [(batch.edges * (batch.edge_sources == source)).amax(0) for source in (0, 1)]
    assert (from_each[0] * from_each[1]).sum() > 8, "edges out of one node take different sources"


def test_each_patched_edge_takes_the_source_that_its_batch_says():
    """The last world against routes of every row, with nodes swapped in the same rows."""
    joint, truth = crowd_of(KEPT)
    network = setting(KEPT)[0].requires_grad_(False)
    batch = Sampler(joint, truth, Recipe(draws=Draws(required=1.0, together=1.0)), 16, 0)(1, CPU)
    plan = Worlds(batch.nodes, batch.edges, edge_sources=batch.edge_sources, plan=batch.plan)
    tokens = batch.tokens.flatten(0, 1)
    logits = network.run(network.embedding(tokens), plan).unflatten(2, (3, 16))[:, :, 2]
    source = record(network, batch.tokens[0])[1].stack
    given = torch.stack([source, source.roll(-1, -1)], 1)
    legal = torch.from_numpy(joint.graph.legal)
    swapped = batch.nodes[:, 2].T[:, None] * legal  # [row, R, W]
    patched = (batch.edges * (1 + batch.edge_sources)).permute(2, 0, 1)
    routes = torch.where(patched > 0, patched, swapped)
    masks = torch.stack([routes == 1, routes == 2], -1).float()
    expected = network.run(network.embedding(batch.tokens[2]), Routes(masks, given, by_row=True))
    assert (swapped * patched).any(), "some edges are patched whose node is swapped"
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-5)


def test_the_circuit_is_one_copy_and_all_others_are_forbidden():
    _, alignment, truth = setting(KEPT)
    bystanders = [node for node in alignment.graph.nodes[1:] if node not in alignment.aligned_nodes]
    assert bystanders and all(
        truth.nodes[alignment.graph.node_index[node]] == State.FORBIDDEN for node in bystanders
    )
    _, joint = crowd_of(KEPT)
    alive = (joint.qkv_edges == State.REQUIRED) & (truth.qkv_edges == State.FORBIDDEN)
    assert alive.sum() > 4, "some forbidden edges carry what bystanders read"


def test_losses_of_readouts_are_position_by_position():
    run = trainer(name=KEPT)
    readouts = run._step.readouts
    batch = run.sampler(1, CPU)
    stream = run.network.stream(run.network.embedding(batch.tokens.flatten(0, 1)))
    losses = readouts.losses(stream, batch.readouts, batch.readout_weights)
    assert len(losses) == len(readouts.names) == 3
    for name, unembed, loss in zip(readouts.names, readouts.unembeds, losses):
        weights, targets = batch.readout_weights[name].flatten(1), batch.readouts[name].flatten(1)
        for position, row in [(0, 0), (3, 5), (5, 150)]:
            logits = stream[:, 1 + position, row] @ unembed.W_U + unembed.b_U
            wanted = functional.cross_entropy(logits, targets[position, row]) * weights[position, row]
            assert loss[position, row].item() == pytest.approx(wanted.item(), rel=1e-4, abs=1e-8)
    fresh = Transformer(run.network.cfg, 5)
    assert torch.allclose(readouts.unembeds[0].W_U.std(), fresh.unembed.W_U.std(), rtol=0.3), "starts alike"


def test_training_among_bystanders_is_resumed_to_the_bit_and_leaves_no_trace(tmp_path):
    whole, broken = trainer(name=KEPT), trainer(tmp_path, name=KEPT)
    for _ in range(8):
        whole.step()
    for _ in range(5):
        broken.step()
    broken.save()
    resumed = trainer(tmp_path, name=KEPT)
    assert resumed.resume() and resumed.progress.step == 5
    for _ in range(3):
        resumed.step()
    for name, weight in whole.trained.state_dict().items():
        assert torch.equal(weight, resumed.trained.state_dict()[name]), name
    assert any(name.startswith("readouts") for name, _ in whole.trained.named_parameters())
    assert set(whole.network.state_dict()) == set(Transformer(whole.network.cfg).state_dict())
