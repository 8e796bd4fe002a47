"""Trains and certifies a network for a task, in a folder of its own."""

import logging
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from pathlib import Path
from typing import Any

from pydantic.dataclasses import dataclass

from interpbench.alignment.alignment import Alignment, align
from interpbench.alignment.truth import find_truth
from interpbench.checkpoints.find import find_checkpoints
from interpbench.checkpoints.format import (
    CERTIFICATE,
    FILES,
    WEIGHTS,
    load_checkpoint,
    save_checkpoint,
    versions,
)
from interpbench.circuits.truth import Truth
from interpbench.core import seeds
from interpbench.core.config import STRICT, Count, convert
from interpbench.core.errors import ConfigError, TaskError
from interpbench.core.files import locked, read_json, sha256, write_bytes, write_json
from interpbench.core.metrics import JsonLines, Sink, Wandb
from interpbench.runs.device import select_device
from interpbench.runs.entry import Outcome, config_folder
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.data import draw_pairs
from interpbench.tasks.shapes import ModelSettings, shape
from interpbench.tasks.task import RaspTask, Task
from interpbench.training.certificate import CertificateSettings, certify
from interpbench.training.evaluate import Evaluation
from interpbench.training.objective import Objective
from interpbench.training.trainer import Trainer, TrainerSettings
from interpbench.transformer.model import Transformer

log = logging.getLogger(__name__)
MODELS = Path("models")
PAIRS = 512
"""Pairs of inputs stored with a checkpoint, for discovery."""


@dataclass(frozen=True, config=STRICT)
class LoggerSettings:
    """Sinks besides `metrics.jsonl`."""

    wandb: bool = False
    project: str = "interpbench"


@dataclass(frozen=True, config=STRICT)
class TrainConfig:
    """Everything about a training run; `configs/train.yaml` says what each key means."""

    task: str | int
    seed: int = 0
    device: str = "auto"
    threads: Count = 1
    out: str = "runs"
    fresh: bool = False
    release: bool = False
    objective: Objective = Objective()
    model: ModelSettings = ModelSettings()
    trainer: TrainerSettings = TrainerSettings()
    certificate: CertificateSettings = CertificateSettings()
    logger: LoggerSettings = LoggerSettings()
    alignment: dict[str, str] = field(default_factory=dict[str, str])
    start: str | None = None

    def settings(self) -> dict[str, Any]:
        """Returns what determines the result, as plain data; `start` by its weights, wherever they are."""
        kept = ("seed", "objective", "model", "trainer", "certificate", "alignment")
        start = None if self.start is None else sha256((self.start_folder / WEIGHTS).read_bytes())
        return {
            "task": get_task(self.task).name,
            **{key: value for key, value in asdict(self).items() if key in kept},
            "start": start,
        }

    @property
    def start_folder(self) -> Path:
        """The one checkpoint that `start` means."""
        found = find_checkpoints(str(self.start))
        if len(found) != 1 or not (found[0] / WEIGHTS).is_file():
            raise ConfigError(f"start={self.start} is not one checkpoint of ours; say which, name or folder")
        return found[0]

    @property
    def kind(self) -> str:
        """Where the weights come from: `compiled` or `trained`."""
        return "compiled" if self.model.kind == "compiled" else "trained"

    @property
    def folder(self) -> Path:
        """Where the run is: a function of everything that determines the result."""
        task = get_task(self.task)
        key = sha256(repr((self.settings(), shape(task, self.model), _fingerprint(task))).encode())[:8]
        return Path(self.out) / task.name / f"{self.kind}-seed{self.seed}-{key}"


@dataclass(frozen=True)
class TrainOutcome:
    """Where a run's results are and whether it reached its target."""

    folder: Path
    certified: bool
    steps: int
    certificate: dict[str, Any]

    def line(self, task: str) -> str:
        """Returns the one line at the end."""
        demands = self.certificate["demands"]
        scope = "" if "edges" in demands else f" ({', '.join(demands)} only)"
        failures = "; ".join(self.certificate["failures"][:2])
        verdict = f"certified{scope}" if self.certified else f"NOT certified: {failures}"
        return f"{task}: {verdict} after {self.steps} steps; checkpoint and metrics in {self.folder}"

    def summary(self) -> Outcome:
        """Returns what a sweep's summary says."""
        result = "certified" if self.certified else "not certified"
        facts = {"result": result, "steps": self.steps, "folder": str(self.folder)}
        if self.certified:
            return Outcome(0, facts)
        return Outcome(1, facts, (f"{result}: {'; '.join(self.certificate['failures'][:2])}",))


def run(data: Mapping[str, Any]) -> Outcome:
    """Runs a composed configuration."""
    config = _converted(data)
    outcome = train(config)
    log.info("%s", outcome.line(get_task(config.task).name))
    return outcome.summary()


def finished(data: Mapping[str, Any]) -> Outcome | None:
    """Returns how the run of a composed configuration ended, if there is nothing left to do."""
    config = _converted(data)
    folder = config.folder
    if config.fresh or config.release or not (folder / CERTIFICATE).exists():
        return None
    return _outcome(folder, config).summary()


def _converted(data: Mapping[str, Any]) -> TrainConfig:
    if data.get("task") in (None, "???"):
        raise ConfigError("task is missing: say task=frac_prevs, or a number; `interpbench tasks` lists them")
    return convert(TrainConfig, {key: value for key, value in data.items() if key != "experiment"}, "train")


def own_experiment(task: str | int | None) -> str | None:
    """Returns the name of a task, without its tokenizer, if `configs/experiment` has a file of that name."""
    if task in (None, "???"):
        return None
    name = get_task(task).name.partition("[")[0]
    return name if (Path(config_folder()) / "experiment" / f"{name}.yaml").is_file() else None


