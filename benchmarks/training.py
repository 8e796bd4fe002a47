"""Compares the speed of training with that of the published recipe, in CPU seconds of one thread.

Both train `frac_prevs` at the published shape (2 layers of 4 heads, d_head 3, d_model 12, d_mlp 48, no
LayerNorm) from the same random weights. Both are measured in the same way, as in the publication, by the
shares of right
positions: over all inputs (accuracy), over random pairs and aligned nodes (IIA), and over these pairs and all
other nodes (SIIA).

1. The time of a step with the same batch size. The recipe takes three optimiser steps, with five passes
through
   the network. This project takes one step with a batch for each of its losses, and the time to draw the
   batches counts. `siit` has the losses of the recipe; `siit_edges` also trains edges.
2. The time from random weights until all three rates reach the target. Measuring them does not count.
3. The time until the certificate holds for all 256 × 256 pairs and every node without an error, and with
   `siit_edges` for every edge. Everything counts: validations, failed attempts and the certificate itself.

Run: `python -m benchmarks.training`. The recipe takes some minutes; `--reference-limit` cuts it short.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.reference_recipe import PublishedRecipe, Reference
from interpbench.alignment.alignment import Alignment, align
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.circuits.ground_truth import State
from interpbench.core import seeds
from interpbench.core.process import prepare_torch
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.model_settings import ModelSettings
from interpbench.tasks.shapes import shape
from interpbench.training.interventional_accuracy import Evaluation
from interpbench.training.objective import Objective
from interpbench.training.recipe import Recipe
from interpbench.training.settings import CertificateSettings
from interpbench.training.trainer import Trainer, TrainerSettings
from interpbench.transformer.model import Transformer

TARGET = 0.995
OBJECTIVES = {
    "siit": Recipe(Objective(iit=2.0, strict=3.0, edge_strict=0.0)),
    "siit_edges": Recipe(Objective(iit=2.0, strict=3.0)),
}
TRAINER = TrainerSettings(batch=64, learning_rate=3e-2, max_steps=500, validate_every=50)


class Setting:
    """The task and the shape of its networks, and the trainings to compare."""

    def __init__(self) -> None:
        task = get_task("frac_prevs")
        self.cfg = shape(task, ModelSettings(d_model=12, d_head=3, d_mlp=48))
        self.alignment = align(task, self.cfg.graph)
        truth = find_truth(self.alignment)
        no_edges = replace(truth, qkv_edges=np.full_like(truth.qkv_edges, State.ILLEGAL))
        self.truths = {"siit": no_edges, "siit_edges": truth}
        self.ruler = Ruler(self.alignment)

    def trainer(self, objective: str, seed: int, batch: int = TRAINER.batch) -> Trainer:
        """Returns this project's trainer."""
        return Trainer(
            Transformer(self.cfg, seed),
            self.alignment,
            self.truths[objective],
            OBJECTIVES[objective],
            replace(TRAINER, batch=batch),
            CertificateSettings(),
            seed,
        )

    def reference(self, seed: int) -> Reference:
        """Returns a training by the published recipe, from the same initial weights."""
        return Reference(Transformer(self.cfg, seed), self.alignment, PublishedRecipe(), seed)


class Ruler:
    """Measures accuracy, IIA and SIIA, as in the publication."""

    def __init__(self, alignment: Alignment, pairs: int = 4096):
        self.alignment, self.task = alignment, alignment.task
        rng = seeds.generator(0, "benchmark", self.task.name)
        self.pairs = [self.task.domain.draw(rng, pairs) for _ in range(2)]

    def lowest(self, network: Transformer) -> float:
        """Returns the smallest of the three."""
        evaluation = Evaluation(network, self.alignment)
        everything = evaluation.activations(self.task.domain.all())
        base, source = map(evaluation.activations, self.pairs)
        output = self.task.causal_model.output

        def right(predictions: np.ndarray, wanted: np.ndarray) -> float:
            return float((np.abs(predictions - wanted) <= self.task.tolerance).mean())

        accuracy = right(evaluation.predictions(everything.logits), everything.trace[output])
        iia = [
            right(predictions, evaluation.counterfactual(base, source, node)[0])
            for node, predictions in evaluation.single_nodes(
                base, source.stack, list(self.alignment.aligned_nodes)
            )
        ]
        siia = [
            right(predictions, base.trace[output])
            for _, predictions in evaluation.single_nodes(base, source.stack, self.alignment.unaligned_nodes)
        ]
        return min(accuracy, statistics.mean(iia), statistics.mean(siia))


def seconds(work: Callable[[], object]) -> float:
    """Returns the CPU seconds that a call takes."""
    start = time.process_time()
    work()
    return time.process_time() - start


def several(step: Callable[[], object], count: int) -> Callable[[], None]:
    """Returns a function that does some steps."""

    def steps() -> None:
        for _ in range(count):
            step()

    return steps


