"""Where heads look: what causal models say of it, and training for it."""

import dataclasses

import numpy as np
import pytest
import torch

from interpbench.causal.model import NONE, Intervention
from interpbench.tasks.catalogue import get_task
from interpbench.training.curriculum import Curriculum
from interpbench.training.guidance import SHARP
from interpbench.training.losses import LEAST, attention_loss
from interpbench.training.objective import Objective
from interpbench.training.recipe import Recipe
from interpbench.training.sampling import Sampler
from interpbench.transformer.recording import record
from interpbench.transformer.worlds import Worlds
from tests.builders import CPU, QUICK, setting, trainer

IOI = ("ioi", "ioi_next_token")


@pytest.mark.parametrize("name", IOI)
def test_heads_look_at_what_their_variable_is_made_of(name):
    task = get_task(name)
    tokens = task.domain.draw(np.random.default_rng(0), 64, False)
    trace = task.causal_model.run(tokens)
    duplicate, inhibition, mover = (
        task.causal_model.attended(variable, trace)
        for variable in ("duplicate", "s_inhibition", "name_mover")
    )
    for row, query, key in np.argwhere(duplicate):
        assert tokens[row, key] == tokens[row, query] and key < query
        assert trace["duplicate"][row, query] == key
        value = trace["s_inhibition"][row, query]
        assert inhibition[row, query, key] and value in (NONE, tokens[row, key])
    assert (duplicate.sum(2) == (trace["duplicate"] >= 0)).all() and (inhibition == duplicate).all()
    for row, query, key in np.argwhere(mover):
        assert key <= query and tokens[row, key] < len(task.causal_model.variables["name_mover"].values)


def test_shares_follow_the_program_in_every_world():
    _, alignment, truth = setting("ioi")
    recipe = Recipe(Objective(attention_supervision=1.0, probe=1.0), curriculum=Curriculum(probe_until=64))
    sampler = Sampler(alignment, truth, recipe, 64, 0)
    assert sampler(64, CPU).attended and not sampler(64, CPU).values
    batch = sampler(0, CPU)
    assert batch.worlds == ("source", "iit", "strict", "edge_strict")
    seen = batch.values["duplicate"][:, :-1]  # [P, world, batch]; a patched edge can bring another value
    wanted = batch.attended["s_inhibition"][:, :, :-1]  # [P, T, world, batch]
    assert (wanted.argmax(1)[seen >= 0] == seen[seen >= 0] + 1).all(), "swapped places are looked at"
    assert (wanted.argmax(1)[seen == -1] == 0).all(), "BOS, on padding too"
    for shares in batch.attended.values():
        assert float(shares.sum()) == pytest.approx(1, abs=1e-5)
        assert float(shares[:, 0].sum()) == pytest.approx(0.5 + 0.5 * recipe.objective.bos_slack, abs=1e-5)


def test_the_loss_is_cross_entropy_query_by_query():
    generator = torch.Generator().manual_seed(0)
    pattern = torch.rand(4, 4, 5, generator=generator).softmax(1)
    shares = torch.rand(3, 4, 5, generator=generator)
    literal = -sum(
        float(shares[q, k, n] * torch.log(pattern[q + 1, k, n] + LEAST))
        for q in range(3)
        for k in range(4)
        for n in range(5)
    )
    assert float(attention_loss(pattern, shares)) == pytest.approx(literal, rel=1e-5)


def test_worlds_keep_the_patterns_that_were_used():
    network, alignment, truth = setting("ioi")
    batch = Sampler(alignment, truth, Recipe(), 8, 0)(0, CPU)
    ids = batch.tokens.flatten(0, 1)
    head = alignment.graph.node_index[next(iter(alignment.aligned_nodes))]
    worlds = Worlds(torch.zeros_like(batch.nodes), torch.zeros_like(batch.edges), watch=[head])
    network.run(network.embedding(ids), worlds)
    _, clean = record(network, ids)
    block = network.get_submodule("blocks.1")
    normal = block.ln1(clean.residuals[1])
    q, k = (torch.einsum("ed,dtn->etn", weight[1].T, normal) for weight in (block.attn.W_Q, block.attn.W_K))
    scores = torch.einsum("eqn,ekn->qkn", q, k) / q.shape[0] ** 0.5
    future = torch.ones(scores.shape[:2]).triu(1).bool()
    expected = scores.masked_fill(future[:, :, None], -torch.inf).softmax(1)
    torch.testing.assert_close(worlds.patterns[head], expected, rtol=1e-4, atol=1e-5)


