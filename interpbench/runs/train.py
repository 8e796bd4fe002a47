"""Trains and certifies a network for a task, in a folder of its own."""

import contextlib
import logging
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from interpbench.alignment.alignment import Alignment, align
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.checkpoints.certificate_file import read_certificate
from interpbench.checkpoints.checkpoint_files import CERTIFICATE, FILES, is_ours
from interpbench.checkpoints.format import PAIRS, Checkpoint, save_checkpoint, versions
from interpbench.checkpoints.index import MOST_BYTES
from interpbench.checkpoints.load import load_checkpoint
from interpbench.checkpoints.record import Provenance, read_record
from interpbench.circuits.certificate import Certificate
from interpbench.circuits.grades import RELEASED, Grade, Standard, Verdict, grade, said_of
from interpbench.circuits.ground_truth import Truth
from interpbench.core.config import Settings
from interpbench.core.errors import CheckpointError
from interpbench.core.files import locked, read_bytes, write_bytes, write_json
from interpbench.core.metric_sinks import JsonLines, Sink, Wandb
from interpbench.core.process import prepare_torch, return_memory
from interpbench.runs.device import select_device
from interpbench.runs.entry import Config, RunOutcome
from interpbench.runs.train_settings import (
    TrainConfig,
    alignment_of,
    check_train,
    copies_nodes,
    narrow,
    train_config,
)
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.data import draw_pairs
from interpbench.tasks.identity import task_sha256
from interpbench.tasks.regimes.regime import regimes_of
from interpbench.tasks.shapes import capacity_command, shape
from interpbench.tasks.task import RaspTask, Task
from interpbench.training.interventional_accuracy import Evaluation
from interpbench.training.measure_certificate import certify
from interpbench.training.stopping import Line
from interpbench.training.trainer import Trainer
from interpbench.training.transplant import Transplant
from interpbench.transformer.model import Transformer

log = logging.getLogger(__name__)
MODELS = Path("models")


@dataclass(frozen=True)
class TrainOutcome:
    """What a run made, and what it reaches by the run's own standard.

    Attributes:
        checkpoint: the network with its record and certificate.
        certificate: what was measured at the end.
        goal: the grade that training for its objective aims at.
        standard: what the run was to reach.
        longer: how long a schedule to try if it is not certified.
        guidance: the settings that would guide training, if it is not guided.
        capacity: the command that measures what the network's nodes can hold.
    """

    checkpoint: Checkpoint
    certificate: Certificate
    goal: Grade
    standard: Standard
    longer: int = 0
    guidance: str = ""
    capacity: str = ""

    def __repr__(self) -> str:
        return f"TrainOutcome {self.line(self.checkpoint.task)}"

    @property
    def folder(self) -> Path:
        """Where the results are."""
        return self.checkpoint.folder

    @property
    def steps(self) -> int:
        """How many steps of training there were."""
        return self.checkpoint.record.steps

    @property
    def verdict(self) -> Verdict:
        """What the certificate reaches."""
        return grade(self.certificate, self.standard)

    @property
    def certified(self) -> bool:
        """Whether the run reached the grade that its objective aims at."""
        return self.verdict.reaches(self.goal)

    @property
    def _missed(self) -> str:
        missed = self.verdict.missed(self.goal)
        if missed and "not measured" in missed[0] and self.steps:
            return f"{missed[0]} (the last validation rules it out: metrics.jsonl)"
        return "; ".join(missed[:2])

    def line(self, task: str) -> str:
        """Returns the one line at the end."""
        said = said_of(self.certificate, self.standard)
        verdict = f"certified ({said})" if self.certified else f"NOT certified ({said}): {self._missed}"
        said = f"{task}: {verdict} after {self.steps} steps; checkpoint and metrics in {self.folder}"
        return f"{said}{self._advice}"

    @property
    def _advice(self) -> str:
        """What to try, in settings; nothing if it is certified, or was not trained."""
        if self.certified or not self.steps:
            return ""
        return (
            f"; try {self.guidance and self.guidance + '; or '}trainer.max_steps={self.longer}, or go "
            f"on from here: start={self.folder}; `{self.capacity}` says what its nodes can hold"
        )

    def summary(self) -> RunOutcome:
        """Returns what a sweep's summary says."""
        result = "certified" if self.certified else "not certified"
        grade = said_of(self.certificate)
        facts = {"result": result, "grade": grade, "steps": self.steps, "folder": str(self.folder)}
        return (
            RunOutcome(0, facts)
            if self.certified
            else RunOutcome(1, facts, (f"{result}: {self._missed}{self._advice}",))
        )


