"""Ablates what guides training: after how many steps tasks are certified with and without each part of it.

Twenty non-trivial tasks without settings of their own, drawn with seed 0, are trained with every part,
without one of them, and without all of them. Runs are in `runs/guidance`, where the same command goes on
after an interruption; the steps are in `docs/guidance.json`, and the figure is `docs/guidance.png`: the share
of runs that are certified after so many steps. A run that is not certified at the end of its schedule counts
as never.

Run: `python -m benchmarks.guidance`; `--tasks 4 --seeds 1` for a part of it, `--draw` for the figure alone.
"""

import argparse
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from interpbench import train
from interpbench.core import seeds
from interpbench.core.errors import TrainingError
from interpbench.core.files import write_json
from interpbench.core.process import prepare_torch
from interpbench.reports.palette import COLOURS, Picture, save
from interpbench.runs.train_settings import own_experiment
from interpbench.tasks.task_records import records

ARMS: dict[str, dict[str, dict[str, float]]] = {
    "all of it": {},
    "heads are not told where to look": {"objective": {"attention_supervision": 0.0}},
    "no probes": {"objective": {"probe": 0.0}},
    "draws do not follow failures": {"draws": {"follow": 0.0}},
    "nothing of it": {"objective": {"attention_supervision": 0.0, "probe": 0.0}, "draws": {"follow": 0.0}},
}
"""What is left out, with the settings that leave it out."""
TASKS, SEEDS, STEPS = 20, 3, 8000
RESULTS, FIGURE = Path("docs/guidance.json"), Path("docs/guidance.png")
log = logging.getLogger(__name__)


def chosen(count: int) -> list[str]:
    """Returns so many non-trivial tasks, at random but always in the same order."""
    names = [
        name for name, record in records().items() if not record.trivial and own_experiment(name) is None
    ]
    return [names[place] for place in seeds.generator(0, "guidance").permutation(len(names))[:count]]


def measured(tasks: Sequence[str], count: int) -> Iterator[dict[str, str | int | None]]:
    """Trains, or looks up, every run; yields task, seed, arm and steps (None without a certificate)."""
    for task in tasks:
        for seed in range(count):
            for arm, settings in ARMS.items():
                try:
                    outcome = train(
                        task, seed=seed, out="runs/guidance", certificate={"attacks": 0}, **settings
                    )
                    steps = outcome.steps if outcome.certified else None
                except TrainingError as error:
                    log.info("%s: %s", task, error)
                    steps = None
                yield {"task": task, "seed": seed, "arm": arm, "steps": steps}


def draw(runs: Sequence[Mapping[str, str | int | None]]) -> None:
    """Draws the share of runs that are certified after so many steps, a line for each arm."""
    figure = Picture(figsize=(7, 4))
    axes = figure.add_axes((0.1, 0.14, 0.5, 0.78))
    for number, arm in enumerate(ARMS):
        steps = [run["steps"] for run in runs if run["arm"] == arm]
        done = np.sort([float(each) for each in steps if each is not None])
        shares = np.arange(1, len(done) + 1) / max(len(steps), 1)
        label = f"{arm} ({len(done)} of {len(steps)})"
        axes.step([0, *done, STEPS], [0, *shares, shares[-1] if len(done) else 0], where="post", label=label)
        axes.lines[-1].set_color(COLOURS[number % len(COLOURS)])
    axes.set(xlim=(0, STEPS), ylim=(0, 1.02), xlabel="steps of training", ylabel="share of runs certified")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1), frameon=False, fontsize=8)
    save(figure, FIGURE)


def main() -> None:
    """Trains what is missing, writes the steps after each run, and draws the figure."""
    parser = argparse.ArgumentParser(description="What each part of guidance is good for.")
    parser.add_argument("--tasks", type=int, default=TASKS)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--draw", action="store_true", help="draw what has been measured; no training")
    options = parser.parse_args()
    prepare_torch(threads=1)
    if options.draw:
        draw(json.loads(RESULTS.read_text())["runs"])
        return
    runs: list[dict[str, str | int | None]] = []
    for run in measured(chosen(options.tasks), options.seeds):
        runs.append(run)
        write_json(RESULTS, {"steps": STEPS, "runs": runs})
        print(
            f"{run['task']:24} seed {run['seed']}  {run['arm']:34} {run['steps'] or 'not certified'}",
            flush=True,
        )
    draw(runs)


if __name__ == "__main__":
    main()
