"""Where training starts: alignments and weights other than the task's own."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from interpbench.alignment.alignment import align
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.checkpoints.checkpoint_files import released
from interpbench.checkpoints.load import load_checkpoint
from interpbench.checkpoints.record import read_record
from interpbench.circuits.ground_truth import State
from interpbench.circuits.naming import Node
from interpbench.core.errors import CheckpointError, ConfigError, TaskError, UnknownNameError
from interpbench.runs.evaluate import evaluate
from interpbench.runs.evaluate_settings import EvaluateConfig
from interpbench.runs.train import TrainConfig, train
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.model_settings import ModelSettings
from interpbench.tasks.shapes import shape
from interpbench.training.objective import Objective
from interpbench.training.recipe import Recipe
from interpbench.training.sampling import Sampler
from interpbench.training.settings import CertificateSettings
from interpbench.training.trainer import Trainer, TrainerSettings
from interpbench.transformer.model import Transformer
from tests.builders import setting


def test_an_mlp_can_carry_the_tokens() -> None:
    task = get_task("ioi")
    alignment = align(task, shape(task).graph, {"tokens": "m0"})
    truth = find_truth(alignment, pairs=2000)
    readers = ["a1.h1", "a2.h1", "a4.h1"]
    assert truth.names("node", State.REQUIRED) == ["embed", "m0", *readers]
    found = truth.names("head_edge", State.REQUIRED)
    assert {"embed->m0", *(f"m0->{reader}" for reader in readers)} <= set(found)
    assert not any(edge.startswith("embed->a") for edge in found)
    assert "embed->m0" in truth.names("qkv_edge", State.REQUIRED)
    batch = Sampler(alignment, truth, Recipe(Objective(probe=1.0)), 64, 0)(0, torch.device("cpu"))
    swapped = batch.nodes[alignment.graph.node_index[Node(0)], 1] == 1
    assert swapped.any() and "tokens" in batch.values
    wanted = np.array(batch.tokens[0, swapped, 1:].T)
    wanted[wanted > len(task.vocab)] = -1
    np.testing.assert_array_equal(batch.values["tokens"][:, 1][:, swapped], wanted)
    with pytest.raises(TaskError, match="tokens is an input and cannot be at a0"):
        align(task, shape(task).graph, {"tokens": "a0.h1"})


def test_training_takes_an_alignment(tmp_path: Path) -> None:
    few = TrainerSettings(max_steps=2, batch=8, validate_every=2, validation_rows=8)
    small = CertificateSettings(pairs=8, looks=1, checks=100, attacks=0)
    outcome = train(
        TrainConfig("ioi", out=str(tmp_path), trainer=few, certificate=small, alignment={"tokens": "m0"})
    )
    record = load_checkpoint(outcome.folder).record
    assert record.alignment["tokens"] == "m0" and record.alignment["duplicate"] == "a1.h1"
    assert outcome.folder != TrainConfig("ioi", out=str(tmp_path), trainer=few, certificate=small).folder
    with pytest.raises(UnknownNameError, match="duplicate"):
        train(TrainConfig("ioi", out=str(tmp_path), trainer=few, alignment={"duplicates": "a0.h1"}))


def test_training_starts_from_a_checkpoint(tmp_path: Path) -> None:
    still = TrainerSettings(max_steps=1, batch=8, learning_rate=0.0, validate_every=1, validation_rows=8)
    few = CertificateSettings(enumerate_up_to=1, pairs=8, looks=1, checks=100, attacks=0)

    def config(**other: object) -> TrainConfig:
        return TrainConfig("hist", out=str(tmp_path), trainer=still, certificate=few, **other)  # type: ignore[arg-type]

    start = load_checkpoint(Path("models/hist"))
    released = start.network.state_dict()
    outcome = train(config(start="hist"))
    started = load_checkpoint(outcome.folder)
    assert all(
        torch.equal(value, released[name].half().float())
        for name, value in started.network.state_dict().items()
    )
    assert config(start="models/hist").folder == config(start="hist").folder != config().folder
    assert len(started.record.training["start"]) == 64
    assert started.certificate.attempts >= start.certificate.attempts + 1, "on other rows than those before"
    with pytest.raises(ConfigError, match="start=frac_prevs is another network"):
        train(config(start="frac_prevs"))
    with pytest.raises(ConfigError, match=r"its d_mlp is 128, more than the 64 of this network; try"):
        train(config(start="hist", model=ModelSettings(d_model=64, d_head=8, d_mlp=64)))
    with pytest.raises(CheckpointError, match="hista"):
        train(config(start="hista"))
    with pytest.raises(ConfigError, match="start=all is not one checkpoint"):
        train(config(start="all"))


def test_training_starts_from_a_network_of_other_tokens(tmp_path: Path) -> None:
    """Tokens and classes that both tasks have keep their weights; others start at random."""
    still = TrainerSettings(max_steps=1, batch=8, learning_rate=0.0, validate_every=1, validation_rows=8)
    few = CertificateSettings(enumerate_up_to=1, pairs=8, looks=1, checks=100, attacks=0)
    narrower = ModelSettings(d_head=64)  # as the released models of both
    config = TrainConfig("sort_integers", trainer=still, certificate=few, start="sort_digits", model=narrower)
    started = load_checkpoint(train(replace(config, out=str(tmp_path))).folder)
    given = load_checkpoint(Path("models/sort_digits"))
    before = Transformer(started.network.cfg, 0).state_dict()
    here, there = started.record, given.record
    places = {token: place for place, token in enumerate(there.vocabulary)}
    assert here.vocabulary[10:] == [10, "BOS", "PAD"] and there.vocabulary[10:] == ["BOS", "PAD"]
    after, trained = started.network.state_dict(), given.network.state_dict()
    for place, token in enumerate(here.vocabulary):
        wanted = before["embed.W_E"][place] if token == 10 else trained["embed.W_E"][places[token]]
        torch.testing.assert_close(after["embed.W_E"][place], wanted.half().float(), rtol=0, atol=0)
    for name in ("unembed.W_U", "unembed.b_U"):
        wanted = torch.cat([trained[name], before[name][..., 10:]], -1)
        torch.testing.assert_close(after[name], wanted.half().float(), rtol=0, atol=0)
    for name in set(trained) - {"embed.W_E", "unembed.W_U", "unembed.b_U"}:
        torch.testing.assert_close(after[name], trained[name].half().float(), rtol=0, atol=0)


def test_training_starts_from_another_task_with_fewer_layers(tmp_path: Path) -> None:
    """The layers that both have keep their weights; those after them start at random."""
    still = TrainerSettings(max_steps=1, batch=8, learning_rate=0.0, validate_every=1, validation_rows=8)
    few = CertificateSettings(enumerate_up_to=1, pairs=8, looks=1, checks=100, attacks=0)
    config = TrainConfig("median", trainer=still, certificate=few, start="broadcast_max")
    started = load_checkpoint(train(replace(config, out=str(tmp_path))).folder).network
    given = load_checkpoint(Path("models/broadcast_max")).network.state_dict()
    before, after = Transformer(started.cfg, 0).state_dict(), started.state_dict()
    assert any(name.startswith("blocks.3.") for name in set(after) - set(given))
    for name in set(after) - {"unembed.W_U", "unembed.b_U"}:
        torch.testing.assert_close(after[name], given.get(name, before[name]).half().float(), rtol=0, atol=0)
    deeper = TrainConfig("broadcast_max", out=str(tmp_path), start="two_brackets_balanced")
    with pytest.raises(ConfigError, match="is another network: n_layers 8, not 3"):
        train(deeper)


def test_a_start_from_a_model_of_the_same_task_finds_every_token_and_class() -> None:
    """They are compared as they are written, after JSON has held them."""
    for folder in released().values():
        record, task = read_record(folder), get_task(read_record(folder).task)
        classes = task.causal_model.classes
        assert [repr(token) for token in task.vocab] == [repr(token) for token in record.vocabulary[:-2]]
        assert [repr(one) for one in classes or ()] == [repr(one) for one in record.classes or ()]


def test_certificates_after_a_start_draw_rows_of_their_own() -> None:
    """Whatever the certificate of what it started from says, or if there is none."""
    network, alignment, truth = setting("frac_prevs")
    few = TrainerSettings(batch=8), CertificateSettings(pairs=8)
    drawn = {
        start: Trainer(network, alignment, truth, Recipe(), *few, seed=0, start=start).rows
        for start in (None, "a" * 64, "b" * 64)
    }
    assert len(set(drawn.values())) == 3


def test_an_architecture_of_ones_own_is_trained_and_scored(tmp_path: Path) -> None:
    """Baselines that nobody asked for are left out where they have no rule; other methods fail."""
    few = TrainerSettings(max_steps=2, batch=8, validate_every=2, validation_rows=8)
    small = CertificateSettings(enumerate_up_to=1, pairs=8, looks=1, checks=100, attacks=0)
    llama = ModelSettings(normalization="RMS", positions="rotary", mlp="gated", activation="silu")
    outcome = train(TrainConfig("frac_prevs", out=str(tmp_path), trainer=few, certificate=small, model=llama))
    assert load_checkpoint(outcome.folder).network.cfg.features == (
        "RMSNorm",
        "rotary positions",
        "gated MLP",
    )
    records, failures = evaluate(
        EvaluateConfig(
            method={"name": "eap"},
            methods=["eap", "cdt"],
            checkpoint=str(outcome.folder),
            examples=8,
            pictures=False,
            out=str(tmp_path / "scores"),
        )
    )
    assert {record.method for record in records} == {"eap", "activation_std", "truth"}
    assert len(failures) == 1 and "method cdt does not support RMSNorm" in str(failures[0].error)
