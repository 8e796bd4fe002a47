"""Ablates what guides training: after how many steps tasks are certified with and without each part of it.

Twenty tasks are trained with every part, without one of them, and without all of them: all non-trivial ones
that had no settings of their own when the study began, networks of at most 32 dimensions and five layers, and
a released network that was certified within the schedule here (4,000 steps) and ten minutes. Of the others, a
schedule of this length says nothing. Runs are in `runs/guidance`, where the same command goes on after an
interruption; the steps are in `docs/guidance.json`, and the figure is `docs/guidance.png`: the share of runs
that are certified after so many steps. A run that is not certified at the end of its schedule counts as
never. Runs whose steps are in `docs/guidance.json` are not trained again.

Run: `python -m benchmarks.guidance --jobs 2`; `--tasks 4 --seeds 1` for a part of it, `--draw` for the figure
of what has been trained.
"""

import argparse
import json
import logging
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

from interpbench import train
from interpbench.checkpoints.checkpoint_files import released
from interpbench.checkpoints.record import read_record
from interpbench.core.errors import TrainingError
from interpbench.core.files import write_json
from interpbench.core.process import prepare_torch
from interpbench.reports.palette import COLOURS, Picture, save
from interpbench.runs.train_settings import own_experiment
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.shapes import shape
from interpbench.tasks.task_records import records

ARMS: dict[str, dict[str, dict[str, float]]] = {
    "all of it": {},
    "heads are not told where to look": {"objective": {"attention_supervision": 0.0}},
    "no probes": {"objective": {"probe": 0.0}},
    "draws do not follow failures": {"draws": {"follow": 0.0}},
    "nothing of it": {"objective": {"attention_supervision": 0.0, "probe": 0.0}, "draws": {"follow": 0.0}},
}
"""What is left out, with the settings that leave it out."""
SEEDS, STEPS, WIDEST, DEEPEST, SECONDS = 3, 4000, 32, 5, 600
OUT = "runs/guidance"
RESULTS, FIGURE = Path("docs/guidance.json"), Path("docs/guidance.png")
Run = dict[str, str | int | None]
log = logging.getLogger(__name__)


def chosen() -> list[str]:
    """Returns the tasks that are measured, the quickest first; a study that has begun keeps its tasks."""
    if RESULTS.is_file():
        return json.loads(RESULTS.read_text())["tasks"]
    names = [name for name, record in records().items() if not record.trivial and _quick(name)]
    return sorted(names, key=_seconds)


def _quick(task: str) -> bool:
    folder = released().get(task)
    if folder is None or own_experiment(task) is not None:
        return False
    cfg, record = shape(get_task(task)), read_record(folder)
    small = cfg.d_model <= WIDEST and cfg.n_layers <= DEEPEST
    return small and record.steps <= STEPS and _seconds(task) <= SECONDS


def _seconds(task: str) -> float:
    return read_record(released()[task]).cpu_seconds


def measure(task: str, seed: int, arm: str) -> None:
    """Trains a run, if it has not been, and notes after how many steps it was certified."""
    file = Path(OUT) / "steps" / f"{task}-{seed}-{list(ARMS).index(arm)}.json"
    if file.is_file():
        return
    prepare_torch(threads=1)
    try:
        outcome = train(
            task,
            seed=seed,
            out=OUT,
            trainer={"max_steps": STEPS},
            certificate={"attacks": 0},
            **ARMS[arm],
        )
        steps = outcome.steps if outcome.certified else None
    except TrainingError as error:
        log.info("%s: %s", task, error)
        steps = None
    write_json(file, {"task": task, "seed": seed, "arm": arm, "steps": steps})
    print(f"{task:24} seed {seed}  {arm:34} {steps or 'not certified'}", flush=True)


def collected() -> list[Run]:
    """Returns the runs of every task and seed that has all arms, those that are stored among them."""
    kept = _stored()
    files = sorted((Path(OUT) / "steps").glob("*.json"))
    made = [json.loads(file.read_text()) for file in files]
    runs: dict[tuple[object, ...], Run] = {(run["task"], run["seed"], run["arm"]): run for run in kept + made}
    counts = Counter((task, seed) for task, seed, _ in runs)
    return [runs[place] for place in sorted(runs, key=str) if counts[place[:2]] == len(ARMS)]


def _stored() -> list[Run]:
    return json.loads(RESULTS.read_text())["runs"] if RESULTS.is_file() else []


def draw(runs: Sequence[Run]) -> None:
    """Draws the share of runs that are certified after so many steps, a line for each arm."""
    figure = Picture(figsize=(7.6, 4))
    axes = figure.add_axes((0.09, 0.14, 0.48, 0.78))
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
    """Trains what is missing, writes the steps of all runs, and draws the figure."""
    parser = argparse.ArgumentParser(description="What each part of guidance is good for.")
    parser.add_argument("--tasks", type=int, help="how many tasks, the quickest first; all otherwise")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--draw", action="store_true", help="draw what has been measured; no training")
    parser.add_argument("--jobs", type=int, default=1, help="how many runs at a time")
    options = parser.parse_args()
    everything = chosen()
    if not options.draw:
        tasks = everything[: options.tasks]
        known = {(run["task"], run["seed"], run["arm"]) for run in collected()}
        runs = [(task, seed, arm) for seed in range(options.seeds) for task in tasks for arm in ARMS]
        runs = [run for run in runs if run not in known]
        Parallel(options.jobs)(delayed(measure)(*run) for run in runs)
    done = collected()
    write_json(RESULTS, {"steps": STEPS, "tasks": everything, "runs": done})
    draw(done)


if __name__ == "__main__":
    main()
