"""Builders of what several test files need: networks, problems, trainers, intervention tests, script runs."""

import json
from collections.abc import Collection, Iterable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pytest
import torch
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from interpbench.alignment.alignment import align
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.checkpoints.checkpoint_files import released
from interpbench.checkpoints.load import load_checkpoint
from interpbench.core.config import config_folder
from interpbench.discovery.method import get_method, methods
from interpbench.tasks.catalogue import catalogue, get_task
from interpbench.tasks.model_settings import ModelSettings
from interpbench.tasks.problem import Problem
from interpbench.tasks.shapes import shape
from interpbench.tasks.task import RaspTask
from interpbench.training.intervention_tests import Chunk, InterventionTests
from interpbench.training.interventional_accuracy import Evaluation
from interpbench.training.recipe import Recipe
from interpbench.training.settings import CertificateSettings, TrainerSettings
from interpbench.training.trainer import Trainer
from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.model import Transformer
from tests import ROOT
from tests.forks import run_python
from tests.wrong_networks import right_network

CPU = torch.device("cpu")
SAMPLE = (
    "differs_from_both_neighbours",
    "first_occurrences",
    "frac_prevs",
    "greater_than",
    "hist",
    "identity_by_attention",
    "induction",
    "ioi",
    "mean_of_ends",
    "paren_balance",
    "reverse",
)
"""Released models of every kind, for tests that take more than a moment: trivial and not, shallow and deep,
categorical and numerical, causal and bidirectional, compiled from programs and written by hand."""
RASP = [task.name for task in catalogue().values() if isinstance(task, RaspTask)]
"""The names of the tasks whose programs Tracr compiles."""


def some(names: Iterable[str], every: int = 4, also: Collection[str] = ()) -> list[Any]:
    """Returns parameters of a test: one name of so many, and `also`; others are marked exhaustive."""
    return [
        name if place % every == 0 or name in also else pytest.param(name, marks=pytest.mark.exhaustive)
        for place, name in enumerate(names)
    ]


# Networks and problems with random weights.

SHAPES = [
    (None, "gelu", "causal", True),
    ("LN", "gelu_new", "bidirectional", True),
    ("LNPre", "relu", "causal", False),
    (None, "relu", "bidirectional", False),
    ("RMS", "silu", "causal", True, {"positions": "rotary", "mlp": "gated"}),
    ("RMSPre", "gelu", "bidirectional", False, {"mlp": "gated"}),
    (None, "gelu", "bidirectional", True, {"positions": "rotary"}),
    ("LN", "silu", "causal", True),
]
"""Architectures for tests of the kernel: normalization, activation, attention, biases and other settings."""


def shape_name(shape):
    *plain, more = shape if isinstance(shape[-1], dict) else (*shape, {})
    return "-".join(map(str, (*plain, *more.values())))


def network(normalization, activation, attention, biases, more=None, seed=0):
    """Returns a network of one of `SHAPES`, with two layers of three heads and random biases and scales."""
    cfg = TransformerConfig(
        2, 3, 10, 4, 12, 7, 5, 4, normalization, activation, attention, biases, init_std=0.4, **(more or {})
    )
    model = Transformer(cfg, seed).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not name.split(".")[-1].startswith("W_") and (biases or "ln" in name):
                parameter += 0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return model


def inputs(seed, rows=3):
    """Returns random inputs, `[rows, 4]`, of a network that `network` returns, which has 7 tokens."""
    return torch.randint(0, 7, (rows, 4), generator=torch.Generator().manual_seed(seed))


def problem(seed=0, rows=6, d_out=5, normalization=None, **shape):
    """Returns a discovery problem with a random network of two layers of two heads, in double precision."""
    cfg = TransformerConfig(
        **{"n_layers": 2, "n_heads": 2, "d_model": 8, "d_head": 4, "d_mlp": 12, "n_ctx": 4, **shape},
        d_vocab=7,
        d_out=d_out,
        normalization=normalization,
        init_std=0.5,
    )
    generator = torch.Generator().manual_seed(seed)
    clean, corrupted = (torch.randint(0, 7, (rows, 4), generator=generator) for _ in range(2))
    scored = torch.rand(4, rows, generator=generator) < 0.7
    scored[0], scored[1] = False, True
    return Problem(Transformer(cfg, seed).double(), clean, corrupted, scored)