def own_settings(task: str | int) -> dict[str, Any]:
    """Returns the settings of a task that has its own, nested; none for most."""
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    name = own_experiment(task)
    if name is None:
        return {}
    with initialize_config_dir(config_folder(), version_base="1.3"):
        settings: Any = OmegaConf.to_container(compose("train", [f"experiment={name}"]), resolve=True)
    return {key: value for key, value in settings.items() if key not in ("task", "experiment")}


def train(config: TrainConfig) -> TrainOutcome:
    """Trains (or goes on training, or only looks up) the run that `config` describes."""
    task = get_task(config.task)
    settings, kind, folder = config.settings(), config.kind, config.folder
    if config.fresh and folder.exists():
        with locked(folder):
            shutil.rmtree(folder)
    if (folder / CERTIFICATE).exists():
        log.info("%s is finished; fresh=true trains it again", folder)
        return _outcome(folder, config)
    device = select_device(config.device)
    started = time.perf_counter()
    with locked(folder):
        network, steps, certificate, truth, alignment = (
            _compile(task, config) if kind == "compiled" else _train(task, config, folder, device)
        )
        record = _record(task, kind, alignment, truth, settings, steps, time.perf_counter() - started)
        write_json(folder / "config.json", settings)  # before the certificate, which says that all is there
        save_checkpoint(folder, network, record, certificate, draw_pairs(task, PAIRS, config.seed))
    return _outcome(folder, config)


def _fingerprint(task: Task) -> bytes:
    """Returns the program and what it answers to some inputs: an edited task is another run."""
    tokens = task.domain.draw(seeds.generator(0, "fingerprint"), 256)
    return repr(task.listing()).encode() + task.model.outputs(tokens).tobytes()


def _outcome(folder: Path, config: TrainConfig) -> TrainOutcome:
    """Reads a finished run, and releases it if asked."""
    checkpoint = load_checkpoint(folder)
    certificate = checkpoint.certificate or read_json(folder / CERTIFICATE)
    if config.release and certificate["certified"]:
        target = MODELS / checkpoint.task
        for name in FILES:
            write_bytes(target / name, (folder / name).read_bytes())
        log.info("released to %s", target)
    return TrainOutcome(folder, bool(certificate["certified"]), checkpoint.record.steps, certificate)


Trained = tuple[Transformer, int, dict[str, Any], Truth, Alignment]


def _train(task: Task, config: TrainConfig, folder: Path, device: Any) -> Trained:
    cfg = shape(task, config.model)
    alignment = align(task, cfg.graph, config.alignment)
    truth = find_truth(alignment)
    network = Transformer(cfg, config.seed)
    if config.start is not None:
        _start(network, config)
    network.to(device)
    trainer = Trainer(
        network, alignment, truth, config.objective, config.trainer, config.certificate, config.seed, folder
    )
    sinks = _sinks(config, folder, trainer.progress.step)
    try:
        result = trainer.train(sinks, f"{task.name} seed {config.seed}", config.threads)
    finally:
        for sink in sinks:
            sink.close()
    return network, result.steps, result.certificate, truth, alignment


def _start(network: Transformer, config: TrainConfig) -> None:
    """Gives a network the weights that training starts from."""
    checkpoint = load_checkpoint(config.start_folder)
    here, there = asdict(network.cfg), asdict(checkpoint.model.cfg)
    differences = [
        f"{name} {there[name]}, not {value}"
        for name, value in here.items()
        if value != there[name] and not name.startswith("init_")
    ]
    if differences:
        raise ConfigError(f"start={config.start} is another network: {'; '.join(differences)}")
    network.load_state_dict(checkpoint.model.state_dict())


def _compile(task: Task, config: TrainConfig) -> Trained:
    """Makes the checkpoint of the compiled weights, aligned as Tracr places the variables."""
    from interpbench.rasp.compile import compile_program
    from interpbench.rasp.weights import compiled_network

    if not isinstance(task, RaspTask):
        raise TaskError(f"task {task.name} is hand-written: Tracr compiles RASP programs only")
    if config.alignment:
        raise ConfigError("alignment: compiled networks are aligned as Tracr places the variables")
    network = compiled_network(compile_program(task.program))
    alignment = Alignment(task, network.cfg.graph, task.placement)
    truth = find_truth(alignment)
    certificate = certify(Evaluation(network, alignment), truth, config.certificate, config.seed)
    return network, 0, certificate, truth, alignment


def _sinks(config: TrainConfig, folder: Path, step: int) -> Sequence[Sink]:
    sinks: list[Sink] = [JsonLines(folder / "metrics.jsonl", step)]
    if config.logger.wandb:
        name = f"{get_task(config.task).name}-seed{config.seed}"
        sinks.append(Wandb(config.logger.project, name, config.settings(), folder))
    return sinks


def _record(
    task: Task,
    kind: str,
    alignment: Alignment,
    truth: Truth,
    settings: dict[str, Any],
    steps: int,
    seconds: float,
) -> dict[str, Any]:
    classes = task.model.classes
    return {
        "task": task.name,
        "legacy_id": task.legacy_id,
        "kind": kind,
        "vocabulary": [*task.vocab, "BOS", "PAD"],
        "classes": None if classes is None else list(classes),
        "alignment": {name: str(node) for name, node in alignment.nodes.items()},
        "truth": truth.to_json(),
        "training": settings,
        "versions": versions(),
        "seed": settings["seed"],
        "steps": steps,
        "seconds": seconds,
    }
