"""What can be said of a training run, and whether it makes sense. Needs no torch.

A mistake on the command line is found here, before anything that takes seconds to import.
"""

import dataclasses
from dataclasses import asdict, field
from pathlib import Path
from typing import Any, Literal

from pydantic.dataclasses import dataclass

from interpbench.alignment.alignment import Alignment, align
from interpbench.checkpoints.checkpoint_files import WEIGHTS, released
from interpbench.checkpoints.find import find_checkpoints
from interpbench.checkpoints.record import check_size, most_weights_bytes, read_record
from interpbench.circuits.grades import Standard
from interpbench.core import seeds
from interpbench.core.config import STRICT, Seed, Settings, Threads, Unchecked, config_folder, convert
from interpbench.core.errors import CheckpointError, ConfigError, TaskError
from interpbench.core.files import check_writable, read_bytes, sha256
from interpbench.core.old_names import renamed
from interpbench.runs.device import check_device
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.family import split_name
from interpbench.tasks.model_settings import ModelSettings
from interpbench.tasks.regimes.regime import RegimeTask, in_regime, regimes_of
from interpbench.tasks.shapes import capacity_command, shape
from interpbench.tasks.task import RaspTask, Task
from interpbench.training.curriculum import Curriculum
from interpbench.training.draws import Draws
from interpbench.training.objective import Objective
from interpbench.training.recipe import Recipe
from interpbench.training.settings import CertificateSettings, TrainerSettings
from interpbench.transformer.config import unlike


@dataclass(frozen=True, config=STRICT)
class LoggerSettings:
    """Sinks besides `metrics.jsonl`.

    Attributes:
        wandb: whether W&B gets the metrics, too; its failures stop no run: offline without WANDB_API_KEY.
        project: the W&B project.
    """

    wandb: bool = False
    project: str = "interpbench"


@dataclass(frozen=True, config=STRICT)
class TrainConfig:
    """Everything about a training run.

    Attributes:
        task: the task, by name or published number; `interpbench tasks` lists them.
        seed: the seed of everything that is drawn.
        device: auto, cpu, cuda, cuda:1, …
        threads: threads of a step; small ones are faster with one: certificates take as many as there are.
        out: the run goes to out/<task>/<a name made of the settings>; the same command resumes it.
        fresh: whether an earlier run with the same settings is forgotten.
        release: whether a certified checkpoint is copied to models/<task>, or to models/<task>/seed<n>.
        objective: the losses and their weights.
        draws: which inputs and interventions are drawn.
        curriculum: when losses begin and end.
        model: the network.
        trainer: how it is trained.
        certificate: how much the certificate measures.
        standard: what is asked of it.
        logger: sinks of metrics.
        alignment: variable to node, where not the task's own, as in alignment.duplicate=a0.h2.
        start: a checkpoint or run folder whose weights training starts from; null for random ones. It may be
            of a task with other tokens and classes. If its nodes have another shape, it is of the same task
            (or without `alive` or `wide`), and they are copied.
    """

    task: str | int
    seed: Seed = 0
    device: str = "auto"
    threads: Threads = 1
    out: str = "runs"
    fresh: bool = False
    release: bool = False
    objective: Objective = Objective()
    draws: Draws = Draws()
    curriculum: Curriculum = Curriculum()
    model: ModelSettings = ModelSettings()
    trainer: TrainerSettings = TrainerSettings()
    certificate: CertificateSettings = CertificateSettings()
    standard: Standard = Standard()
    logger: LoggerSettings = LoggerSettings()
    alignment: dict[str, str] = field(default_factory=dict[str, str])
    start: str | None = None

    def settings(self) -> Settings:
        """Returns what determines the result, as plain data; `start` by its weights, wherever they are."""
        kept = {"seed", "objective", "draws", "curriculum", "model", "trainer", "certificate", "standard"}
        start = None if self.start is None else _hash_of(self.start_folder)
        task = get_task(self.task)
        decided = dataclasses.replace(
            self,
            trainer=self.trainer.of_task(task),
            objective=self.objective.of_task(task),
            draws=self.draws.of_task(task),
        )
        return {
            "task": task.name,
            **{key: value for key, value in asdict(decided).items() if key in kept | {"alignment"}},
            "start": start,
        }

    @property
    def recipe(self) -> Recipe:
        """What is trained for, on which draws, and when."""
        task = get_task(self.task)
        return Recipe(self.objective.of_task(task), self.draws.of_task(task), self.curriculum.of_task(task))

    @property
    def required_standard(self) -> Standard:
        """What its certificate is to reach: swaps at single positions, too, where these are trained."""
        positions = self.standard.positions or self.objective.iit > 0 < self.draws.positions
        return dataclasses.replace(self.standard, positions=positions)

    @property
    def start_folder(self) -> Path:
        """The one checkpoint that `start` means."""
        found = find_checkpoints(str(self.start))
        if len(found) != 1 or not (found[0] / WEIGHTS).is_file():
            raise ConfigError(f"start={self.start} is not one checkpoint of ours; say which, name or folder")
        return found[0]

    @property
    def kind(self) -> Literal["compiled", "trained"]:
        """Where the weights come from: `compiled` or `trained`."""
        return "compiled" if self.model.kind == "compiled" else "trained"

    @property
    def folder(self) -> Path:
        """Where the run is: a function of everything that determines the result."""
        task = get_task(self.task)
        key = sha256(repr((self.settings(), shape(task, self.model), _fingerprint(task))).encode())[:8]
        return Path(self.out) / task.name / f"{self.kind}-seed{self.seed}-{key}"


