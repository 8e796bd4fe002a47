"""Numbers that refactoring must not change: thirty steps of three trainings, and all scores on three models.

`python -m tests.golden --write` measures them again, after a change that is meant to change numbers. `python
-m tests.golden` prints how many numbers are equal to the bit. They are on one machine with one version of
torch; on others, sums have another order, so that the test demands only that numbers are close. With
`--file`, the numbers of this machine are stored in another file before a change, and compared with those
after it.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from interpbench.alignment.alignment import align
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.checkpoints.find import find_checkpoint
from interpbench.checkpoints.load import load_checkpoint, load_pairs
from interpbench.core.config import convert
from interpbench.core.process import prepare_torch
from interpbench.discovery.isolated_run import apply
from interpbench.discovery.known_methods import known_methods
from interpbench.discovery.method import get_method
from interpbench.runs.train_settings import TrainConfig, own_settings
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.shapes import shape
from interpbench.training.trainer import Trainer
from interpbench.transformer.model import Transformer

FILE = Path(__file__).with_name("golden.npz")
TRAINED = {"greater_than": {}, "ioi": {}, "paren_balance": {"draws": {"positions": 0.25}}}
"""The trained tasks, and settings: a causal one with free edges, one with every term of the objective, and
one with swaps at single positions."""
SCORED = ("frac_prevs", "hist", "induction")
STEPS = 30
EXAMPLES = 32


def training(name: str, steps: int = STEPS) -> np.ndarray:
    """Returns the norm of each parameter after each of the first steps, `[step, parameter]`."""
    config = convert(TrainConfig, {"task": name, **own_settings(name), **TRAINED[name]}, "train")
    task = get_task(name)
    cfg = shape(task, config.model)
    alignment = align(task, cfg.graph)
    made = Trainer(
        Transformer(cfg, 0),
        alignment,
        find_truth(alignment, pairs=500),
        config.recipe,
        config.trainer,
        config.certificate,
        seed=0,
    )
    lines: list[list[float]] = []
    for _ in range(steps):
        made.step()
        lines.append([float(weight.detach().double().norm()) for weight in made.network.parameters()])
    return np.array(lines)


def measured(steps: int = STEPS) -> Iterator[tuple[str, np.ndarray]]:
    """Yields the name and the value of every array; those of trainings end after so many steps."""
    for name in TRAINED:
        yield f"training/{name}", training(name, steps)
    for model in SCORED:
        folder = find_checkpoint(model)
        network, pairs = load_checkpoint(folder).network, load_pairs(folder)
        for name in sorted({*known_methods()} - {"fitted_features"}):  # which follows the released models
            quick = {"steps": 20} if hasattr(get_method(name), "constants_rate") else {}
            scores = apply(get_method(name, quick), pairs.problem(network, EXAMPLES, 0), name)
            yield f"scores/{model}/{name}", scores.edges


def main() -> None:
    """Writes the file of numbers, or compares with it."""
    parser = argparse.ArgumentParser(description=__doc__)
    prepare_torch()
    parser.add_argument("--write", action="store_true", help="measure anew what is to be kept")
    parser.add_argument("--file", type=Path, default=FILE, help="another file than the one of the tests")
    arguments = parser.parse_args()
    if arguments.write:
        np.savez_compressed(arguments.file, **dict(measured()))
        return
    kept = np.load(arguments.file, allow_pickle=False)
    for name, array in measured():
        same = np.array_equal(array, kept[name], equal_nan=True)
        far = float(np.nanmax(np.abs(array - kept[name]) / (np.abs(kept[name]) + 1e-12)))
        print(f"{name:45} {'the same to the bit' if same else f'DIFFERS, relatively by up to {far:.1e}'}")


if __name__ == "__main__":
    main()
