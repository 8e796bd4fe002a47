"""What each measure for heads that compare many keys is good for, from Muon to the weight of attention.

The network of a task is trained for where its heads look and what its nodes carry alone, by AdamW from the
usual start, and then with one measure after the other. What is measured, on rows that were drawn anew: how
far the attention of each row's queries to the keys of the next row is from what the program says (the mean
Kullback-Leibler divergence, in nats), and in how many dimensions the vectors of the keys lie (the number of
their singular values that are at least a twentieth of the largest).

Run: `python -m benchmarks.many_keys` (`--task sort_digits --steps 500 --seeds 3`).
"""

import argparse
from typing import Literal

import numpy as np
import torch

from interpbench.alignment.alignment import align
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.causal.model import MANY
from interpbench.core.errors import InterpBenchError
from interpbench.core.process import prepare_torch
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.model_settings import ModelSettings
from interpbench.tasks.shapes import shape
from interpbench.training.curriculum import Curriculum
from interpbench.training.guidance import SHARP
from interpbench.training.losses import attention_loss
from interpbench.training.objective import Objective
from interpbench.training.recipe import Recipe
from interpbench.training.sampling import Sampler
from interpbench.training.settings import CertificateSettings, TrainerSettings
from interpbench.training.trainer import Trainer
from interpbench.transformer.model import Transformer
from interpbench.transformer.worlds import Worlds

ARMS: dict[str, tuple[Literal["adamw", "muon"], bool, bool, float]] = {
    "AdamW": ("adamw", False, False, 1.0),
    "Muon": ("muon", False, False, 1.0),
    "Muon, nonlinear MLPs": ("muon", True, False, 1.0),
    "Muon, nonlinear MLPs, keys of the next row": ("muon", True, True, 1.0),
    "Muon, nonlinear MLPs, keys of the next row, attention first": ("muon", True, True, SHARP),
    "AdamW, nonlinear MLPs, keys of the next row, attention first": ("adamw", True, True, SHARP),
}
"""The optimizer, whether MLPs start nonlinear, whether heads are told of the keys of the next row, and how
much their attention weighs."""
RECIPE = Recipe(
    Objective(behaviour=0, iit=0, strict=0, edge_strict=0),
    curriculum=Curriculum(guided=1),
)
"""Guidance alone, to the end."""
TESTED = 1024


def trained(task_name: str, arm: str, steps: int, seed: int) -> Trainer:
    """Returns a trainer after so many steps of one arm."""
    optimizer, nonlinear, crossed, weight = ARMS[arm]
    task = get_task(task_name)
    cfg = shape(task, ModelSettings(init_nonlinear=nonlinear))
    alignment = align(task, cfg.graph)
    made = Trainer(
        Transformer(cfg, seed),
        alignment,
        find_truth(alignment),
        RECIPE,
        TrainerSettings(max_steps=steps, optimizer=optimizer),
        CertificateSettings(),
        seed,
    )
    made.sampler.guidance.sharp = weight
    if not crossed:
        made.sampler.guidance.crossing = []
    for _ in range(steps):
        made.step()
    return made


@torch.no_grad()
def measured(made: Trainer) -> tuple[float, int]:
    """Returns the divergence of crossed attention in nats, and the dimensions of the vectors of keys."""
    alignment = made.evaluation.alignment
    sampler = Sampler(alignment, made.truth, RECIPE, TESTED, made.sampler.seed + 1)
    batch = sampler(0, made.device)
    (name,) = batch.crossed
    head = made.probes.nodes[name]
    (parent,) = {read.parent for read in alignment.task.causal_model.variables[name].reads}
    writer = made.probes.nodes[parent]
    worlds = Worlds(batch.nodes, None, keep=[writer], crossed=[head])
    made.network.run(made.network.embedding(batch.tokens.flatten(0, 1)), worlds)
    shares = batch.crossed[name].flatten(2)
    wanted = shares / shares.sum(1, keepdim=True)
    entropy = -(shares * wanted.clamp_min(1e-9).log()).sum()
    q, k = worlds.queries_keys[head]
    block = made.network.get_submodule(f"blocks.{alignment.graph.nodes[head].layer}")
    seen = block.attn.pattern(q[None], k.roll(-1, -1)[None])[0]  # type: ignore[operator, union-attr]
    divergence = float((attention_loss(seen, shares) - entropy) / shares.sum())
    values, written = batch.values[parent].flatten(), worlds.kept[writer][:, 1:].flatten(1)
    keys = torch.stack([written[:, values == key].mean(1) for key in values.unique()])
    sizes = torch.linalg.svdvals(keys - keys.mean(0))
    return divergence, int((sizes >= sizes[0] / 20).sum())


def main() -> None:
    """Trains every arm with every seed, and prints a row for each arm."""
    parser = argparse.ArgumentParser(description="What helps heads that compare many keys.")
    parser.add_argument("--task", default="sort_digits")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    try:
        task = get_task(options.task)
    except InterpBenchError as error:
        parser.error(str(error))
    if task.causal_model.head_dimensions <= MANY:
        parser.error(f"--task {options.task}: no head of it compares more than {MANY} keys; try sort_digits")
    prepare_torch(threads=1)
    print(f"{options.task}, {options.steps} guided steps, {options.seeds} seeds: mean (lowest to highest)")
    for arm in ARMS:
        found = [measured(trained(options.task, arm, options.steps, seed)) for seed in range(options.seeds)]
        divergences, dimensions = zip(*found, strict=True)
        print(
            f"{arm:60} nats {np.mean(divergences):.3f} ({min(divergences):.3f} to {max(divergences):.3f})"
            f", dimensions {np.mean(dimensions):.0f} ({min(dimensions)} to {max(dimensions)})",
            flush=True,
        )


if __name__ == "__main__":
    main()
