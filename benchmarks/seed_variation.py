"""How far do a method's scores vary over networks that carry the same circuit?

The released models of several seeds (`models/<task>/seed<n>` beside `models/<task>`) have the same program
and the same true circuit. On each of them the methods that take seconds are scored, and the variance of a
score is split into that between tasks and that between the networks of one task. Numbers are in
`docs/seeds.json`, the figure in `docs/seeds.png`.

Run: `python -m benchmarks.seed_variation`.
"""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from benchmarks.realism import rankings
from interpbench.checkpoints.checkpoint_files import released, seeds
from interpbench.checkpoints.load import load_checkpoint, load_pairs
from interpbench.core.files import write_json
from interpbench.core.process import prepare_torch
from interpbench.discovery.isolated_run import apply
from interpbench.discovery.method import get_method
from interpbench.reports.palette import BLUE, VERMILLION, Picture, save
from interpbench.scoring.curves import compare

METHODS = tuple(name for name in rankings.METHODS if name != "random")
"""Random scores are alike in networks of one shape, so they are not asked."""
EXAMPLES, LEAST = 64, 3
RESULTS, FIGURE = Path("docs/seeds.json"), Path("docs/seeds.png")
Scored = dict[str, dict[str, list[float]]]
"""The scores of a method on each task's networks: by method, by task."""


def networks() -> dict[str, list[Path]]:
    """Returns the folders of the networks of each task that has several and whose circuit is not trivial."""
    found: dict[str, list[Path]] = defaultdict(list)
    for name, folder in {**released(), **seeds()}.items():
        found[name.partition("/")[0]].append(folder)
    return {
        task: sorted(folders)
        for task, folders in sorted(found.items())
        if len(folders) >= LEAST and load_checkpoint(folders[0]).truth.trivial is None
    }


def scored(tasks: Mapping[str, list[Path]]) -> dict[str, Scored]:
    """Returns AUROC and average precision of every method on every network, by metric."""
    made: dict[str, Scored] = {
        metric: {method: {task: [] for task in tasks} for method in METHODS}
        for metric in ("auroc", "average_precision")
    }
    for task, folders in tasks.items():
        pairs = load_pairs(folders[0])  # the same for all, so that it is networks alone that differ
        for folder in folders:
            checkpoint = load_checkpoint(folder)
            problem = pairs.problem(checkpoint.network, EXAMPLES)
            for method in METHODS:
                level = compare(checkpoint.truth, apply(get_method(method), problem, method))[
                    checkpoint.truth.headline
                ]
                for metric, by_method in made.items():
                    by_method[method][task].append(level.metrics[metric].value)
        print(f"{task}: {len(folders)} networks", flush=True)
    return made


def deviations(by_task: Mapping[str, list[float]]) -> tuple[float, float]:
    """Returns the standard deviation between networks of one task, and that between tasks.

    They are those of a random effect of the task: the first is pooled, and the means of tasks also vary
    because each is one of few networks, whose share of the variance is taken off the second (0 is left at
    the least).
    """
    within = np.mean([np.var(values, ddof=1) for values in by_task.values()])
    of_means = np.var([np.mean(values) for values in by_task.values()], ddof=1)
    share = within * np.mean([1 / len(values) for values in by_task.values()])
    return float(np.sqrt(within)), float(np.sqrt(max(of_means - share, 0.0)))


def draw(made: Mapping[str, Scored]) -> None:
    """Draws each network's score, lines joining those of one task, and the two deviations beside them."""
    order = sorted(METHODS, key=lambda name: -np.mean([np.mean(x) for x in made["auroc"][name].values()]))
    figure = Picture(figsize=(11, 0.42 * len(order) + 1.2))
    for column, (metric, title) in enumerate(
        (("auroc", "AUROC"), ("average_precision", "average precision"))
    ):
        axes = figure.add_axes((0.14 + column * 0.44, 0.12, 0.27, 0.8))
        spread = figure.add_axes((0.435 + column * 0.44, 0.12, 0.09, 0.8))
        for place, method in enumerate(order):
            by_task = made[metric][method]
            for line, values in enumerate(by_task.values()):
                height = place + 0.6 * (line / max(len(by_task) - 1, 1) - 0.5)
                axes.plot([min(values), max(values)], [height, height], color="0.75", lw=0.8, zorder=1)
                axes.plot(values, [height] * len(values), "o", color=BLUE, ms=1.8, zorder=2)
            within, between = deviations(by_task)
            spread.barh(place - 0.18, within, 0.32, color=BLUE)
            spread.barh(place + 0.18, between, 0.32, color=VERMILLION)
        axes.set_title(title, fontsize=9)
        axes.set_yticks(range(len(order)), order if column == 0 else [], fontsize=8)
        spread.set_yticks([])
        spread.set_title("deviation", fontsize=9)
        for one in (axes, spread):
            one.set_ylim(len(order) - 0.5, -0.5)
            one.tick_params(labelsize=7)
            one.spines[["top", "right"]].set_visible(False)
        axes.tick_params(axis="y", labelsize=8)
    figure.text(
        0.14,
        0.02,
        "a dot: one network; a line: the networks of one task      "
        "blue bar: deviation between networks of one task; red: between tasks",
        fontsize=8,
    )
    save(figure, FIGURE)


def main() -> None:
    """Scores the methods, writes the numbers and draws the figure."""
    prepare_torch(threads=1)
    made = scored(networks())
    spread = {
        metric: {method: list(deviations(by_task)) for method, by_task in by_method.items()}
        for metric, by_method in made.items()
    }
    write_json(RESULTS, {**made, "deviations between networks, between tasks": spread})
    for method in METHODS:
        numbers = "   ".join(
            f"{metric}: networks {within:.3f}, tasks {between:.3f}"
            for metric, by_method in made.items()
            for within, between in [deviations(by_method[method])]
        )
        print(f"{method:18} {numbers}")
    draw(made)


if __name__ == "__main__":
    main()
