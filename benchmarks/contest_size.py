"""How many networks a contest needs: a simulation on what methods reach on the released ones.

A contest is a draw of programs. Here programs are drawn from released models, with replacement, and methods
are ranked by their mean AUROC on those, which answers two questions:

* Would two contests agree? Kendall's tau-b of the ranks in two independent draws, and the middle 95 % of it.
* Would a contest tell two methods apart? The power, which is the share of draws in which the exact
  signed-rank test of their difference has p < 0.05, for pairs of methods by how far they are apart.

The models are those whose circuit is not trivial, and those in regimes. The table is in `docs/contest.md`,
the figure is `docs/contest-size.png`.

Run: `python -m benchmarks.contest_size`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from scipy.stats import kendalltau

from interpbench.core import seeds
from interpbench.core.files import write_text
from interpbench.reports.models_page import put
from interpbench.reports.palette import COLOURS, Picture, save
from interpbench.runs.leaderboard_files import read_board
from interpbench.scoring.comparison import wilcoxon
from interpbench.scoring.exam_data import in_usual_direction
from interpbench.scoring.intervals import percentiles
from interpbench.scoring.leaderboard_rows import BOARD
from interpbench.scoring.ranking_metrics import HEADLINE

SIZES = (5, 10, 20, 40, 80)
"""The numbers of networks of a contest."""
DRAWS = 200
GAPS = {"0.1 or more": (0.1, 1.0), "0.03 to 0.1": (0.03, 0.1), "0.01 to 0.03": (0.01, 0.03)}
"""How far two methods are apart, in mean AUROC: each class has its least difference, not its largest."""
BOARDS = {"not trivial": Path("docs"), "in regimes": Path("docs/exam")}
SIGNIFICANT = 0.05
PAGE, FIGURE = Path("docs/contest.md"), Path("docs/contest-size.png")
BEGIN = "<!-- made by `python -m benchmarks.contest_size` -->"


@dataclass(frozen=True)
class Simulated:
    """What contests of a size would say.

    Attributes:
        size: the number of networks.
        tau: Kendall's tau-b of the ranks in two draws, in each pair of draws.
        power: the mean power over pairs of methods, by how far they are apart; of classes that have some.
    """

    size: int
    tau: np.ndarray
    power: dict[str, float]


def program_means(folder: Path) -> tuple[list[str], np.ndarray]:
    """Returns methods, and what each reaches on each program, `[method, program]`.

    Args:
        folder: the folder of a leaderboard.
    """
    board = in_usual_direction(read_board(folder / BOARD))
    values = {method: board.values(method, HEADLINE) for method in board.methods}
    models = max(values.values(), key=len)
    methods = [method for method, of in values.items() if of.keys() == models.keys()]
    programs = sorted({board.programs[model] for model in models})
    members = [[model for model in models if board.programs[model] == program] for program in programs]
    table = [[np.mean([values[method][model] for model in of]) for of in members] for method in methods]
    return methods, np.array(table)


def simulate(values: np.ndarray, size: int, draws: int = DRAWS) -> Simulated:
    """Simulates contests.

    Args:
        values: what each method reaches on each program, `[method, program]`.
        size: the number of networks.
        draws: the number of draws.
    """
    rng = seeds.generator(0, "contest size", size)
    picks = rng.integers(values.shape[1], size=(draws, 2, size))
    means = values[:, picks].mean(3).round(6)  # [method, draw, 2]
    tau = np.array([kendalltau(*means[:, draw].T).statistic for draw in range(draws)])
    apart = values.mean(1)
    power: dict[str, list[float]] = {}
    for first, second in combinations(range(len(values)), 2):
        gap = next(
            (name for name, ends in GAPS.items() if ends[0] <= abs(apart[first] - apart[second]) < ends[1]),
            None,
        )
        if gap is not None:
            differences = values[first] - values[second]
            found = [wilcoxon(differences[pick]) < SIGNIFICANT for pick in picks[:, 0]]
            power.setdefault(gap, []).append(float(np.mean(found)))
    return Simulated(size, tau, {gap: float(np.mean(power[gap])) for gap in GAPS if gap in power})


def table(found: Mapping[str, Sequence[Simulated]]) -> str:
    """Returns the table of the page."""
    lines = [
        f"| models | networks | tau of two contests | {' | '.join(f'apart by {gap}' for gap in GAPS)} |",
        f"| --- | --: | --: |{' --: |' * len(GAPS)}",
    ]
    for name, simulated in found.items():
        for one in simulated:
            low, high = percentiles(one.tau)
            power = [f"{one.power[gap]:.0%}" if gap in one.power else "–" for gap in GAPS]
            tau = f"{np.median(one.tau):.2f} ({low:.2f} to {high:.2f})"
            lines.append(f"| {name} | {one.size} | {tau} | {' | '.join(power)} |")
    return "\n".join(lines)


def figure(found: Mapping[str, Sequence[Simulated]]) -> Picture:
    """Returns the figure: agreement and power against the number of networks."""
    picture = Picture(figsize=(9, 3.4), layout="constrained")
    left, right = picture.subplots(1, 2)
    for (name, simulated), colour, marker in zip(found.items(), COLOURS, "os"):
        sizes = [one.size for one in simulated]
        ends = np.array([percentiles(one.tau) for one in simulated]).T
        left.fill_between(sizes, *ends, color=colour, alpha=0.15, linewidth=0)
        left.plot(sizes, [np.median(one.tau) for one in simulated], f"{marker}-", color=colour, label=name)
        for gap, style in zip(GAPS, ("-", "--", ":")):
            known = [(one.size, one.power[gap]) for one in simulated if gap in one.power]
            right.plot(*zip(*known), style, marker=marker, color=colour, label=f"{name}, {gap}")
    left.set(ylabel="Kendall's tau of two contests", ylim=(0, 1))
    right.set(ylabel="power of the signed-rank test", ylim=(0, 1.02))
    for axes in (left, right):
        axes.set(xlabel="networks of a contest", xscale="log", xticks=SIZES, xticklabels=SIZES)
        axes.minorticks_off()
        axes.legend(frameon=False, fontsize=7)
    return picture


def main() -> None:
    """Simulates contests, and writes table and figure."""
    found: dict[str, list[Simulated]] = {}
    for name, folder in BOARDS.items():
        methods, values = program_means(folder)
        print(f"{name}: {len(methods)} methods, {values.shape[1]} programs", flush=True)
        found[name] = [simulate(values, size) for size in SIZES]
    write_text(PAGE, put(PAGE.read_text(), table(found), BEGIN))
    save(figure(found), FIGURE)


if __name__ == "__main__":
    main()
