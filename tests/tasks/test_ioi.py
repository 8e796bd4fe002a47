"""Indirect-object identification: prompts, model, corruptions, and what truth and training make of them."""

import subprocess
import sys
from dataclasses import replace
from itertools import combinations
from math import perm
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from interpbench.alignment.alignment import align
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.causal.model import Intervention, changed
from interpbench.checkpoints.load import load_checkpoint
from interpbench.circuits.grades import grade
from interpbench.circuits.ground_truth import State, Truth, open_edges
from interpbench.core.errors import ConfigError, TaskError
from interpbench.runs.certify import certify_checkpoints
from interpbench.runs.evaluate import EvaluateConfig, evaluate
from interpbench.runs.train import TrainConfig, train
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.domain import in_hashed_tenth
from interpbench.tasks.handwritten.ioi import large, published
from interpbench.tasks.handwritten.ioi.prompts import Prompts
from interpbench.tasks.handwritten.ioi.templates import IO, LARGE, OBJECT, PLACE, PUBLISHED, S, T
from interpbench.tasks.handwritten.ioi.words import NAMES, OBJECTS, PLACES
from interpbench.tasks.model_settings import ModelSettings
from interpbench.tasks.shapes import shape
from interpbench.training.interventional_accuracy import Evaluation
from interpbench.training.measure_certificate import CertificateSettings, certify
from interpbench.training.recipe import Recipe
from interpbench.training.sampling import Sampler
from interpbench.training.trainer import TrainerSettings
from interpbench.transformer.model import Transformer
from tests.oracles import ioi as oracle

TASKS = ("ioi", "ioi_next_token", "ioi_published_prompts")
FEW = Prompts(
    [(IO, "and", S, "met", ".", S, "gave", OBJECT, "to"), (S, "saw", IO, ".", S, "called")],
    ("Ann", "Bob", "Cid", "Dan", "Eve", "Fay"),
    ("park",),
    ("pen", "cup"),
)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def words(prompts: Prompts, row: np.ndarray) -> list[str | None]:
    return [None if code < 0 else prompts.vocab[code] for code in row]


def decoded(name: str, variable: str, values: np.ndarray) -> list[list[object]]:
    return get_task(name).causal_model.decode(variable, values)


# Words and templates.


def test_there_are_a_hundred_of_each_and_all_differ() -> None:
    for some in (NAMES, PLACES, OBJECTS):
        assert len(set(some)) == len(some) >= 100
        assert all(word.isalpha() for word in some)
    assert len(set(large.vocab)) == len(large.vocab)
    with pytest.raises(TaskError, match="templates share pen"):
        Prompts(LARGE, NAMES, ("pen",), OBJECTS)


def test_the_large_set_has_both_orders_both_places_of_the_object_and_three_names() -> None:
    two = [template for template in LARGE if T not in template]
    subject_first = [template.index(S) < template.index(IO) for template in two]
    assert sum(subject_first) * 2 == len(two)
    late = [OBJECT in template and template.index(OBJECT) > len(template) - 4 for template in LARGE]
    early = [OBJECT in template and template.index(OBJECT) < template.index(".") for template in LARGE]
    assert sum(late) > 100 and sum(early) > 100
    assert len({len(template) for template in LARGE if T in template}) >= 3
    assert len(set(LARGE)) == len(LARGE)
    assert published.length == 15 and len(PUBLISHED) == 2


def test_the_size_is_exact() -> None:
    assert FEW.size == 6 * 5 * 2 + 6 * 5
    drawn = {tuple(row) for row in FEW.sample(rng(), 5000).tolist()}
    assert len(drawn) == FEW.size
    assert published.size == 2 * perm(100, 2) * 2 * 3
    by_hand = sum(
        perm(100, 3 if T in template else 2)
        * (len(PLACES) if PLACE in template else 1)
        * (len(OBJECTS) if OBJECT in template else 1)
        for template in LARGE
    )
    assert large.size == by_hand


# Draws and splits.


def test_positions_are_those_of_the_template() -> None:
    for prompts in (large, published):
        tokens = prompts.sample(rng(), 2000)
        place = prompts.positions(tokens)
        for row, (io, s1, s2, end) in zip(tokens, zip(*place.values())):
            text = words(prompts, row)
            names = [word for word in text if word in prompts.names]
            assert text[s1] == text[s2] and s1 < s2 and names.count(text[s1]) == 2
            assert names.count(text[io]) == 1 and names[-1] == text[s2]
            assert text[end] is not None and (end + 1 == len(text) or text[end + 1] is None)
    with pytest.raises(TaskError, match="row 0 is not a prompt"):
        large.positions(large.abc(rng(), large.sample(rng(), 4)))


