"""How long a step of training takes on a GPU: call by call, recorded as a CUDA graph, and on one CPU core.

Pools of draws, which the CPU makes for 64 steps together, are timed apart.

Run: `python -m benchmarks.gpu_steps broadcast_max hist`; without a GPU, only the CPU is timed.
"""

import argparse
import time
from collections.abc import Callable

import torch

from interpbench.alignment.alignment import align
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.core.process import prepare_torch
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.shapes import shape
from interpbench.training import step
from interpbench.training.recipe import Recipe
from interpbench.training.settings import CertificateSettings, TrainerSettings
from interpbench.training.trainer import Trainer
from interpbench.transformer.model import Transformer

WARM_UP, COUNTED, ON_CPU = 6, 50, 10
"""The steps before those that are timed, those that are timed on a GPU, and on a CPU."""


def seconds(run: Callable[[], object], device: str) -> float:
    """Returns how long a function takes, with all that it has started on the device."""
    if device == "cuda":
        torch.cuda.synchronize()
    started = time.perf_counter()
    run()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - started


def measure(name: str, device: str, eager: int) -> tuple[float, float]:
    """Returns the seconds of a step on a device, and those of a pool of draws.

    Args:
        name: the task.
        device: `cpu` or `cuda`.
        eager: how many steps are run call by call before one is recorded.
    """
    step.EAGER = eager
    task = get_task(name)
    cfg = shape(task)
    alignment = align(task, cfg.graph)
    trainer = Trainer(
        Transformer(cfg, 0).to(device),
        alignment,
        find_truth(alignment, pairs=200),
        Recipe(),
        TrainerSettings(),
        CertificateSettings(),
        seed=0,
    )
    for _ in range(WARM_UP):
        trainer.step()
    count = ON_CPU if device == "cpu" else COUNTED
    each = seconds(lambda: [trainer.step() for _ in range(count)], device) / count
    return each, seconds(lambda: trainer.sampler(trainer.sampler.steps, trainer.device), device)


def main() -> None:
    """Prints the milliseconds of a step of each task."""
    parser = argparse.ArgumentParser(description="How long a step of training takes on a GPU.")
    parser.add_argument("tasks", nargs="*", default=["broadcast_max", "hist"])
    options = parser.parse_args()
    prepare_torch(threads=1)
    kinds = {"one CPU core": ("cpu", step.EAGER)}
    if torch.cuda.is_available():
        kinds |= {"GPU, call by call": ("cuda", 10**9), "GPU, recorded": ("cuda", step.EAGER)}
    for name in options.tasks:
        for kind, (device, eager) in kinds.items():
            each, pool = measure(name, device, eager)
            print(
                f"{name:24} {kind:18} {1e3 * each:7.2f} ms a step; a pool of draws {pool:.2f} s", flush=True
            )


if __name__ == "__main__":
    main()
