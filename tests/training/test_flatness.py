"""Flatness: patches that go part of the way move nothing, though the whole way changes the answer."""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
import torch

from interpbench.alignment.alignment import align
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.circuits.certificate import Effects
from interpbench.circuits.ground_truth import State, Truth
from interpbench.circuits.naming import edge_name
from interpbench.core import seeds
from interpbench.core.errors import ConfigError, TaskError
from interpbench.runs.train_settings import TrainConfig, check_train
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.shapes import shape
from interpbench.tasks.task import Task
from interpbench.training.effect_sizes import early_effects, effects_of, mean_effects
from interpbench.training.flatness import Flatness, apart, flat_edges, patched_together
from interpbench.training.interventional_accuracy import Evaluation
from interpbench.training.objective import Objective
from interpbench.training.recipe import Recipe
from interpbench.transformer.model import Transformer
from tests.builders import trainer
from tests.oracles.transformer import run

NAME = "equals_two_back[regime=saturated]"


def made(name: str) -> tuple[Task, Truth, Transformer]:
    task = get_task(name)
    return task, find_truth(align(task, shape(task).graph)), Transformer(shape(task), 0)


def names(truth: Truth, edges: np.ndarray) -> set[str]:
    graph = truth.graph
    return {edge_name(graph.nodes[writer], graph.readers[reader]) for reader, writer in np.argwhere(edges)}


@pytest.mark.parametrize("classes", [1, 2, 4])
def test_how_far_logits_are_apart_is_the_root_mean_square_over_differences(classes: int) -> None:
    first, second = torch.randn(2, classes, 3, 5, generator=torch.Generator().manual_seed(classes))
    moved = (second - first).numpy()
    pairs = [(i, j) for i in range(classes) for j in range(i)]
    squares = [(moved[i] - moved[j]) ** 2 for i, j in pairs] or [moved[0] ** 2]
    assert np.allclose(apart(first, second).numpy(), np.sqrt(np.mean(squares, 0)), rtol=1e-5)


def test_what_reads_linearly_cannot_be_flat() -> None:
    """An edge into the logits never can, nor can the values of a head that the logits read."""
    _, truth, _ = made(NAME)
    assert names(truth, flat_edges(truth)) == {"embed->a0.h0<v>", "embed->m0", "a0.h0->m0"}
    _, truth, _ = made("sum_last_two")
    circuit, flat = names(truth, truth.circuit), names(truth, flat_edges(truth))
    heads = {name.partition("->")[0] for name in circuit if name.endswith("->logits")}
    linear = {name for name in circuit if name.endswith("->logits") or name.partition("->")[2][:-3] in heads}
    assert not flat & {name for name in linear if not name.endswith(("<q>", "<k>"))} and linear


def test_edges_are_patched_alone_and_with_the_others_out_of_their_block() -> None:
    _, truth, _ = made(NAME)
    together = [names(truth, each) for each in patched_together(truth)]
    embedding, heads = together[3:]
    assert sorted(map(len, together[:3])) == [1, 1, 1] and len(together) == 5, "none but the logits read m0"
    assert {"embed->a0.h0<v>", "embed->m0", "embed->m1", "embed->a1.h3<k>"} < embedding
    assert {"a0.h0->m0", "a0.h3->m0", "a0.h1->m1"} < heads
    assert not any(name.endswith("->logits") for each in together for name in each)


def test_the_loss_is_that_of_literal_runs_with_edges_patched_part_of_the_way() -> None:
    task, truth, network = made(NAME)
    rows = 6
    flatness = Flatness(task, truth, rows, torch.device("cpu"))
    shares = flatness.edges.amax((0, 1)).tolist()
    assert shares == pytest.approx([0.125, 0.25, 0.25, 0.25, 0.25, 0.25]), "the last of a set goes to the end"
    tokens = task.token_ids(task.domain.draw(np.random.default_rng(0), rows, True))
    weights = torch.ones(tokens.shape[1] - 1, rows)
    weights[:2] = 0
    with torch.no_grad():
        loss = float(flatness.loss(network, torch.from_numpy(tokens), weights))
    graph, total, leads = truth.graph, 0.0, list[float]()
    network.requires_grad_(False)
    for row in range(rows):
        clean, _ = run(network, tokens[row].tolist())
        _, source = run(network, tokens[(row + 1) % rows].tolist())
        shares = flatness.edges[:, :, row].numpy()
        mixed = defaultdict(lambda: lambda own, _: own)
        for reader, writer in np.argwhere(shares):
            share = float(shares[reader, writer])
            edge = (str(graph.nodes[writer]), str(graph.readers[reader]))
            mixed[edge] = lambda own, other, share=share: own + share * (other - own)
        patched, _ = run(network, tokens[row].tolist(), patch=source, mixed=mixed)
        for before, after, weight in zip(clean[1:], patched[1:], weights[:, row].tolist()):
            leads.append(abs(float(before[0]) - float(before[1])))
            moved = (float(after[0]) - float(before[0])) - (float(after[1]) - float(before[1]))
            total += moved**2 * (weight > 0)
    wanted = total / len(leads) / float(np.mean(leads)) ** 2
    assert loss == pytest.approx(wanted, rel=1e-3) and loss > 0


