"""Compares a training step of IOI with the published recipe, made with hooks of TransformerLens.

Both start from the same random weights of the task's shape (6 layers, 4 heads, d_model 64, d_mlp 256,
LayerNorm), and take steps of the same batch size on the same data, which are drawn beforehand. The published
recipe takes three optimiser steps, with five passes through the network. This project takes one step, in
which the batch has a copy (world) each for behaviour, IIT and the strict loss (`siit`), and one more in which
every edge outside the circuit may be patched (`siit_edges`; `ioi` adds the other terms of the task's
configuration). The share of matrix products in a step's time is printed too.

Run: `python -m benchmarks.ioi`, in about three minutes.
"""

import argparse
import statistics
from collections.abc import Callable

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.reference_recipe import Hooked, PublishedRecipe
from benchmarks.training import seconds
from interpbench.alignment.alignment import align
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.causal.model import Intervention, has_value
from interpbench.core.process import prepare_torch
from interpbench.runs.train_settings import own_settings
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.model_settings import ModelSettings
from interpbench.tasks.shapes import shape
from interpbench.training.curriculum import Curriculum
from interpbench.training.draws import Draws
from interpbench.training.objective import Objective
from interpbench.training.recipe import Recipe
from interpbench.training.settings import CertificateSettings
from interpbench.training.trainer import Trainer, TrainerSettings
from interpbench.transformer.model import Transformer

PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm")


class Setting:
    """The task, its network, and data for the reference."""

    def __init__(self, batch: int) -> None:
        self.task, self.batch = get_task("ioi"), batch
        settings = own_settings("ioi")
        objective, draws = Objective(**settings["objective"]), Draws(**settings["draws"])
        self.recipe = Recipe(objective, draws, Curriculum(**{**settings["curriculum"], "strict_after": 0}))
        self.cfg = shape(self.task, ModelSettings(**settings["model"]))
        self.alignment = align(self.task, self.cfg.graph)
        self.truth = find_truth(self.alignment)

    def trainer(self, recipe: Recipe) -> Trainer:
        """Returns this project's trainer."""
        return Trainer(
            Transformer(self.cfg, 0),
            self.alignment,
            self.truth,
            recipe,
            TrainerSettings(batch=self.batch),
            CertificateSettings(),
            0,
        )

    def reference(self) -> Callable[[], None]:
        """Returns a function that takes a step of the published recipe, on another batch each time."""
        hooked, rng = Hooked(Transformer(self.cfg, 0), PublishedRecipe()), np.random.default_rng(0)
        domain, model, output = self.task.domain, self.task.causal_model, self.task.causal_model.output
        everywhere = np.ones(self.batch, bool)
        aligned, unaligned = list(self.alignment.aligned_nodes), list(self.alignment.unaligned_nodes)

        def labels(values: np.ndarray) -> torch.Tensor:
            return torch.from_numpy(np.where(has_value(values), values, -100).astype(np.int64))

        def step() -> None:
            base, source = (data.pop() for data in drawn)
            node = aligned[rng.integers(len(aligned))]
            trace = model.run(source)
            swaps = {
                name: Intervention(trace[name], everywhere) for name in self.alignment.aligned_nodes[node]
            }
            hooked.learn(
                torch.from_numpy(self.task.token_ids(base)),
                torch.from_numpy(self.task.token_ids(source)),
                labels(model.outputs(base)),
                (node, labels(model.run(base, swaps)[output])),
                unaligned[rng.integers(len(unaligned))],
            )

        drawn = [[domain.draw(rng, self.batch) for _ in range(1000)] for _ in range(2)]
        return step


def compare(setting: Setting, rounds: int) -> None:
    """Prints the time of a step of each, taken in turns; this project's includes drawing the data."""
    recipes = {
        "siit": Recipe(Objective(edge_strict=0.0)),
        "siit_edges": Recipe(),
        "ioi": setting.recipe,
    }
    trainers = {name: setting.trainer(recipe) for name, recipe in recipes.items()}
    drawing: dict[str, float] = {}
    for name, trainer in trainers.items():
        drawing[name] = seconds(trainer.step) / trainer.sampler.steps
    turns = {"reference": setting.reference(), **{name: trainer.step for name, trainer in trainers.items()}}
    times: dict[str, list[float]] = {name: [] for name in turns}
    for _ in range(rounds + 1):
        for name, step in turns.items():
            times[name].append(seconds(step) + drawing.get(name, 0.0))
    typical = {name: statistics.median(some[1:]) for name, some in times.items()}
    print(f"1. One step of ioi, batch {setting.batch} (median of {rounds}), CPU time of one thread")
    for name, value in typical.items():
        low, high = np.quantile(times[name][1:], (0.1, 0.9))
        print(
            f"   {name:11}{1e3 * value:8.0f} ms ({1e3 * low:.0f} to {1e3 * high:.0f})"
            f"{typical['reference'] / value:8.1f} times less"
        )


def products(setting: Setting, steps: int) -> None:
    """Prints the share of a step's time that is spent in matrix products."""
    trainer = setting.trainer(setting.recipe)
    trainer.step()
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        for _ in range(steps):
            trainer.step()
    events = profiled.key_averages()
    total = sum(event.self_cpu_time_total for event in events)
    print(f"2. Where the time of a step with all terms goes ({steps} steps)")
    inside = sum(event.self_cpu_time_total for event in events if event.key in PRODUCTS)
    print(f"   {'matrix products':28}{inside / total:6.0%}")
    print(f"   {'everything else':28}{1 - inside / total:6.0%}")
    others = [event for event in events if event.key not in PRODUCTS]
    for event in sorted(others, key=lambda event: -event.self_cpu_time_total)[:8]:
        print(f"     {event.key[:40]:28}{event.self_cpu_time_total / total:4.0%}")


def main() -> None:
    """Runs the comparison."""
    parser = argparse.ArgumentParser(description="A training step of IOI against TransformerLens hooks.")
    parser.add_argument("--rounds", type=int, default=11, help="repeats of the comparison of steps")
    parser.add_argument("--batch", type=int, default=64, help="pairs of a step")
    options = parser.parse_args()
    prepare_torch(threads=1)
    setting = Setting(options.batch)
    compare(setting, options.rounds)
    products(setting, 10)


if __name__ == "__main__":
    main()