def gate(kind: str) -> Problem:
    """Returns a problem whose network computes the OR or AND (`kind`) of two bits with one MLP.

    Each bit is copied by a head. The output is 1 on the clean input and 0 on the corrupted one.
    """
    cfg = TransformerConfig(1, 2, 4, 1, 2, d_vocab=3, d_out=1, n_ctx=2, activation="relu", biases=True)
    network = Transformer(cfg).double()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
        network.embed.W_E[1, 0] = 2.0  # halved by heads that attend to BOS and to the token alike
        block = network.blocks[0]
        for head in (0, 1):
            block.attn.W_V[head, 0, 0] = 1
            block.attn.W_O[head, 0, 1 + head] = 1
        block.mlp.W_in[1:3] = 1
        # with x ones: x - relu(x - 1) is OR, relu(x - 1) is AND
        block.mlp.b_in[1] = -1
        block.mlp.W_out[:, 3] = torch.tensor([1.0, -1.0] if kind == "or" else [0.0, 1.0]).double()
        network.unembed.W_U[3, 0] = 1
    clean, corrupted = torch.tensor([[0, 1]]), torch.tensor([[0, 2]])
    return Problem(network, clean, corrupted, torch.tensor([[False], [True]]))


TRAINED = [name for name, made in methods().items() if made.record.authors_steps is not None]
"""The names of the methods that train masks."""


def quick(name, steps=8):
    """Returns a method with few steps of training, if it trains masks, and else with its default settings."""
    return get_method(name, {"steps": steps} if name in TRAINED else {})


# Training and certificates.

SMALL = ModelSettings(d_model=12, d_head=3, d_mlp=48)
QUICK = TrainerSettings(max_steps=60, validate_every=20, validation_rows=64, save_every=20)
FEW = CertificateSettings(enumerate_up_to=1, pairs=64, looks=1, checks=500, attacks=0)


def setting(name="frac_prevs", seed=0):
    """Returns a small network for a task, its alignment, and the ground truth from few pairs."""
    task = get_task(name)
    cfg = shape(task, SMALL)
    alignment = align(task, cfg.graph)
    return Transformer(cfg, seed), alignment, find_truth(alignment, pairs=500)


def trainer(folder=None, recipe=None, settings=QUICK, name="frac_prevs", seed=0):
    network, alignment, truth = setting(name, seed)
    return Trainer(network, alignment, truth, recipe or Recipe(), settings, FEW, seed, folder)


def evaluation_of(name, network):
    """Returns the `Evaluation` that runs a network's interventions on a task, and the ground truth."""
    task = get_task(name)
    alignment = align(task, network.cfg.graph)
    return Evaluation(network, alignment), find_truth(alignment)


def margin_of(name):
    """Returns the margin of a released network's answers on 4,096 inputs."""
    evaluation, _ = evaluation_of(name, right_network(name))
    tokens = evaluation.task.domain.draw(np.random.default_rng(0), 4096, True)
    return evaluation.margin(evaluation.activations(tokens))


def intervention_tests_of(name, seed=0, **settings):
    """Returns the intervention tests of an untrained network."""
    task = get_task(name)
    cfg = shape(task, ModelSettings(**{"d_model": 12, "d_head": 3, "d_mlp": 24, **settings}))
    alignment = align(task, cfg.graph)
    network = Transformer(cfg, seed).requires_grad_(False)
    return InterventionTests(Evaluation(network, alignment), find_truth(alignment, pairs=500))


def released_tests(name):
    """Returns the intervention tests of a released network."""
    checkpoint = load_checkpoint(released()[name])
    alignment = align(get_task(name), checkpoint.record.shape.graph, checkpoint.record.alignment)
    return InterventionTests(
        Evaluation(checkpoint.network.requires_grad_(False), alignment), checkpoint.truth
    )


def chunk_of(tests, rows=48, sources=1, seed=0):
    """Returns rows of the task, each with the given number of sources."""
    ev, rng = tests.evaluation, np.random.default_rng(seed)
    base = ev.task.domain.draw(rng, rows, True)
    given = [ev.task.domain.sources(rng, base, True) for _ in range(sources)]
    return Chunk(ev.activations(base), tuple(map(ev.activations, given)), rng)


def direct(tests, chunk):
    """Returns which rows are right with each inert edge patched, each by a run of the whole network."""
    ev = tests.evaluation
    answer = chunk.base.trace[ev.causal_model.output]
    runs = ev.single_edges(chunk.base, chunk.sources[0].stack, tests.inert)
    return {tests.edge_name(tests.inert[number]): ev.right(found, answer) for number, found in runs}


# Configurations, scripts and files.


def composed(command: str, *overrides: str) -> dict[str, Any]:
    """Returns the configuration that Hydra composes from `configs/` and overrides."""
    with initialize_config_dir(config_folder(), version_base="1.3"):
        data: Any = OmegaConf.to_container(compose(command, list(overrides)), resolve=True)
    data.pop("experiment", None)
    return data


def edit(path: Path, **changes: Any) -> None:
    """Changes entries of a JSON object in a file."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def run_script(where: Path, script: str, *arguments: str) -> CompletedProcess[str]:
    """Runs a script of the top folder in a process of its own, as a user does."""
    return run_python(where, str(ROOT / script), *arguments)
