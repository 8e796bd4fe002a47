"""How much training several networks as one stack could save on one CPU core, at most.

A stack of eight networks does the arithmetic of eight, in the calls of one. One network with eight times the
rows does as much arithmetic in as many calls, and multiplies one pair of matrices instead of eight. So eight
steps at the default batch over one step at eight times the batch bound what a stack gains: 1 means nothing.
Draws are left out of both.

Run: `python -m benchmarks.stack_bound`.
"""

import argparse
import statistics
import time
from dataclasses import replace

from interpbench.alignment.alignment import align
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.core.process import prepare_torch
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.shapes import shape
from interpbench.training.recipe import Recipe
from interpbench.training.settings import CertificateSettings, TrainerSettings
from interpbench.training.trainer import Trainer
from interpbench.transformer.model import Transformer

NETWORKS, WARM_UP, ROUNDS = 8, 3, 15
"""The networks of a stack, the steps before timed ones, and how often each batch is timed in turn."""


def bound(name: str) -> tuple[int, float, float]:
    """Returns a task's default batch, and the seconds of a step with it and with eight times as much."""
    task = get_task(name)
    cfg = shape(task)
    alignment = align(task, cfg.graph)
    truth = find_truth(alignment, pairs=200)
    settings = TrainerSettings()
    trainers = [
        Trainer(
            Transformer(cfg, 0),
            alignment,
            truth,
            Recipe(),
            replace(settings, batch=settings.batch * times),
            CertificateSettings(),
            seed=0,
        )
        for times in (1, NETWORKS)
    ]
    for trainer in trainers:
        for _ in range(WARM_UP):
            trainer.step()
    seconds: list[list[float]] = [[], []]
    for _ in range(ROUNDS):
        for trainer, found in zip(trainers, seconds):
            if trainer.progress.step % trainer.sampler.steps == 0:
                trainer.step()  # which draws a pool
            started = time.perf_counter()
            trainer.step()
            found.append(time.perf_counter() - started)
    one, many = (statistics.median(each) for each in seconds)
    return settings.batch, one, many


def main() -> None:
    """Prints the bound of each task."""
    parser = argparse.ArgumentParser(description="How much a stack of eight networks could save, at most.")
    parser.add_argument("tasks", nargs="*", default=["frac_prevs", "hist", "add_next", "polynomial_value"])
    prepare_torch(threads=1)
    for name in parser.parse_args().tasks:
        batch, one, many = bound(name)
        print(
            f"{name:20} {NETWORKS} steps of {batch} rows a world {1e3 * NETWORKS * one:6.0f} ms, "
            f"one of {NETWORKS * batch} rows {1e3 * many:6.0f} ms: "
            f"at most {NETWORKS * one / many:.1f} times as fast",
            flush=True,
        )


if __name__ == "__main__":
    main()