def run(data: Config) -> RunOutcome:
    """Runs a composed configuration."""
    config = train_config(data)
    outcome = train(config)
    log.info("%s", outcome.line(get_task(config.task).name))
    return outcome.summary()


def finished(data: Config) -> RunOutcome | None:
    """Returns how the run of a composed configuration ended, if there is nothing left to do."""
    config = train_config(data)
    folder = config.folder
    if config.fresh or config.release or not (folder / CERTIFICATE).exists():
        return None
    return _outcome(load_checkpoint(folder), config).summary()


def train(config: TrainConfig) -> TrainOutcome:
    """Trains (or goes on training, or only looks up) the run that `config` describes."""
    prepare_torch()
    return_memory()
    check_train(config)
    task = get_task(config.task)
    settings, folder = config.settings(), config.folder
    if config.fresh and folder.exists():
        with locked(folder):
            shutil.rmtree(folder)
    if (folder / CERTIFICATE).exists():
        log.info("%s is finished; fresh=true trains it again", folder)
        return _outcome(load_checkpoint(folder), config)
    device = select_device(config.device)
    if (why := narrow(config)) is not None:
        log.warning("%s", why)
    started = time.perf_counter(), time.process_time()
    with locked(folder):
        pairs = draw_pairs(task, PAIRS, config.seed)  # before, as a task of one's own may have none
        network, steps, guided, certificate, truth, alignment, earlier = (
            _compile(task, config) if config.kind == "compiled" else _train(task, config, folder, device)
        )
        seconds = earlier[0] + time.perf_counter() - started[0]
        spent = seconds, earlier[1] + time.process_time() - started[1]
        made = _provenance(alignment, truth, config, settings, (steps, guided), spent)
        write_json(folder / "config.json", settings)  # before the certificate, which says that all is there
        saved = save_checkpoint(folder, network, made, certificate, pairs, task_sha256(task))
    return _outcome(saved, config)


def _outcome(checkpoint: Checkpoint, config: TrainConfig) -> TrainOutcome:
    """Returns what a run made, and releases it if asked and good enough."""
    folder, certificate = checkpoint.folder, checkpoint.certificate
    if certificate is None:
        raise CheckpointError(f"{folder} has no certificate that can be read; fresh=true trains it again")
    if config.release and not grade(certificate).reaches(RELEASED):
        log.warning("not released: %s is what released models reach at least", RELEASED)
    elif config.release:
        target = _release_folder(checkpoint)
        for name in FILES:
            write_bytes(target / name, read_bytes(folder / name, MOST_BYTES))
        log.info("released to %s", target)
    return TrainOutcome(
        checkpoint,
        certificate,
        config.objective.grade,
        config.required_standard,
        config.trainer.of_task(get_task(config.task)).longer,
        config.objective.guidance,
        capacity_command(get_task(config.task), checkpoint.network.cfg, config.task),
    )


def _release_folder(checkpoint: Checkpoint) -> Path:
    """Returns where a checkpoint is released: beside the task's model if that one has another seed."""
    among = MODELS / "regimes" if regimes_of(checkpoint.task) else MODELS
    target, seed = among / checkpoint.task, checkpoint.record.seed
    other = is_ours(target) and read_record(target).seed != seed
    return target / f"seed{seed}" if other else target


Trained = tuple[Transformer, int, int, Certificate, Truth, Alignment, tuple[float, float]]
"""A network, its steps and the guided ones of them, certificate, truth, alignment, and earlier seconds."""