def test_heads_learn_where_to_look():
    alone = {"behaviour": 0.0, "iit": 0.0, "strict": 0.0, "edge_strict": 0.0}
    settings = dataclasses.replace(QUICK, batch=32, max_steps=60)
    made = trainer(
        recipe=Recipe(Objective(**alone, attention_supervision=1.0)), settings=settings, name="ioi"
    )
    losses = []
    for _ in range(40):
        made.step()
        losses.append(float(made.others["attention_supervision"].detach()))
    assert losses[-1] < 0.8 * losses[0]


def test_a_model_that_does_not_say_where_heads_look_is_trained_without():
    made = trainer(recipe=Recipe(Objective(attention_supervision=1.0, probe=0.0)), name="greater_than")
    made.step()
    assert not made.others


@pytest.mark.parametrize("name", ["hist", "count_smaller"])
def test_the_head_of_a_selector_width_attends_to_bos_as_to_a_key(name):
    """What BOS keeps is one part in one more than the number of keys: there is no slack."""
    _, alignment, truth = setting(name)
    batch = Sampler(alignment, truth, Recipe(), 64, 0)(0, CPU)
    shares = batch.attended["count_head"]  # [P, T, world, batch], times the weight of the query
    counts, parts = batch.values["count_head"], shares / shares.sum(1, keepdim=True)
    for world in (0, 2):  # in the others, what the head reads, or what it writes, can be another input's
        wanted = 1 / (1.0 + counts[:, world])
        torch.testing.assert_close(parts[:, 0, world], wanted, rtol=1e-5, atol=1e-6)


def test_an_unguided_step_draws_the_same_rows():
    _, alignment, truth = setting("hist")
    guided, alone = (Sampler(alignment, truth, Recipe(), 64, 0) for _ in range(2))
    for step in (0, 64, 65):
        first, second = guided(step, CPU), alone(step, CPU, guided=step == 65)
        assert torch.equal(first.tokens, second.tokens) and torch.equal(first.nodes, second.nodes)
        assert first.values and first.attended and not second.values and not second.attended


@pytest.mark.parametrize(
    "given, name, wanted",
    [
        (Curriculum(), "sort_digits", True),
        (Curriculum(), "hist", False),
        (Curriculum(guided=0), "sort_digits", False),
        (Curriculum(guided=0, supervise_to_end=True), "sort_digits", True),
        (Curriculum(supervise_to_end=False), "sort_digits", False),
    ],
)
def test_heads_that_compare_many_keys_are_told_where_to_look_to_the_end(given, name, wanted) -> None:
    _, alignment, truth = setting(name)
    recipe = Recipe(curriculum=given.of_task(alignment.task))
    first, later = (Sampler(alignment, truth, recipe, 16, 0) for _ in range(2))
    guided = first(0, CPU)
    for batch in (first(0, CPU, guided=False), later(0, CPU, guided=False)):  # its pool drawn before, or not
        assert guided.values and not batch.values, "probes end with guidance"
        assert bool(batch.attended) == recipe.supervised_to_end == wanted
        assert batch.crossed.keys() == (guided.crossed.keys() if wanted else set())


def test_a_run_that_is_supervised_to_the_end_says_that_all_its_steps_were_guided() -> None:
    """The steps after the end of probes are guided, too, and are what a record has to tell."""
    settings = dataclasses.replace(QUICK, max_steps=4, validate_every=2)
    for to_end, steps in ((True, 4), (False, 2)):
        recipe = Recipe(curriculum=Curriculum(guided=0.5, supervise_to_end=to_end))
        assert trainer(recipe=recipe, settings=settings, name="hist").train().guided == steps


def test_all_queries_of_a_head_that_compares_many_keys_weigh_the_same() -> None:
    _, alignment, truth = setting("sort_digits")
    batch = Sampler(alignment, truth, Recipe(), 16, 0)(0, CPU)
    for shares in (batch.attended["rank_head"], batch.crossed["rank_head"]):
        weights = shares.sum(1)
        torch.testing.assert_close(weights, torch.full_like(weights, SHARP / weights.numel()))