def compare_steps(setting: Setting, rounds: int, batch: int = 256) -> None:
    """Prints the time of a step of each, taken in turns; this project's are whole pools, to count drawing."""
    trainers = {name: setting.trainer(name, 0, batch) for name in OBJECTIVES}
    turns = {name: (trainer.step, trainer.sampler.steps) for name, trainer in trainers.items()}
    turns = {"reference": (setting.reference(0).step, 5), **turns}
    times: dict[str, list[float]] = {name: [] for name in turns}
    for _ in range(rounds + 1):
        for name, (step, count) in turns.items():
            times[name].append(seconds(several(step, count)) / count)
    typical = {name: statistics.median(some[1:]) for name, some in times.items()}
    print(f"1. One step, batch {batch} (median of {rounds})")
    for name, value in typical.items():
        print(f"   {name:11}{1e3 * value:8.1f} ms{typical['reference'] / value:10.1f} times less")


@dataclass(frozen=True, order=True)
class Run:
    """The CPU seconds and steps of a training, and whether it reached its target."""

    seconds: float
    steps: int
    arrived: bool

    def __str__(self) -> str:
        return f"{'' if self.arrived else 'more than '}{self.seconds:.2f} s ({self.steps} steps)"


def to_truth(
    step: Callable[[], object], network: Callable[[], Transformer], ruler: Ruler, limit: float, every: int
) -> Run:
    """Trains until all rates reach the target, or for `limit` seconds, without the time to measure the rates.

    Args:
        step: takes a training step.
        network: returns the network.
        ruler: measures the rates.
        limit: the largest number of seconds.
        every: the number of steps between two measurements.
    """
    clock, steps = 0.0, 0
    while clock < limit:
        clock += seconds(several(step, every))
        steps += every
        if ruler.lowest(network()) >= TARGET:
            return Run(clock, steps, True)
    return Run(clock, steps, False)


def to_certificate(trainer: Trainer) -> Run:
    """Trains until the certificate is complete."""
    start = time.process_time()
    result = trainer.train()
    return Run(time.process_time() - start, result.steps, result.certified)


def trainings(setting: Setting, seed: int, limit: float | None) -> Iterator[tuple[str, Run]]:
    """Yields the runs of all trainings with one seed; that of the reference only if `limit` is not None."""
    every = TRAINER.validate_every
    for name in OBJECTIVES:
        trainer = setting.trainer(name, seed)
        yield name, to_truth(trainer.step, lambda t=trainer: t.network, setting.ruler, 60.0, every)
    if limit is not None:
        reference = setting.reference(seed)
        yield "reference", to_truth(reference.step, reference.network, setting.ruler, limit, every)
    for name in OBJECTIVES:
        yield f"{name}, certified", to_certificate(setting.trainer(name, seed))


def compare_trainings(setting: Setting, runs: int, reference_runs: int, limit: float) -> None:
    """Prints the times until the rates reach the target, and until the certificate holds, as medians.

    Args:
        setting: the task and the trainings.
        runs: the number of seeds of this project's trainings.
        reference_runs: the number of seeds of the published recipe.
        limit: the largest number of seconds of a run of the published recipe.
    """
    results: dict[str, list[Run]] = {}
    for seed in range(max(runs, reference_runs)):
        for name, run in trainings(setting, seed, limit if seed < reference_runs else None):
            results.setdefault(name, []).append(run)
    typical = {name: statistics.median_low(some) for name, some in results.items()}
    of = f"median of {runs} runs, of the reference {reference_runs}"
    titles = {
        "reference": f"2. To accuracy, IIA and SIIA of {TARGET:.1%} ({of})",
        "siit, certified": f"3. To a full certificate ({of})",
    }
    for name in ("reference", *(name for name in results if name != "reference")):
        if name in titles:
            print(titles[name])
        ratio = typical["reference"].seconds / typical[name].seconds
        spread = f"{min(results[name]).seconds:.2f} to {max(results[name]).seconds:.2f} s"
        print(f"   {name:23}{typical[name]!s:32}{ratio:8.1f} times less    {spread}")


def main() -> None:
    """Runs the comparison."""
    parser = argparse.ArgumentParser(description="Training speed against the published recipe.")
    parser.add_argument("--rounds", type=int, default=9, help="repeats of the comparison of steps")
    parser.add_argument("--runs", type=int, default=5, help="trainings of ours, with different seeds")
    parser.add_argument("--reference-runs", type=int, default=3, help="trainings by the recipe")
    parser.add_argument("--reference-limit", type=float, default=600.0, help="CPU seconds for each")
    options = parser.parse_args()
    prepare_torch(threads=1)
    setting = Setting()
    compare_steps(setting, options.rounds)
    compare_trainings(setting, options.runs, options.reference_runs, options.reference_limit)


if __name__ == "__main__":
    main()