def test_a_linear_network_is_not_flat_and_the_certificate_says_so() -> None:
    task, truth, network = made(NAME)
    evaluation = Evaluation(network, align(task, truth.graph))
    tokens = task.domain.draw(np.random.default_rng(0), 8, True)
    base, source = map(evaluation.activations, (tokens[:4], tokens[4:]))
    edges = np.argwhere(flat_edges(truth))
    whole = mean_effects(evaluation, base, source, edges)
    evaluation = Evaluation(network, align(replace(task, flat=1.0), truth.graph))
    assert np.allclose(early_effects(evaluation, base, source, edges), whole, rtol=1e-3, atol=1e-5)


def test_the_certificate_states_it_where_the_task_asks_for_it() -> None:
    found: dict[str, Effects] = {}
    for name in (NAME, "equals_two_back"):
        task, truth, network = made(name)
        effects = effects_of(Evaluation(network, align(task, truth.graph)), truth, 0)
        assert effects is not None
        found[name] = effects
    assert found["equals_two_back"].early is None
    early, where = found[NAME].early, found[NAME].early_at
    assert early is not None and where in ("embed->a0.h0<v>", "embed->m0", "a0.h0->m0")
    assert 0 < early


def test_a_task_says_how_far_and_the_objective_follows() -> None:
    flat, clean = get_task(NAME), get_task("equals_two_back")
    assert (flat.flat, clean.flat) == (0.25, 0.0)
    assert (Objective().of_task(flat).flatness, Objective().of_task(clean).flatness) == (3.0, 0.0)
    assert get_task("equals_two_back[regime=baseline]").flat == 0.46
    both = get_task("equals_two_back[regime=saturated,flat=0.3,regime=noisy]")
    assert (both.flat, both.noise) == (0.3, 0.1)
    assert shape(both).d_mlp == 256 and (shape(both).graph == shape(clean).graph)
    with pytest.raises(TaskError, match="is flat already"):
        get_task("equals_two_back[regime=saturated,regime=baseline]")
    with pytest.raises(ConfigError, match=r"flat: input should be less than 0\.5"):
        get_task("equals_two_back[regime=saturated,flat=0.5]")
    _, truth, _ = made(NAME)
    assert truth.count("qkv_edge", State.REQUIRED) == 4


def test_a_step_trains_it_with_its_weight() -> None:
    once, more = (
        made._terms(made.step())["flatness"]
        for made in (trainer(recipe=Recipe(Objective(flatness=weight)), name=NAME) for weight in (1.0, 5.0))
    )
    assert once > 0 and more == pytest.approx(5 * once, rel=1e-5)
    clean = trainer(name="equals_two_back")
    assert "flatness" not in clean._terms(clean.step())


def test_the_largest_early_effect_is_stated() -> None:
    task, truth, network = made(NAME)
    evaluation = Evaluation(network, align(task, truth.graph))
    edges = np.argwhere(flat_edges(truth))
    stated = effects_of(evaluation, truth, 0)
    assert stated is not None and stated.early is not None
    rng = seeds.generator(0, "effects")
    tokens = task.domain.draw(rng, stated.rows, True)
    base, source = map(evaluation.activations, (tokens, task.domain.sources(rng, tokens, True)))
    each = early_effects(evaluation, base, source, edges)
    assert stated.early == pytest.approx(each.max()) and each.max() > each.min()
    reader, writer = edges[each.argmax()]
    assert stated.early_at == edge_name(truth.graph.nodes[writer], truth.graph.readers[reader])


def test_what_cannot_be_trained_is_refused() -> None:
    task, truth, _ = made(NAME)
    with pytest.raises(ConfigError, match=r"trainer.batch=4: each of 5 sets .* try trainer.batch=5"):
        Flatness(task, truth, 4, torch.device("cpu"))
    for task_name, objective, said in (
        ("hist", Objective(flatness=5.0), "objective.flatness: nothing says how flat hist is"),
        (NAME, Objective(behaviour=0.0), "objective.behaviour=0: flatness is asked"),
    ):
        with pytest.raises(ConfigError, match=said):
            check_train(TrainConfig(task_name, objective=objective))