def _train(task: Task, config: TrainConfig, folder: Path, device: torch.device) -> Trained:
    cfg = shape(task, config.model)
    alignment = alignment_of(task, config)
    truth = find_truth(alignment)
    network, start = Transformer(cfg, config.seed), None
    if config.start is not None:
        start = load_checkpoint(config.start_folder, certificate=False)
        if copies_nodes(task, config):
            there = start.record
            trained = align(get_task(there.task), start.network.cfg.graph, there.alignment)
            crowd = alignment if task.crowd is None else align(task.crowd, cfg.graph)
            Transplant(start.network, trained, alignment, crowd).into(network, config.seed)
        else:
            _take_weights(network, task, start)
    network.to(device)
    trainer = Trainer(
        network,
        alignment,
        truth,
        config.recipe,
        config.trainer,
        config.certificate,
        config.seed,
        folder,
        config.required_standard,
        None if start is None else start.record.sha256,
        0 if start is None else _tried(start),
        config.task,
    )
    title, result = f"{task.name} seed {config.seed}", None
    if not trainer.resume() and copies_nodes(task, config):
        result = trainer.certify_copied(title)
    sinks = _sinks(config, folder, trainer.progress.history)
    try:
        result = result or trainer.train(sinks, title, config.threads)
    finally:
        for sink in sinks:
            sink.close()
    return network, result.steps, result.guided, result.certificate, truth, alignment, result.earlier


@torch.no_grad()
def _take_weights(network: Transformer, task: Task, start: Checkpoint) -> None:
    """Gives a network the weights of another one; of tokens, classes and positions, those that both have."""
    (tokens, classes), there = _entries(task), start.record
    tables = {  # the axis of each table, and its entries here and there
        "embed.W_E": (0, tokens, there.vocabulary),
        "unembed.W_U": (1, classes, there.classes),
        "unembed.b_U": (0, classes, there.classes),
        "pos_embed.W_pos": (0, range(network.cfg.n_ctx), range(there.shape.n_ctx)),
    }
    weights = network.state_dict()
    for name, trained in start.network.state_dict().items():
        axis, own, others = tables.get(name, (0, None, None))
        if own is None or others is None:
            if weights[name].shape == trained.shape:
                weights[name].copy_(trained)
            continue
        at = {repr(entry): place for place, entry in enumerate(others)}
        common = [(place, at[repr(entry)]) for place, entry in enumerate(own) if repr(entry) in at]
        to, of = torch.tensor(common, dtype=torch.long).reshape(-1, 2).unbind(1)
        weights[name].index_copy_(axis, to, trained.index_select(axis, of))


def _tried(start: Checkpoint) -> int:
    """Returns how many certificates were tried of the weights that a run starts from, as far as they say."""
    with contextlib.suppress(CheckpointError):  # of another version of the task, for example
        if (certificate := read_certificate(start.folder / CERTIFICATE, start.record)) is not None:
            return 1 + certificate.attempts
    return 0


def _compile(task: Task, config: TrainConfig) -> Trained:
    """Makes the checkpoint of the compiled weights, aligned as Tracr places the variables."""
    from interpbench.rasp.compile import compile_program
    from interpbench.rasp.weights import compiled_network

    assert isinstance(task, RaspTask)
    network = compiled_network(compile_program(task.program))
    alignment = Alignment(task, network.cfg.graph, task.default_alignment)
    truth = find_truth(alignment)
    certificate = certify(
        Evaluation(network, alignment), truth, config.certificate, config.required_standard, config.seed
    )
    return network, 0, 0, certificate, truth, alignment, (0.0, 0.0)


def _sinks(config: TrainConfig, folder: Path, history: Sequence[Line]) -> Sequence[Sink]:
    sinks: list[Sink] = [JsonLines(folder / "metrics.jsonl", [line.to_json() for line in history])]
    if config.logger.wandb:
        name = f"{get_task(config.task).name}-seed{config.seed}"
        sinks.append(Wandb(config.logger.project, name, config.settings(), folder))
    return sinks


def _entries(task: Task) -> tuple[list[Any], list[Any] | None]:
    """Returns the tokens of a task's networks, and their classes; None for a number."""
    classes = task.causal_model.classes
    return [*task.vocab, "BOS", "PAD"], None if classes is None else list(classes)


def _provenance(
    alignment: Alignment,
    truth: Truth,
    config: TrainConfig,
    settings: Settings,
    steps: tuple[int, int],
    seconds: tuple[float, float],
) -> Provenance:
    task = alignment.task
    vocabulary, classes = _entries(task)
    return Provenance(
        task=task.name,
        legacy_id=task.legacy_id,
        kind=config.kind,
        vocabulary=vocabulary,
        classes=classes,
        alignment={name: str(node) for name, node in alignment.nodes.items()},
        truth=truth.to_json(),
        training=settings,
        versions=versions(),
        seed=config.seed,
        steps=steps[0],
        seconds=seconds[0],
        cpu_seconds=seconds[1],
        guided=steps[1],
    )
