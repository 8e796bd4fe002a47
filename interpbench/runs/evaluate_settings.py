"""What can be said of an evaluation, and whether it makes sense. Needs no torch.

A mistake on the command line is found here, before anything that takes seconds to import.
"""

import json
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from pydantic import Field, JsonValue
from pydantic.dataclasses import dataclass

from interpbench.checkpoints.certificate_file import check_files
from interpbench.checkpoints.checkpoint_files import DATA, is_ours
from interpbench.checkpoints.find import find_checkpoints
from interpbench.checkpoints.record import task_of
from interpbench.core.config import STRICT, Count, Seed, Settings, Threads, Unchecked, convert
from interpbench.core.errors import ConfigError, UnknownNameError
from interpbench.core.files import check_writable, sha256
from interpbench.core.old_names import renamed
from interpbench.discovery.known_methods import (
    EXAMPLES,
    baseline_names,
    check_method,
    default,
    known_methods,
    method_names,
    most_examples,
    own_settings,
)
from interpbench.runs.device import check_device
from interpbench.runs.method_lists import MANY, with_settings
from interpbench.runs.result_files import results_folder
from interpbench.scoring.leaderboard_rows import BOARD, TRUTH, read_rows
from interpbench.scoring.results import Conditions
from interpbench.tasks.catalogue import get_task

if TYPE_CHECKING:
    from interpbench.checkpoints.format import Checkpoint


@dataclass(frozen=True, config=STRICT)
class StabilitySettings:
    """How often methods are run again.

    Attributes:
        samples: bootstrap samples of the pairs.
        seeds: other seeds for methods that draw at random, whatever they cost.
        most_passes: methods that took more are not run on samples: passes forward and backward, in examples.
    """

    samples: Annotated[int, Field(ge=0, le=10_000)] = 10
    seeds: Annotated[int, Field(ge=0, le=10_000)] = 0
    most_passes: Count = 10_000


Examples = Annotated[int, Field(ge=1, le=1 << 17)]


class MethodChoice(NamedTuple):
    """A method with the settings that it is to have."""

    name: str
    settings: Settings


@dataclass(frozen=True, config=STRICT)
class EvaluateConfig:
    """Everything about an evaluation.

    Attributes:
        method: the method's name, and its settings.
        methods: several methods; also method=acdc,eap, method=exact,exact+direction=both and method=all.
        checkpoint: all, a name or number in models/, a checkpoint, a run or a folder of runs; also a,b.
        examples: pairs of clean and corrupted inputs.
        examples_of: other numbers of pairs for some methods, as in examples_of.edge_sp=64: otherwise a method
            whose record says that it takes fewer gets so many.
        test_examples: other pairs, for how the circuits found behave.
        baselines: whether several methods are compared with the baselines, too: `interpbench methods` says
            which methods are baselines.
        thorough: whether the expensive scores are wanted, too; None where several methods are compared: they
            are completeness, hypothesis tests and stability.
        stability: how often methods are run again, if thorough.
        data: where pairs come from: they are the checkpoint's own (`stored`), or drawn from the task with the
            seed (`fresh`).
        corruption: for data=fresh, one of the task's corruptions; None for its first: all have resample, ioi
            also abc and swap.
        task: for data=fresh, where a task of your own is, as path/to/file.py:name.
        structural: whether allowed nodes and edges count as part of the circuit, as in older papers.
        pictures: whether circuits are drawn.
        fresh: whether what is finished is evaluated again.
        seed: the seed of everything that is drawn.
        device: auto, cpu, cuda, cuda:1, …
        threads: threads of the process.
        out: the folder of the results.
        board: the folder of a leaderboard that results are added to. None for a new one, in `out`, of several
            methods.
    """

    method: Settings
    methods: str | list[str] | None = None
    checkpoint: str | int | list[str | int] = "all"
    examples: Examples = EXAMPLES
    examples_of: dict[str, Examples] = field(default_factory=dict[str, Examples])
    test_examples: Examples = 64
    baselines: bool = True
    thorough: bool | None = None
    stability: StabilitySettings = StabilitySettings()
    data: Literal["stored", "fresh"] = "stored"
    corruption: str | None = None
    task: str | None = None
    structural: bool = False
    pictures: bool = True
    fresh: bool = False
    seed: Seed = 0
    device: str = "auto"
    threads: Threads = 1
    out: str = "runs/evaluate"
    board: str | None = None

    def file(self, checkpoint: "Checkpoint", choice: MethodChoice) -> Path:
        """Returns the file of a record: the method's name with every setting that is not the default."""
        told = {k: v for k, v in choice.settings.items() if changed(choice.name, k, v)}
        for key in ("seed", "examples", "data", "corruption", "structural"):
            if getattr(self, key) != getattr(EvaluateConfig, key):
                told[key] = getattr(self, key)
        parts = [
            f"{key}={json.dumps(value)}".replace('"', "").replace(" ", "") for key, value in told.items()
        ]
        name = "-".join([choice.name, *parts])
        stem = name if len(name) <= 80 else f"{choice.name}-{sha256(name.encode())[:8]}"
        return results_folder(self.out, checkpoint.task, checkpoint.folder) / f"{stem}.json"

    @property
    def chosen(self) -> list[MethodChoice]:
        """The methods with their settings.

        Raises:
            ConfigError: for settings of one method while several are asked for.
        """
        settings = dict(self.method)
        name = str(settings.pop("name", None))
        own = {key: value for key, value in settings.items() if changed(name, key, value)}
        if self.methods is None:  # a leaderboard names what is not the default
            return [MethodChoice(name, own if self.compares else settings)]
        if own:
            raise ConfigError(
                f"method.{next(iter(own))} is a setting of one method, but several are asked for"
            )
        listed = self.methods if isinstance(self.methods, list) else [self.methods]
        names = [name for told in listed for name in (method_names() if told == MANY else [str(told)])]
        choices = [MethodChoice(name, own_settings(name, told)) for name, told in map(with_settings, names)]
        return [choice for place, choice in enumerate(choices) if choice not in choices[:place]]

    @property
    def with_baselines(self) -> list[MethodChoice]:
        """The chosen methods, and for a leaderboard the baselines."""
        chosen = self.chosen
        names = {name for name, _ in chosen}
        wanted = self.baselines and self.compares
        extra = [name for name in baseline_names() if wanted and name not in names]
        return [*chosen, *(MethodChoice(name, {}) for name in extra)]

    @property
    def found(self) -> list[Path]:
        """The folders of the checkpoints, each once.

        Raises:
            CheckpointError: if a name means none.
        """
        wanted = self.checkpoint if isinstance(self.checkpoint, list) else [self.checkpoint]
        if not wanted:
            raise ConfigError("checkpoint=[] names no checkpoint; say checkpoint=hist, or checkpoint=all")
        return list(dict.fromkeys(folder for name in wanted for folder in find_checkpoints(str(name))))

    @property
    def compares(self) -> bool:
        """Whether a leaderboard is made: of several methods, or the one that is named, to which one adds."""
        return self.methods is not None or self.board is not None

    @property
    def thoroughly(self) -> bool:
        """Whether the expensive scores are wanted: by default where methods are compared."""
        return self.compares if self.thorough is None else self.thorough

    def examples_for(self, name: str) -> int:
        """Returns how many pairs a method gets."""
        most = None if name == TRUTH else most_examples(name)
        return min(self.examples, self.examples_of.get(name) or most or self.examples)

    def conditions(self, name: str) -> Conditions:
        """Returns what decides the numbers besides weights, method, settings and seed."""
        from interpbench.discovery.method import method_source, stored_file  # not above: it imports torch

        made = Conditions(
            examples=self.examples_for(name),
            test_examples=self.test_examples,
            thorough=self.thoroughly,
            data=self.data,
            corruption=self.corruption,
            source=method_source(name) or stored_file(name),
        )
        return replace(made, **vars(self.stability)) if self.thoroughly else made


