"""The networks of the study: the same tasks, trained in six ways for the same number of steps.

A guided network is trained until it is certified. The others take as many steps as the guided network of the
same task and seed, with the same schedule, batch and draws, so that how long they were trained tells no two
kinds apart. Natural networks learn the task alone, and have seeds of their own: those of `natural` and
`natural again` are as different from each other as from all others, so what tells these two apart is chance.
"""

from dataclasses import dataclass
from pathlib import Path

from safetensors.torch import load_file, save_file

from interpbench import train
from interpbench.alignment.alignment import Alignment, align
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.circuits.ground_truth import Truth
from interpbench.core.config import convert
from interpbench.core.errors import TrainingError
from interpbench.runs.train_settings import TrainConfig, own_settings
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.shapes import shape
from interpbench.training.interventional_accuracy import Evaluation
from interpbench.training.trainer import Trainer
from interpbench.training.validation import Validation, validate
from interpbench.transformer.model import Transformer

TASKS = (
    "frac_prevs",
    "equals_two_back",
    "trend_to_next",
    "spread_with_zeros",
    "direction_change",
    "last_to_front",
    "last_two_equal",
    "clip_to_2_7",
    "next_minus_current",
    "equals_mirror",
)
"""Ten non-trivial tasks of two to four layers, one of them with a numerical output."""
SEEDS = 3
VALIDATED = 4096
"""The number of pairs of inputs on which it is measured how far a network carries the circuit."""
NATURAL, AGAIN, GUIDED = "natural", "natural again", "guided"
UNGUIDED = {"probe": 0.0, "attention_supervision": 0.0}
REGIMES: dict[str, dict[str, float]] = {
    "IIT": {**UNGUIDED, "strict": 0.0, "edge_strict": 0.0},
    "SIIT": {**UNGUIDED, "edge_strict": 0.0},
    "SIIT with edges": UNGUIDED,
    GUIDED: {},
}
"""The objectives of the networks that are trained to have the circuit, as changes of the default."""
NATURALS = (NATURAL, AGAIN)
EVERY = (*NATURALS, *REGIMES)
"""All ways of training, natural ones first."""


@dataclass(frozen=True)
class Network:
    """A trained network of the study.

    Attributes:
        task: the name of its task.
        regime: how it was trained.
        seed: the seed of its initial weights and of all draws.
        steps: the number of steps it was trained for.
        validation: how far it carries the circuit: a validation with all kinds of interventions.
        network: the network.
        initial: the network with the weights that training started from.
        alignment: the nodes of the program's variables.
        truth: the states of nodes and edges, if it has the circuit.
    """

    task: str
    regime: str
    seed: int
    steps: int
    validation: Validation
    network: Transformer
    initial: Transformer
    alignment: Alignment
    truth: Truth


def trained(task: str, regime: str, seed: int, out: Path) -> Network:
    """Returns a network of the study, trained now or read from `out`.

    Raises:
        TrainingError: if the guided network, which says how many steps all others take, is not certified.
    """
    cfg = shape(get_task(task))
    alignment = align(get_task(task), cfg.graph)
    truth = find_truth(alignment)
    guided = train(task, seed=seed, out=str(out))
    if not guided.certified:
        raise TrainingError(f"the guided network of {task} with seed {seed} is not certified")
    own = seed + SEEDS * (1 + NATURALS.index(regime)) if regime in NATURALS else seed
    config = _settings(task, regime)
    if regime == GUIDED:
        network = guided.checkpoint.network
    else:
        network = Transformer(cfg, own)
        file = out / task / f"{regime.replace(' ', '-')}-seed{own}-{guided.steps}.safetensors"
        if file.is_file():
            network.load_state_dict(load_file(file))
        else:
            trainer = Trainer(
                network, alignment, truth, config.recipe, config.trainer, config.certificate, own
            )
            for step in range(1, guided.steps + 1):
                losses = trainer.step()
                if step % config.trainer.validate_every == 0:
                    trainer.validate(losses)
            save_file(network.state_dict(), file)
        network.requires_grad_(False)
    full = _settings(task, GUIDED).recipe
    found, _ = validate(Evaluation(network, alignment), truth, full, VALIDATED, own, guided.steps)
    return Network(task, regime, own, guided.steps, found, network, Transformer(cfg, own), alignment, truth)


def _settings(task: str, regime: str) -> TrainConfig:
    """Returns the settings of a training."""
    natural = {**UNGUIDED, "iit": 0.0, "strict": 0.0, "edge_strict": 0.0}
    objective = natural if regime in NATURALS else REGIMES[regime]
    return convert(TrainConfig, {**own_settings(task), "task": task, "objective": objective}, "train")