def texts_and_pairs(tokens: np.ndarray) -> tuple[list[str], list[set[frozenset[str]]]]:
    kinds = dict.fromkeys(NAMES, "X") | dict.fromkeys(PLACES, PLACE) | dict.fromkeys(OBJECTS, OBJECT)
    rows = [[str(word) for word in words(large, row) if word is not None] for row in tokens]
    names = [sorted({word for word in row if word in NAMES}) for row in rows]
    pairs = [{frozenset((a, b)) for a in some for b in some if a < b} for some in names]
    return [" ".join(kinds.get(word, word) for word in row) for row in rows], pairs


def test_splits_are_disjoint_in_texts_and_pairs_of_names() -> None:
    kept_texts, kept_pairs = texts_and_pairs(large.draw(rng(0), 10_000))
    held_texts, held_pairs = texts_and_pairs(large.draw(rng(1), 2000, held_out=True))
    texts, pairs = set(kept_texts), set().union(*kept_pairs)
    new_text = np.array([text not in texts for text in held_texts])
    new_pair = np.array([bool(some - pairs) for some in held_pairs])
    assert (new_text | new_pair).all()
    assert new_text.mean() > 0.2 and new_pair.mean() > 0.2 and not (new_text & new_pair).all()
    assert {name for pair in pairs for name in pair} == set(NAMES), "every name occurs in training"
    assert {word for text in texts for word in text.split()} >= set(large.vocab) - {*NAMES, *PLACES, *OBJECTS}
    assert 0.05 < 1 - len(texts) / len({*texts, *held_texts}) < 0.2


def test_names_are_in_training_wherever_they_are_in_held_out_prompts() -> None:
    def places(held_out: bool) -> set[tuple[int, ...]]:
        return set(zip(*large.positions(large.draw(rng(), 20_000, held_out)).values()))

    assert {row[:3] for row in places(True)} <= {row[:3] for row in places(False)}


def test_some_sources_act_where_the_answer_is() -> None:
    base = large.sample(rng(0), 400)
    made = large.overtaken(rng(1), base)
    ends = (base >= 0).sum(1) - 1
    token = made[np.arange(400), ends]
    again = (made == token[:, None]).argmax(1) < ends
    assert (again & (token >= 0) & (token < 100))[ends <= 13].all(), "no text is long enough for later ends"
    shared = [len({*row} & {*other} & {*range(100)}) for row, other in zip(base.tolist(), made.tolist())]
    assert min(shared) >= 1
    assert (large.template_of(made) >= 0).all()


def test_sources_of_training_are_not_held_out_nor_show_any_pair_that_is() -> None:
    base, held = large.draw(rng(0), 4000), large.draw(rng(1), 4000, held_out=True)
    sources, others = large.sources(rng(2), base), large.sources(rng(3), held, held_out=True)
    assert not large.is_held_out(sources).any()
    held_pairs = {
        frozenset(pair)
        for pair in combinations(NAMES, 2)
        if in_hashed_tenth(np.array([sorted(map(large.vocab.index, pair))]))[0]
    }
    assert 400 < len(held_pairs) < 600
    assert not held_pairs & set().union(*texts_and_pairs(np.concatenate([base, sources]))[1])
    for some, fewest in ((sources, 0.005), (others, 0.1)):
        named_once = (large._first_time(some) == large._is_name(some)).all(1)
        assert named_once.mean() > fewest, "some are made by abc"


# The model.


@pytest.mark.parametrize("name", TASKS)
def test_the_model_is_the_reference_program(name: str) -> None:
    task, prompts = get_task(name), get_task(name).domain
    assert isinstance(prompts, Prompts)
    base = prompts.sample(rng(0), 60)
    tokens = np.concatenate([base, prompts.sources(rng(1), base)])
    trace = task.causal_model.run(tokens)
    values = {variable: decoded(name, variable, trace[variable]) for variable in trace}
    for row, text in enumerate(values["tokens"]):
        duplicate = oracle.duplicates(text)  # type: ignore[arg-type]
        inhibition = oracle.inhibitions(duplicate, text, prompts.names)  # type: ignore[arg-type]
        answer = oracle.movers(text, inhibition, prompts.names, name != "ioi_next_token")  # type: ignore[arg-type]
        published = oracle.published_movers(text, inhibition, prompts.names, name != "ioi_next_token")  # type: ignore[arg-type]
        assert answer == published
        assert values["duplicate"][row] == duplicate
        assert values["s_inhibition"][row] == inhibition
        assert values["name_mover"][row] == answer