def test_queries_without_keys_weigh_half_of_all_of_any_other_head() -> None:
    _, alignment, truth = setting("count_smaller")
    shares = Sampler(alignment, truth, Recipe(), 16, 0)(0, CPU).attended["count_head"]
    weights, nowhere = shares.sum(1), shares[:, 0] == shares.sum(1)
    torch.testing.assert_close(torch.stack([weights[nowhere].sum(), weights.sum()]), torch.tensor([0.5, 1.0]))


def test_queries_of_a_row_are_to_look_at_the_keys_of_the_next() -> None:
    """For heads that compare many keys, in every world, with what patched edges let them see."""
    _, alignment, truth = setting("sort_digits")
    sampler = Sampler(alignment, truth, Recipe(), 16, 0)
    model = alignment.task.causal_model
    batch = sampler(0, CPU)
    assert list(batch.crossed) == ["rank_head"] and set(batch.crossed) < set(batch.attended)
    shares = batch.crossed["rank_head"] / batch.crossed["rank_head"].sum(1, keepdim=True)
    keys = np.array(model.variables["key"].values, float)[batch.values["key"].numpy()]  # [P, world, batch]
    for world, row, query in np.ndindex(3, 16, keys.shape[0]):  # not the last world, whose edges are patched
        smaller = keys[:, world, (row + 1) % 16] < keys[query, world, row]
        wanted = np.concatenate([[1.0], smaller]) / (1 + smaller.sum())
        np.testing.assert_allclose(shares[query, :, world, row], wanted, rtol=1e-5, atol=1e-6)
    assert not sampler(0, CPU, guided=False).crossed
    assert not Sampler(*setting("count_smaller")[1:], Recipe(), 16, 0)(0, CPU).crossed


def test_a_step_is_supervised_on_the_keys_of_the_next_row() -> None:
    """The loss is that of attention of each row, and of its queries to the keys of the next row."""
    made = trainer(recipe=Recipe(Objective(probe=0.0)), name="sort_digits")
    network, graph = made.network, made.sampler.alignment.graph
    batch = made.sampler(0, made.device)
    head = made.probes.nodes["rank_head"]
    worlds = Worlds(
        batch.nodes,
        batch.edges,
        watch=[made.probes.nodes[name] for name in batch.attended],
        edge_sources=batch.edge_sources,
        crossed=[head],
    )
    network.run(network.embedding(batch.tokens.flatten(0, 1)), worlds)
    node, (q, k) = graph.nodes[head], worlds.queries_keys[head]
    own = network.blocks[node.layer].attn.pattern(q[None], k[None])[0]
    torch.testing.assert_close(own, worlds.patterns[head])
    wanted = sum(
        attention_loss(worlds.patterns[made.probes.nodes[name]], shares.flatten(2))
        for name, shares in batch.attended.items()
    )
    size, shares = batch.tokens.shape[1], batch.crossed["rank_head"]
    for world, row in np.ndindex(*batch.tokens.shape[:2]):
        one, next_one = world * size + row, world * size + (row + 1) % size
        scores = torch.einsum("eq,ek->qk", q[..., one], k[..., next_one])
        wanted = wanted + attention_loss(scores.softmax(1)[..., None], shares[:, :, world, row, None])
    made.step()
    torch.testing.assert_close(made.others["attention_supervision"], wanted.detach(), rtol=1e-4, atol=1e-5)


def test_patched_edges_change_the_keys_that_a_row_brings() -> None:
    """Where an edge into keys is patched, the next row's keys are those that its head sees."""
    _, alignment, truth = setting("sort_digits")
    sampler = Sampler(alignment, truth, Recipe(), 64, 0)
    model, guidance = alignment.task.causal_model, sampler.guidance
    name, rows = "rank_head", 64
    tokens = alignment.task.domain.draw(np.random.default_rng(0), 2 * rows, False)
    first, other = (
        {k: v[half] for k, v in model.run(tokens).items()} for half in (slice(rows), slice(rows, None))
    )
    read = next(read for read in model.variables[name].reads if read.slot == "k")
    patched = np.arange(rows) % 2 == 0
    seen = dict(guidance._next_keys(name, first, {(name, read): Intervention(other["key"], patched)}, rows))
    for row in range(rows):
        following = (row + 1) % rows
        brought = other["key"][following] if patched[following] else first["key"][following]
        assert (seen[name, read].values[row] == brought).all()
