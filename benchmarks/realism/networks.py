"""The networks of the study: the same tasks and initial weights, trained in six ways.

`natural` networks learn the task alone. They take as many steps as the guided network of the same task and
seed, and the same schedule, so that how long they were trained tells the two apart as little as possible.
`natural again` networks are natural ones with other seeds: whatever tells them from the others is chance.
"""

from dataclasses import dataclass
from pathlib import Path

from safetensors.torch import load_file, save_file

from interpbench import train
from interpbench.alignment.alignment import Alignment, align
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.circuits.ground_truth import Truth
from interpbench.core.config import convert
from interpbench.runs.train_settings import TrainConfig, own_settings
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.shapes import shape
from interpbench.training.trainer import Trainer
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
NATURAL, AGAIN, GUIDED = "natural", "natural again", "guided"
UNGUIDED = {"probe": 0.0, "attention_supervision": 0.0}
REGIMES: dict[str, dict[str, float]] = {
    "IIT": {**UNGUIDED, "strict": 0.0, "edge_strict": 0.0},
    "SIIT": {**UNGUIDED, "edge_strict": 0.0},
    "SIIT with edges": UNGUIDED,
    GUIDED: {},
}
"""The objectives of the networks that are trained to have the circuit, as changes of the default."""
EVERY = (NATURAL, AGAIN, *REGIMES)
"""All ways of training, natural ones first."""


@dataclass(frozen=True)
class Network:
    """A trained network of the study.

    Attributes:
        task: the name of its task.
        regime: how it was trained.
        seed: the seed of its initial weights and of all draws.
        steps: the number of steps it was trained for.
        certified: whether its certificate reaches the grade of its objective; None for natural ones.
        network: the network.
        initial: the network with the weights that training started from.
        alignment: the nodes of the program's variables.
        truth: the states of nodes and edges, if it has the circuit.
    """

    task: str
    regime: str
    seed: int
    steps: int
    certified: bool | None
    network: Transformer
    initial: Transformer
    alignment: Alignment
    truth: Truth


def trained(task: str, regime: str, seed: int, out: Path) -> Network:
    """Returns a network of the study, trained now or read from `out`."""
    if regime in (NATURAL, AGAIN):
        return _natural(task, regime, seed, out)
    outcome = train(task, seed=seed, out=str(out), objective=REGIMES[regime])
    return _described(task, regime, seed, outcome.steps, outcome.certified, outcome.checkpoint.network)


def _natural(task: str, regime: str, seed: int, out: Path) -> Network:
    own = seed + SEEDS if regime == AGAIN else seed
    steps = trained(task, GUIDED, seed, out).steps
    file = out / task / f"natural-seed{own}-{steps}.safetensors"
    network = Transformer(shape(get_task(task)), own)
    found = _described(task, regime, own, steps, None, network)
    if file.is_file():
        network.load_state_dict(load_file(file))
        network.requires_grad_(False)
        return found
    objective = {**UNGUIDED, "iit": 0.0, "strict": 0.0, "edge_strict": 0.0}
    given = {**own_settings(task), "task": task, "objective": objective}
    config = convert(TrainConfig, given, "train")
    trainer = Trainer(
        network, found.alignment, found.truth, config.recipe, config.trainer, config.certificate, own
    )
    for _ in range(steps):
        trainer.step()
    save_file(network.state_dict(), file)
    network.requires_grad_(False)
    return found


def _described(
    task: str, regime: str, seed: int, steps: int, certified: bool | None, network: Transformer
) -> Network:
    """Returns a network with what the task says of it."""
    known = get_task(task)
    cfg = shape(known)
    alignment = align(known, cfg.graph)
    initial = Transformer(cfg, seed)
    return Network(task, regime, seed, steps, certified, network, initial, alignment, find_truth(alignment))