def test_swaps_between_rows_of_different_lengths_act_position_by_position() -> None:
    model = get_task("ioi_next_token").causal_model
    base, source = large.sample(rng(0), 60), large.sample(rng(1), 60)
    assert ((base >= 0).sum(1) != (source >= 0).sum(1)).mean() > 0.5
    theirs = model.run(source)
    everywhere = np.ones(60, bool)
    for variable in ("duplicate", "s_inhibition"):
        after = model.run(base, {variable: Intervention(theirs[variable], everywhere)})
        for row in range(60):
            text = words(large, base[row])
            taken = decoded("ioi", variable, theirs[variable][[row]])[0]
            inhibition = taken if variable != "duplicate" else oracle.inhibitions(taken, text, NAMES)  # type: ignore[arg-type]
            wanted = oracle.movers(text, inhibition, NAMES, False)  # type: ignore[arg-type]
            assert decoded("ioi", "name_mover", after["name_mover"][[row]])[0] == wanted


def test_the_two_tasks_differ_only_in_where_they_are_scored() -> None:
    tokens = large.sample(rng(), 500)
    end, everywhere = (get_task(name).causal_model.outputs(tokens) for name in ("ioi", "ioi_next_token"))
    assert ((end >= 0).sum(1) == 1).all() and ((everywhere >= 0).sum(1) > 2).mean() > 0.95
    np.testing.assert_array_equal(end[end >= 0], everywhere[end >= 0])
    place = large.positions(tokens)
    np.testing.assert_array_equal(end[np.arange(500), place["end"]], tokens[np.arange(500), place["io"]])


