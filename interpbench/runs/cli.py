"""The console command `interpbench` and the entry points `train.py` and `evaluate.py`.

The other sub-commands are in `*_commands.py`; see `subcommand.py`.
"""

import sys
from collections.abc import Sequence
from functools import partial

from interpbench.checkpoints.checkpoint_files import CERTIFICATE
from interpbench.core.old_names import renamed_overrides
from interpbench.runs import (
    catalogue_commands,
    contest_commands,
    decoy_commands,
    exchange_commands,
    model_commands,
    trace_commands,
)
from interpbench.runs.entry import Command, Config, RunOutcome, configure_logging, finish
from interpbench.runs.method_lists import expand
from interpbench.runs.start import run_hydra
from interpbench.runs.subcommand import run_subcommand, subcommand

__all__ = [
    "catalogue_commands",
    "contest_commands",
    "decoy_commands",
    "evaluate",
    "exchange_commands",
    "main",
    "model_commands",
    "trace_commands",
    "train",
]


def main() -> None:
    """Runs a sub-command; `train` and `evaluate` take Hydra overrides."""
    arguments = sys.argv[1:]
    configure_logging()
    if arguments and arguments[0] in HYDRA:
        finish(lambda: HYDRA[arguments[0]](arguments[1:]))
    finish(lambda: run_subcommand(arguments))


def train() -> None:
    """Composes `configs/train.yaml` with the command line and trains."""
    configure_logging()
    finish(lambda: _train(sys.argv[1:]))


def evaluate() -> None:
    """Composes `configs/evaluate.yaml` with the command line and evaluates."""
    configure_logging()
    finish(lambda: _evaluate(sys.argv[1:]))


def _train(arguments: Sequence[str]) -> int:
    from interpbench.runs.overrides import hydra_overrides
    from interpbench.runs.task_lists import expand_tasks

    command = Command("train", _run_training, _check_training, _experiment, _finished, _train_settings)
    return run_hydra(command, expand_tasks(hydra_overrides(renamed_overrides(arguments))))


def _train_settings() -> type[object]:
    from interpbench.runs.train_settings import TrainConfig

    return TrainConfig


def _evaluate_settings() -> type[object]:
    from interpbench.runs.evaluate_settings import EvaluateConfig

    return EvaluateConfig


def _check_training(config: Config) -> object:
    from interpbench.runs.train_settings import train_config

    return train_config(config)


def _run_training(config: Config) -> RunOutcome:
    from interpbench.runs.train import run

    return run(config)


def _experiment(config: Config) -> str | None:
    from interpbench.runs.train_settings import own_experiment

    return own_experiment(config.get("task"))


def _finished(config: Config) -> RunOutcome | None:
    from interpbench.runs.train_settings import train_config

    if not (train_config(config).folder / CERTIFICATE).exists():
        return None
    from interpbench.runs.train import finished

    return finished(config)


def _evaluate(arguments: Sequence[str]) -> int:
    from interpbench.runs.overrides import hydra_overrides
    from interpbench.runs.own_methods import offer_methods

    overrides = hydra_overrides(renamed_overrides(arguments))
    command = Command(
        "evaluate", partial(_run_evaluation, overrides), _check_evaluation, settings=_evaluate_settings
    )
    return run_hydra(command, expand(offer_methods(overrides)))


def _check_evaluation(config: Config) -> object:
    from interpbench.runs.evaluate_settings import evaluate_config

    return evaluate_config(config)


def _run_evaluation(overrides: Sequence[str], config: Config) -> RunOutcome:
    from interpbench.runs.evaluate import run
    from interpbench.runs.own_methods import offer_methods

    offer_methods(overrides)  # a process that a sweep started has not imported the user's methods

    return run(config)


HYDRA = {"train": _train, "evaluate": _evaluate}
"""The commands that take Hydra overrides, and nothing that argparse knows."""
subcommand("train", "train a task: interpbench train task=frac_prevs (Hydra overrides)")(lambda _: _train([]))
subcommand("evaluate", "score a method: interpbench evaluate method=acdc (Hydra overrides)")(
    lambda _: _evaluate([])
)