def own_experiment(task: str | int | None) -> str | None:
    """Returns the name of a task, without its parameters, if `configs/experiment` has a file of that name."""
    if task in (None, "???"):
        return None
    if not isinstance(task, str | int):  # pyright: ignore[reportUnnecessaryIsInstance]  as Hydra gives it
        raise ConfigError(f"task={task}: one name or number is wanted; several are a sweep, -m task=hist,ioi")
    name, _ = split_name(get_task(task).name)
    return name if (Path(config_folder()) / "experiment" / f"{name}.yaml").is_file() else None


def own_settings(task: str | int) -> Unchecked:
    """Returns the settings of a task that has its own, nested; none for most."""
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    name = own_experiment(task)
    if name is None:
        return {}
    with initialize_config_dir(config_folder(), version_base="1.3"):
        settings: Any = OmegaConf.to_container(compose("train", [f"experiment={name}"]), resolve=True)
    return {key: value for key, value in settings.items() if key not in ("task", "experiment")}


def _fingerprint(task: Task) -> bytes:
    """Returns the program and what it answers to some inputs: an edited task is another run."""
    tokens = task.domain.draw(seeds.generator(0, "fingerprint"), 256)
    found = repr(task.listing()).encode() + task.causal_model.outputs(tokens).tobytes()
    if task.crowd is not None:
        crowd = task.crowd.causal_model
        found += repr([(each.name, each.reads) for each in crowd.variables.values()]).encode()
    return found


def _hash_of(folder: Path) -> str:
    """Returns the SHA-256 of a checkpoint's weights."""
    most = most_weights_bytes(read_record(folder).shape)
    return sha256(read_bytes(folder / WEIGHTS, most, ConfigError))


def train_config(data: Unchecked) -> TrainConfig:
    """Turns a composed configuration into settings that make sense.

    Raises:
        InterpBenchError: in one line that names the value, if they do not.
    """
    if data.get("task") in (None, "???"):
        raise ConfigError("task is missing: say task=frac_prevs, or a number; `interpbench tasks` lists them")
    known = renamed({key: value for key, value in data.items() if key != "experiment"})
    config = convert(TrainConfig, known, "train")
    check_train(config)
    return config


def check_train(config: TrainConfig) -> None:
    """Checks what the types of the settings do not say.

    Raises:
        InterpBenchError: in one line that names the value, for a task, alignment, network, start, device or
            folder that is not possible.
    """
    task = get_task(config.task)
    try:
        check_size(shape(task, config.model))
    except CheckpointError as error:
        given = [f"model.{name}={value}" for name, value in asdict(config.model).items() if value is not None]
        raise ConfigError(f"{' '.join(given)}: {error}") from None
    if not any(config.objective.weight(term) for term in ("behaviour", "iit", "strict", "edge_strict")):
        raise ConfigError("objective: every loss has weight 0; objective.behaviour=1 trains the outputs")
    if config.objective.flatness and not task.flat:
        raise ConfigError(f"objective.flatness: nothing says how flat {task.name} is; regime=saturated does")
    if config.objective.secrecy and not task.secrets:
        raise ConfigError(
            f"objective.secrecy: no variable of {task.name} is in shares; regime=shares does that"
        )
    if config.objective.of_task(task).flatness and not config.objective.behaviour:
        raise ConfigError("objective.behaviour=0: flatness is asked of scored outputs, which then are none")
    if config.kind == "compiled":
        if not isinstance(task, RaspTask):
            why = "in a regime" if isinstance(task, RegimeTask) else "hand-written"
            raise TaskError(f"task {task.name} is {why}: Tracr compiles RASP programs only")
        if config.alignment:
            raise ConfigError("alignment: compiled networks are aligned as Tracr places the variables")
    else:
        _check_crowd(task, config)
        alignment_of(task, config)
    if config.start is not None:
        _check_start(task, config)
    check_device(config.device)
    check_writable(config.folder.parent)


