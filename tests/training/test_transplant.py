"""Nodes of a trained network, copied into a larger one."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from interpbench.alignment.alignment import align
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.alignment.structure import structural_edges
from interpbench.checkpoints.find import find_checkpoints
from interpbench.checkpoints.load import load_checkpoint
from interpbench.circuits.grades import Standard
from interpbench.circuits.ground_truth import State
from interpbench.circuits.naming import EMBED
from interpbench.core import seeds
from interpbench.core.errors import ConfigError
from interpbench.runs.certified_training import copying, train_certified
from interpbench.runs.train import train
from interpbench.runs.train_settings import TrainConfig, bases, check_train
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.model_settings import ModelSettings
from interpbench.tasks.regimes.bystanders import base_name
from interpbench.tasks.regimes.regime import RegimeTask, in_regime
from interpbench.tasks.shapes import shape
from interpbench.training.imitation import deviations
from interpbench.training.interventional_accuracy import Evaluation
from interpbench.training.noise import margin
from interpbench.training.recipe import Recipe
from interpbench.training.settings import CertificateSettings, TrainerSettings
from interpbench.training.trainer import Trainer
from interpbench.training.transplant import Transplant
from interpbench.training.validation import validate
from interpbench.transformer.model import Transformer
from interpbench.transformer.recording import record

FEW = CertificateSettings(pairs=64, looks=1, attacks=0, checks=100)


def transplanted(
    name: str, regime: str = "alive", **sizes: int
) -> tuple[Transformer, Evaluation, Transplant]:
    """Returns a network with copied nodes of the model of a task, its evaluation, and where they are from."""
    twin, made = load_checkpoint(find_checkpoints(name)[0]), get_task(name)
    for each in regime.split("+"):
        made = in_regime(made, each)
    assert isinstance(made, RegimeTask)
    cfg = shape(made, ModelSettings(**{**copying(made, twin)["model"], **sizes}))
    inner = align(made, cfg.graph)
    crowd = inner if made.crowd is None else align(made.crowd, cfg.graph)
    trained = align(get_task(name), twin.network.cfg.graph, twin.record.alignment)
    source, network = Transplant(twin.network, trained, inner, crowd), Transformer(cfg, 1)
    source.into(network, 1)
    return network, Evaluation(network, inner), source


@pytest.mark.parametrize(
    ("name", "regime"),
    [
        ("trend_to_next", "alive"),
        ("hist", "alive"),
        ("frac_prevs", "alive"),
        ("trend_to_next", "wide,times=2"),
        ("trend_to_next[regime=redundant]", "alive"),
    ],
)
def test_a_copied_circuit_does_what_it_did(name: str, regime: str) -> None:
    """`hist` counts with a head whose value tells BOS from tokens; `frac_prevs` has a numerical output."""
    network, evaluation, source = transplanted(name, regime)
    truth = find_truth(evaluation.alignment)
    validation, _ = validate(evaluation, truth, Recipe(), 128, 0, 0)
    assert validation.lowest == 1, validation.worst
    domain = evaluation.task.domain
    tokens = torch.from_numpy(evaluation.task.token_ids(domain.draw(seeds.generator(0), 64)))
    with torch.no_grad():
        here, there = network(tokens)[:, 1:], source.twin(tokens)[:, 1:]
    if network.cfg.d_out > 1:  # classes may move together
        here, there = (each - each.mean(2, keepdim=True) for each in (here, there))
    assert (here - there).std() < 0.15 * there.std()


def test_every_copy_sees_what_its_node_saw() -> None:
    """A literal comparison, reader by reader, of what is projected out of the residual stream."""
    network, evaluation, source = transplanted("hist")
    domain = evaluation.task.domain
    tokens = torch.from_numpy(evaluation.task.token_ids(domain.draw(seeds.generator(0), 64)))
    with torch.no_grad():
        _, here = record(network, tokens)
        _, there = record(source.twin, tokens)
    compared = 0
    for node, home in source.copied.items():
        if node == EMBED or node.head is None:
            continue
        used = {reader.slot for reader, _ in structural_edges(source.trained) if reader.head == home.head}
        for kind in (kind for kind in ("Q", "K", "V") if kind.lower() in used):
            seen: list[torch.Tensor] = []
            for net, cache, place in ((network, here, node), (source.twin, there, home)):
                attention: Any = net.blocks[place.layer].attn
                stream = cache.residuals[place.layer].flatten(1).T
                weight, bias = (getattr(attention, f"{part}_{kind}")[place.head] for part in ("W", "b"))
                scale = net.cfg.d_head**-0.5 if kind == "Q" else 1
                seen.append((stream @ weight + bias)[:, : source.twin.cfg.d_head].detach() * scale)
            assert (seen[0] - seen[1]).std() <= 0.1 * seen[1].std(), (node, kind)
            compared += 1
    assert compared >= 4, "at least two copies of a head"


def test_edges_outside_the_circuit_bring_as_much_as_those_of_it() -> None:
    network, evaluation, source = transplanted("hist")
    tokens = torch.from_numpy(evaluation.task.token_ids(evaluation.task.domain.draw(seeds.generator(0), 256)))
    with torch.no_grad():
        _, cache = record(network, tokens)
        sizes = deviations(network, [cache.stack]).numpy()
    truth = find_truth(source.crowd)
    used = {reader.slot for reader, _ in structural_edges(source.crowd)}
    readers = np.array([reader.slot in used for reader in truth.graph.readers])
    dead = sizes[(truth.qkv_edges == State.FORBIDDEN) & readers[:, None]]
    living = sizes[truth.circuit]
    assert np.median(dead) > 0.2 * np.median(living)
    assert (dead > 0.01 * np.median(living)).mean() > 0.95


@pytest.mark.parametrize("name", ["trend_to_next", "frac_prevs"])
def test_copies_are_as_loud_at_the_logits_as_the_task_says(name: str) -> None:
    """Each node but that of the output moves the difference of two logits, or the number, and no answer."""
    network, evaluation, source = transplanted(name, "noisy,noise=0.03+alive")
    task = evaluation.task
    tokens = torch.from_numpy(task.token_ids(task.domain.draw(seeds.generator(1), 512)))
    with torch.no_grad():
        logits, cache = record(network, tokens)
        lead = margin(record(source.twin, tokens)[0], task.tolerance)
    output = evaluation.alignment.nodes[task.causal_model.output]
    for node, written in zip(network.cfg.graph.nodes, cache.stack, strict=True):
        if node in source.copied and node not in (output, EMBED):  # which also writes positions
            added = (network.unembed.W_U.T @ written[:, 1:].flatten(1)).detach()
            pairs = [added[one] - added[two] for one, two in combinations(range(len(added)), 2)] or [added[0]]
            loudness = torch.stack([each.var() for each in pairs]).mean().sqrt()
            assert float(loudness / lead) == pytest.approx(0.03, rel=0.25), node
    right = evaluation.alignment.task.causal_model.outputs(task.domain.draw(seeds.generator(1), 512))
    if task.causal_model.classes is not None:
        found = logits.argmax(0)[1:].T.numpy()
        assert (found == right)[right >= 0].mean() > 0.999


def test_what_is_noisy_is_copied_from_what_is_not() -> None:
    assert bases(get_task("hist[regime=noisy,regime=alive]")) == ["hist[regime=noisy]", "hist"]
    softer = get_task("hist[regime=noisy,noise=0.03,regime=alive]")
    assert bases(softer) == ["hist[regime=noisy,noise=0.03]", "hist[regime=noisy]", "hist"]
    assert bases(get_task("hist[regime=alive]")) == ["hist"]
    assert bases(get_task("hist[regime=alive,regime=noisy]")) == []


def test_what_cannot_be_copied_is_refused(tmp_path: Path) -> None:
    def checked(task: str, start: str, **sizes: Any) -> None:
        check_train(TrainConfig(task, out=str(tmp_path), start=start, model=ModelSettings(**sizes)))

    checked("hist[regime=alive]", "hist")
    checked("hist", "hist", d_model=64)
    with pytest.raises(ConfigError, match=r"start=ioi_next_token: nodes are copied between .* no norm"):
        checked("ioi_next_token[regime=alive]", "ioi_next_token")
    with pytest.raises(ConfigError, match=r"start=frac_prevs is another network: .*d_model"):
        checked("hist[regime=alive]", "frac_prevs")
    with pytest.raises(ConfigError, match="start=hist is another network"):
        checked("hist[regime=noisy]", "hist", d_model=128)
    with pytest.raises(
        ConfigError,
        match=r"start=hist: its d_head is \d+, more than the 1 of this",
    ):
        checked("hist[regime=alive]", "hist", d_head=1)
    with pytest.raises(
        ConfigError, match=r"the copies write \d+ directions, more than model.d_model=16; try"
    ):
        transplanted("hist", d_model=16)


def test_copied_weights_are_certified_without_a_step(tmp_path: Path) -> None:
    outcome = train(
        TrainConfig(
            "trend_to_next[regime=alive]",
            out=str(tmp_path),
            start="trend_to_next",
            model=ModelSettings(d_model=64),
            certificate=FEW,
            standard=Standard(target=0.9),
        )
    )
    assert outcome.certified and outcome.steps == 0
    loaded = load_checkpoint(outcome.folder)
    assert loaded.record.kind == "trained" and loaded.network.cfg.d_model == 64


def test_readouts_are_fitted_where_copied_weights_are_not_certified() -> None:
    task = get_task("trend_to_next[regime=alive]")
    cfg = shape(task)
    alignment = align(task, cfg.graph)
    network = Transformer(cfg, 0)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    settings = TrainerSettings(batch=8, validation_rows=64)
    trainer = Trainer(network, alignment, find_truth(alignment), Recipe(), settings, FEW, 0)
    readouts = [each.clone() for each in trainer.trained["readouts"].parameters()]
    assert trainer.certify_copied() is None
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    moved = zip(readouts, trainer.trained["readouts"].parameters(), strict=True)
    assert all(not torch.equal(old, new) for old, new in moved)
    assert all(weight.requires_grad for weight in network.parameters())


def test_contests_train_the_task_alone_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, dict[str, Any]]] = []
    released = load_checkpoint(Path("models/trend_to_next"))

    class Outcome:
        certified, folder, checkpoint = True, Path("models/trend_to_next"), released

    def trained(task: str, **settings: Any) -> Outcome:
        calls.append((task, settings))
        return Outcome()

    monkeypatch.setattr("interpbench.runs.certified_training.train", trained)
    assert train_certified("trend_to_next[regime=alive]", 3, tmp_path) == Outcome.folder
    (first, alone), (second, living) = calls
    assert (first, second) == ("trend_to_next", "trend_to_next[regime=alive]")
    assert "start" not in alone and living["start"] == str(Outcome.folder) and living["seed"] == 3
    twin = released.network.cfg
    assert living["model"]["d_head"] >= 2 * twin.d_head and living["model"]["d_mlp"] >= 2 * twin.d_mlp
    network, _, _ = transplanted("trend_to_next", **living["model"])
    assert replace(network.cfg, **living["model"]) == network.cfg
    assert base_name("trend~a0.h1") == "trend"
