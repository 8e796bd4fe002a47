"""What makes deep circuits learnable: linear probes that come first, early swaps, the variance penalty."""

import dataclasses

import numpy as np
import pytest
import torch

from interpbench.alignment.alignment import align
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.circuits.ground_truth import required_edges
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.shapes import shape
from interpbench.training.curriculum import Curriculum
from interpbench.training.draws import Draws
from interpbench.training.edge_world import EdgeWorld
from interpbench.training.losses import relative_variance
from interpbench.training.objective import Objective
from interpbench.training.recipe import Recipe
from interpbench.training.sampling import Sampler
from interpbench.training.world_builders import Swapped
from tests.builders import CPU, QUICK, setting, trainer


def test_outputs_can_begin_after_the_probes():
    recipe = Recipe(Objective(probe=1.0), curriculum=Curriculum(outputs_after=64, strict_after=64))
    made = trainer(recipe=recipe, settings=dataclasses.replace(QUICK, batch=64))
    early, late = made.sampler(63, CPU), made.sampler(64, CPU)
    assert early.worlds == ("source", "iit") and not early.weights.any()
    assert early.nodes.any() and early.values, "probes see swaps from the start"
    assert late.worlds == ("source", "iit", "strict", "edge_strict") and late.weights.any((0, 2)).all()


def test_probes_can_end_before_training_does():
    objective = Objective(probe=1.0, attention_supervision=0.0)
    recipe = Recipe(objective, curriculum=Curriculum(probe_until=20))
    made = trainer(recipe=recipe, settings=dataclasses.replace(QUICK, batch=128))
    early, late = made.sampler(31, CPU), made.sampler(32, CPU)
    assert early.values and not late.values, "a pool of draws is all of one kind"
    assert late.worlds == early.worlds
    made.step()
    assert "probe" in made.others
    made.progress.step = 32
    before = [weight.clone() for weight in made.probes.parameters()]
    made.step()
    assert not made.others and all(map(torch.equal, before, made.probes.parameters()))


def test_deep_swaps_are_mostly_of_one_early_unit():
    _, alignment, truth = setting("hist")
    count = len(alignment.aligned_nodes)
    assert count > 1
    drawn = {}
    for kind in ("even", "deep"):
        sampler = Sampler(alignment, truth, Recipe(draws=Draws(swaps=kind)), 64, 0)
        nodes = sampler.interventions(np.random.default_rng(0), 64 * 64).nodes
        swaps = nodes[[alignment.graph.node_index[node] for node in alignment.aligned_nodes]] > 0
        single = swaps.sum(0) == 1
        drawn[kind] = (swaps & single).sum(1) / single.sum()
    assert drawn["even"] == pytest.approx(np.full(count, 1 / count), abs=0.04)
    wanted = np.arange(count, 0, -1.0) ** 2
    assert np.abs(drawn["deep"] - wanted / wanted.sum()).max() < 0.08 and drawn["deep"][0] > drawn["even"][0]


def test_deep_draws_required_edges_late_in_the_circuit():
    _, alignment, truth = setting("hist")
    aligned = [str(node) for node in alignment.aligned_nodes]
    shares = {}
    for kind in ("even", "deep"):
        world = EdgeWorld(alignment, truth, Draws(swaps=kind))
        rng = np.random.default_rng(0)
        bases, sources = (alignment.task.domain.draw(rng, 4096) for _ in range(2))
        clean, trace = map(alignment.task.causal_model.run, (bases, sources))
        swapped = Swapped(bases, (trace, trace), np.zeros(0), None, clean, clean)
        drawn = world._which_required(rng, swapped, np.zeros(len(world.required_edges)))
        shares[kind] = np.bincount(drawn, minlength=len(world.required_edges)) / len(drawn)
    ends = [name.split("->")[1].split("<")[0] for name in truth.required]
    wanted = np.array([(1.0 + aligned.index(end)) ** 2 if end in aligned else 1.0 for end in ends])
    ratio = shares["deep"] / shares["even"]
    assert len(set(wanted)) > 1 and ratio / ratio.max() == pytest.approx(wanted / wanted.max(), rel=0.35)


def test_deep_draws_long_edges_most():
    alignment = align(get_task("ioi"), shape(get_task("ioi")).graph)
    truth = find_truth(alignment, pairs=1000)
    world, names = EdgeWorld(alignment, truth, Draws(swaps="deep")), required_edges(truth)
    assert dict(zip(names, world.weights)) == {
        **{"embed->a1.h1": 1, "a1.h1->a2.h1": 4, "embed->a2.h1": 16},
        **{"a2.h1->a4.h1": 9, "embed->a4.h1": 81, "a4.h1->logits": 1},
    }


def test_the_variance_penalty_has_unaligned_nodes_write_the_same_for_every_input():
    written = torch.randn(3, 4, 5, 6, generator=torch.Generator().manual_seed(0))
    parts = [
        [np.var(node[d, t].numpy(), ddof=1) for d in range(4) for t in range(5)] for node in written.unbind()
    ]
    bos = torch.full((3, 4, 1, 6), 7.0)
    blocks = torch.cat([bos, written], 2).split([1, 2])
    means = [float(np.mean(part)) for part in parts]
    assert float(relative_variance(blocks, [1, 2])) == pytest.approx(sum(means[1:]) / means[0], rel=1e-5)
    alone = {"behaviour": 0.0, "iit": 0.0, "strict": 0.0, "edge_strict": 0.0}
    made = trainer(
        recipe=Recipe(Objective(**alone, variance_penalty=1.0)),
        settings=dataclasses.replace(QUICK, max_steps=200),
    )
    sums = []
    for _ in range(100):
        made.step()
        sums.append(float(made.others["variance_penalty"].detach()))
    assert sums[-1] < 0.1 * sums[0]
    aligned = [made.truth.graph.node_index[node] for node in made.evaluation.alignment.aligned_nodes]
    run = made.evaluation.activations(made.evaluation.task.domain.all())
    variance = run.stack.var(-1).mean((1, 2))
    assert variance[aligned].max() > 100 * variance[made.sampler.forbidden_nodes].max()


def test_each_weight_multiplies_its_loss_once():
    """But for flatness and secrecy, which few tasks have (`test_flatness.py`, `test_secrecy.py`)."""
    left_out = ("bos_slack", "flatness", "secrecy")
    names = [name for name in Objective.__dataclass_fields__ if name not in left_out]
    weights = {name: 2.0 + number for number, name in enumerate(names)}
    ones = dict.fromkeys(names, 1.0)
    once, weighted = (
        made._terms(made.step())
        for made in (trainer(recipe=Recipe(Objective(**given)), name="ioi") for given in (ones, weights))
    )
    assert set(once) == set(names) and all(once.values())
    assert weighted == pytest.approx({name: weights[name] * value for name, value in once.items()}, rel=1e-5)