def narrow(config: TrainConfig) -> str | None:
    """Returns what a network is too narrow for, or may be, in one line; None if it is not."""
    task = get_task(config.task)
    here, own, needed = shape(task, config.model), shape(task), task.causal_model.head_dimensions - 1
    if config.kind == "compiled":
        return None
    command = capacity_command(task, here, config.task)
    if here.d_head < min(needed, own.d_head):
        return (
            f"model.d_head={here.d_head}: a head of {task.name} tells {needed + 1} keys apart, which takes "
            f"{needed} dimensions; `{command}` measures what it can do"
        )
    if here.d_head < needed and config.start is None:
        start = task.name if task.name in released() else "median"
        return (
            f"model.d_head={here.d_head}: a head of {task.name} tells {needed + 1} keys apart, which can "
            f"take several runs (docs/models.md, Tasks that rank keys); start={start} goes on from a network "
            "that does"
        )
    for name in ("d_model", "d_mlp"):
        width, usual = getattr(here, name), getattr(own, name)
        if 2 * width < usual:
            own_width = f"{usual}, the default of {task.name}"
            return (
                f"model.{name}={width} is less than half of {own_width}; `{command}` measures what it can do"
            )
    return None


def _check_crowd(task: Task, config: TrainConfig) -> None:
    """Refuses nodes other than those that a task's bystanders were placed around."""
    if task.crowd is None:
        return
    here, own = shape(task, config.model), shape(task)
    if config.alignment:
        raise ConfigError(f"alignment: the name of {task.name} says which nodes carry what; try draw=1 in it")
    for name in ("n_layers", "n_heads"):
        if getattr(here, name) != getattr(own, name):
            raise ConfigError(
                f"model.{name}={getattr(here, name)}: {task.name} has bystanders on {getattr(own, name)}; "
                "its dials copies and heads make the network larger"
            )


def alignment_of(task: Task, config: TrainConfig) -> Alignment:
    """Returns which node of the network to be trained carries which variable."""
    return align(task, shape(task, config.model).graph, config.alignment)


TABLES = ("d_vocab", "d_out", "n_ctx")
"""The sizes in which a network to start from may differ: tokens, classes and positions of both are kept."""


def copies_nodes(task: Task, config: TrainConfig) -> bool:
    """Returns whether training starts from nodes of a network of another shape (`training.transplant`)."""
    return config.start is not None and bool(_differences(task, config))


def _check_start(task: Task, config: TrainConfig) -> None:
    """Refuses weights to start from that are of another shape, and not of this task or what it is made of."""
    differences = _differences(task, config)
    record = read_record(config.start_folder)
    if not differences:
        return
    if record.task not in (own := [task.name, *bases(task)]):
        raise ConfigError(
            f"start={config.start} is another network: {'; '.join(differences)}; nodes are copied only from "
            f"networks of {' or '.join(own)}"
        )
    if why := unlike(shape(task, config.model), record.shape):
        raise ConfigError(f"start={config.start}: {why}")


def _differences(task: Task, config: TrainConfig) -> list[str]:
    """Returns where the shape of the weights to start from is not that of the network.

    More layers than a network of another task has are no difference: they come after those that it has.
    """
    record = read_record(config.start_folder)
    here, there = asdict(shape(task, config.model)), asdict(record.shape)
    if record.task not in (task.name, *bases(task)):
        there["n_layers"] = max(there["n_layers"], here["n_layers"])
    return [
        f"{name} {there[name]}, not {value}"
        for name, value in here.items()
        if value != there[name] and name not in TABLES and not name.startswith("init_")
    ]


def bases(task: Task) -> list[str]:
    """Returns the names of the tasks whose nodes can be copied into a network of this one (`alive`, `wide`).

    If the task is noisy, they are also those of the task with the noise of that regime by default, and
    without noise, whose program is the same.
    """
    if not isinstance(task, RegimeTask) or regimes_of(task.name)[-1] not in ("alive", "wide"):
        return []
    base = task.base
    if isinstance(base, RegimeTask) and regimes_of(base.name)[-1] == "noisy":
        return list(dict.fromkeys([base.name, in_regime(base.base, "noisy").name, base.base.name]))
    return [base.name]