def changed(name: str, key: str, value: JsonValue) -> bool:
    """Returns whether a value of a method's setting differs from the default.

    Args:
        name: the name of the method.
        key: the name of the setting.
        value: the value to compare with the default.
    """
    return json.loads(json.dumps(default(name, key))) != value


def evaluate_config(data: Unchecked) -> EvaluateConfig:
    """Turns a composed configuration into settings, and checks that an evaluation can run with them.

    Args:
        data: the configuration, as Hydra composes it from files and from the command line.

    Raises:
        InterpBenchError: if a value is not possible; the message is one line that names the value.
    """
    if data.get("method", {}).get("name") in known_methods():
        data = renamed(data)
    config = convert(EvaluateConfig, data, "evaluate")
    check_evaluate(config)
    return config


def check_evaluate(config: EvaluateConfig) -> None:
    """Checks those settings whose type alone does not say which values are possible.

    Args:
        config: the settings of an evaluation.

    Raises:
        InterpBenchError: for a method, checkpoint, corruption, task, device or folder that is not possible;
            the message is one line that names the value.
    """
    if config.corruption is not None and config.data == "stored":
        raise ConfigError("stored pairs are corrupted already; say data=fresh with a corruption")
    for name, settings in config.chosen:
        check_method(name, settings)
    if not config.chosen:
        raise ConfigError("methods=[] names no method; say method=acdc, or method=all")
    for name in config.examples_of:
        try:
            check_method(name, {})
        except UnknownNameError as error:
            raise ConfigError(f"examples_of.{name}: {error}") from None
    check_device(config.device)
    if config.task is not None:
        get_task(config.task)
    folders = config.found
    if len(folders) == 1 and is_ours(folders[0]):
        _check_one(config, folders[0])
    if config.board is not None:
        board = Path(config.board) / BOARD
        _ = read_rows(board) if board.exists() else None
        check_writable(Path(config.board))
    check_writable(Path(config.out))


def _check_one(config: EvaluateConfig, folder: Path) -> None:
    """Checks the files of the one checkpoint that is evaluated, and whether the settings are of its kind."""
    record = check_files(folder)
    for name, settings in config.chosen:
        if settings.get("metric") == "mse" and record.classes is not None:
            raise ConfigError(f"method {name}: metric=mse: the output of {record.task} is a class: use kl")
    if config.data == "stored":
        if not (folder / DATA).is_file():
            raise ConfigError(f"{folder / DATA} does not exist; data=fresh draws new pairs")
        return
    corruptions = task_of(record.task).domain.corruptions
    if config.corruption is not None and config.corruption not in corruptions:
        raise UnknownNameError(f"corruption of task {record.task}", config.corruption, corruptions)