def test_no_tracr_is_needed() -> None:
    code = (
        "import sys; from interpbench.tasks.catalogue import get_task; "
        "get_task('ioi').causal_model; assert 'tracr' not in sys.modules and 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# Corruptions.


def test_abc_loses_the_answer_and_swap_flips_it() -> None:
    model, base = get_task("ioi").causal_model, large.sample(rng(), 1000)
    place, rows = large.positions(base), np.arange(1000)
    abc, swap = large.abc(rng(1), base), large.swap(rng(1), base)
    assert (model.outputs(abc) < 0).all()
    for row, corrupted in zip(base.tolist(), abc.tolist()):
        before, after = ([code for code in some if 0 <= code < 100] for some in (row, corrupted))
        assert len(before) == len(after) == len(set(after)) and not {*before} & {*after}
        assert [c for c in row if c >= 100] == [c for c in corrupted if c >= 100]
    assert ((base != swap).sum(1) == 1).all()
    np.testing.assert_array_equal(model.outputs(swap)[rows, place["end"]], base[rows, place["s2"]])


# Truth: the head edges are required, their inputs free.

HEAD_EDGES = [
    *("embed->a1.h1", "embed->a2.h1", "a1.h1->a2.h1", "embed->a4.h1", "a2.h1->a4.h1", "a4.h1->logits")
]


@pytest.mark.parametrize("name", TASKS)
def test_truth(name: str) -> None:
    task = get_task(name)
    truth = find_truth(align(task, shape(task).graph), pairs=500)
    assert truth.names("node", State.REQUIRED) == ["embed", "a1.h1", "a2.h1", "a4.h1"]
    assert truth.names("head_edge", State.REQUIRED) == HEAD_EDGES
    assert truth.names("qkv_edge", State.REQUIRED) == ["a4.h1->logits"]
    slots = [f"{edge}<{slot}>" for edge in HEAD_EDGES[:-1] for slot in "qkv"]
    assert sorted(truth.names("qkv_edge", State.FREE)) == sorted(slots)
    assert truth.inert.sum() == truth.count("qkv_edge", State.FORBIDDEN) == 1092
    assert Truth.from_json(truth.graph, truth.to_json()).to_json() == truth.to_json()
    assert list(open_edges(truth)) == HEAD_EDGES[:-1]
    assert all(mask.sum() == 3 for mask in open_edges(truth).values())


def test_an_override_moves_a_head() -> None:
    task = get_task("ioi")
    alignment = align(task, shape(task).graph, {"name_mover": "a5.h3"})
    assert "embed->a5.h3" in find_truth(alignment, pairs=200).names("head_edge", State.REQUIRED)
    with pytest.raises(TaskError, match="is at m4, which has no input 'q'"):
        align(task, shape(task).graph, {"name_mover": "m4"})


def test_the_network_is_the_published_one_with_wider_heads_and_narrower_mlps() -> None:
    task = get_task("ioi")
    own, plain = shape(task), shape(task, ModelSettings(normalization="none"))
    assert (own.n_layers, own.n_heads, own.d_model, own.d_head, own.d_mlp) == (6, 4, 64, 32, 256)
    assert (own.normalization, own.activation, own.init_std) == ("LNPre", "gelu_new", None)
    assert replace(plain, normalization="LNPre") == own
    assert shape(task, ModelSettings(rule="published")) == replace(own, d_head=16, d_mlp=3072, init_std=0.02)


# Training.


def test_batches_pad_patch_nothing_free_and_score_no_padding() -> None:
    task = get_task("ioi_next_token")
    alignment = align(task, shape(task).graph)
    truth = find_truth(alignment, pairs=200)
    sampler = Sampler(alignment, truth, Recipe(), 64, 0)
    sampler.steps = 2
    batch = sampler(1, torch.device("cpu"))
    padding = batch.tokens[:, :, 1:] == task.bos + 1
    scored = batch.weights.permute(1, 2, 0) > 0
    assert padding[0].any() and padding[1].any() and not (scored & padding)[[0, 2]].any()
    mover = batch.nodes[alignment.graph.node_index[alignment.nodes["name_mover"]], 1] > 0
    assert not (scored & padding)[1, ~mover].any(), "only what comes from longer rows is scored there"
    assert batch.edges is not None
    free = batch.edges[torch.from_numpy(truth.qkv_edges == State.FREE)].any(0)
    assert free.float().mean() < 0.4, "but as a whole, where a required edge is patched"
    assert batch.edges[torch.from_numpy(truth.inert)].any(1).float().mean() > 0.9


def test_most_swaps_that_can_matter_do() -> None:
    task = get_task("ioi")
    alignment = align(task, shape(task).graph)
    sampler = Sampler(alignment, find_truth(alignment, pairs=200), Recipe(), 64, 0)
    drawn = sampler.interventions(rng(), 1024)
    after = drawn.counterfactual[task.causal_model.output]
    before = task.causal_model.outputs(drawn.base)
    assert 0.3 < changed(before, after).any(1).mean() < 0.8
    assert (after >= 0).any(1).mean() > 0.6, "rows without an answer teach nothing"
    assert ((after >= 0) & (after == before)).any(1).mean() > 0.05


def test_a_certificate_asks_an_effect_of_open_head_edges() -> None:
    task = get_task("ioi_published_prompts")
    cfg = shape(task, ModelSettings(n_layers=5, n_heads=2, d_model=8, d_head=4, d_mlp=8))
    alignment = align(task, cfg.graph)
    truth = find_truth(alignment, pairs=200)
    network = Transformer(cfg, 0).requires_grad_(False)
    settings = CertificateSettings(pairs=16, looks=1, checks=100, attacks=0)
    with torch.no_grad():
        network.blocks[2].attn.W_V[1] = 0  # nothing passes through a2.h1
        network.blocks[2].attn.b_V[1] = 0
    certificate = certify(Evaluation(network, alignment), truth, settings)
    assert set(HEAD_EDGES) <= certificate.required_effect.keys()
    assert certificate.required_effect["embed->a4.h1"] > 0
    assert certificate.required_effect["a1.h1->a2.h1"] == 0
    assert "required a1.h1->a2.h1 has no effect" in grade(certificate).failures["siit+edges"]


@pytest.mark.slow
def test_train_certify_evaluate_and_draw(tmp_path: Path) -> None:
    small: dict[str, Any] = {"n_layers": 5, "n_heads": 2, "d_model": 8, "d_head": 4, "d_mlp": 8}
    config = TrainConfig(
        task="ioi_published_prompts",
        out=str(tmp_path / "runs"),
        device="cpu",
        model=ModelSettings(**small),
        trainer=TrainerSettings(max_steps=2, batch=16, validation_rows=32, validate_every=2),
        certificate=CertificateSettings(pairs=8, looks=1, checks=100, attacks=0),
    )
    outcome = train(config)
    assert not outcome.certified and outcome.steps == 2
    checkpoint = load_checkpoint(outcome.folder)
    assert checkpoint.truth.count("qkv_edge", State.FREE) == 15
    few = CertificateSettings(pairs=8, looks=1, checks=100, attacks=0)
    assert certify_checkpoints(str(outcome.folder), settings=few) is False
    for settings in ({}, {"data": "fresh", "corruption": "swap"}):
        evaluation = EvaluateConfig(
            method={"name": "eap"},
            checkpoint=str(outcome.folder),
            examples=16,
            device="cpu",
            out=str(tmp_path),
            **settings,  # type: ignore[arg-type]
        )
        (record,), failures = evaluate(evaluation)
        assert not failures and record.levels["head_edge"].auroc is not None
    with pytest.raises(ConfigError, match="say data=fresh"):
        evaluate(replace(evaluation, data="stored"))
    assert len(list(tmp_path.rglob("circuit-*.png"))) == 2


def test_hand_written_tasks_have_no_compiled_weights(tmp_path: Path) -> None:
    config = TrainConfig(task="ioi", out=str(tmp_path), device="cpu", model=ModelSettings(kind="compiled"))
    with pytest.raises(TaskError, match="Tracr compiles RASP programs only"):
        train(config)


def test_all_prompts_of_a_small_set() -> None:
    everything = FEW.all()
    assert len(everything) == FEW.size == len(np.unique(everything, axis=0))
    drawn = {tuple(row) for row in FEW.sample(rng(), 2000).tolist()}
    assert drawn == {tuple(row) for row in everything.tolist()}
