"""The figures of a leaderboard."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from interpbench.reports.labels import number
from interpbench.reports.palette import BLUE, VERMILLION, save
from interpbench.scoring.hypotheses import LEVEL
from interpbench.scoring.leaderboard_data import Board
from interpbench.scoring.leaderboard_rows import HEADLINE_LEVEL, TRUTH
from interpbench.scoring.metric import ScoreMetric
from interpbench.scoring.ranking_metrics import HEADLINE, average_precision, precision_at_size
from interpbench.scoring.row_metrics import cmd
from interpbench.scoring.row_metrics import passes as passes_metric

GREY = "0.55"
HALO = [withStroke(linewidth=2.5, foreground="white")]
USUAL = 26
"""The number of characters of a name that figures have room for."""
PANELS: tuple[tuple[str, ScoreMetric], ...] = (
    ("AUROC", HEADLINE),
    ("average precision", average_precision.at(HEADLINE_LEVEL)),
    ("precision at the true size", precision_at_size.at(HEADLINE_LEVEL)),
    ("CMD (lower is better)", cmd),
)


def draw_figures(board: Board, path: Callable[[str], Path]) -> None:
    """Draws all figures that a board has data for.

    Args:
        board: the rows.
        path: name of a figure to its file.
    """
    if not board.models or not board.edge_methods:
        return
    scores_figure(board, path("scores"))
    pairs_figure(board, path("pairs"))
    cost_figure(board, path("cost"))
    tasks_figure(board, path("tasks"))
    roc_figure(board, path("roc"))


def scores_figure(board: Board, path: Path) -> None:
    """Draws methods × metrics: a dot for the mean, a line for its interval, a tick for each model."""
    methods = board.edge_methods
    figure = Figure(figsize=(11, 0.24 * len(methods) + 1.1), layout="constrained")
    panels = figure.subplots(1, len(PANELS), sharey=True)
    for axes, (title, metric) in zip(panels, PANELS):
        for place, method in enumerate(methods):
            found, mean = board.values(method, metric), board.mean(method, metric)
            if mean is None:
                continue
            ticks = list(found.values())
            axes.plot(ticks, [place] * len(ticks), "|", color="0.75", markersize=6, zorder=1)
            axes.plot(mean.ends, [place, place], color=BLUE, linewidth=1.6, zorder=2)
            face = "white" if board.first(method).baseline else BLUE
            axes.plot(mean.value, place, "o", color=BLUE, markersize=4.5, zorder=3, markerfacecolor=face)
        if metric.has_null:
            if null := board.null(metric):
                axes.axvspan(*null.ends, color="0.93", zorder=0, linewidth=0)
        elif truth := board.mean(TRUTH, metric):
            axes.axvline(truth.value, color=VERMILLION, linewidth=1, zorder=0)
        axes.set_title(title, fontsize=10)
        axes.set_xlim(0.28 if metric == HEADLINE else -0.03, 1.03)
        axes.grid(axis="x", color="0.92", zorder=-1)
        axes.set_axisbelow(True)
        _bare(axes)
    panels[0].set_yticks(range(len(methods)), methods, fontsize=9)
    panels[0].set_ylim(len(methods) - 0.4, -0.6)
    figure.supxlabel(
        "● mean over programs and its 95 % interval (bootstrap of programs)    | one model    "
        "○ baseline    shaded: 95 % of random scores    red: the true circuit",
        fontsize=8.5,
        color="0.3",
    )
    save(figure, path)


def pairs_figure(board: Board, path: Path) -> None:
    """Draws every two methods: above the diagonal the mean difference, below it A12."""
    methods = board.edge_methods
    size = len(methods)
    differences, effects = np.full((size, size), np.nan), np.full((size, size), np.nan)
    width, height = max(5.5, 0.48 * size + 2.6), max(4.5, 0.36 * size + 2.2)
    figure = Figure(figsize=(width + _excess(methods), height + _excess(methods)), layout="constrained")
    axes = figure.subplots()
    for one in board.compare():
        row, column = methods.index(one.first), methods.index(one.second)
        difference, a12 = one.difference.value, one.a12.value
        differences[row, column] = difference
        effects[column, row] = 1 - a12  # of the method of the row, which is the second
        weight = "bold" if one.adjusted < LEVEL else "normal"
        star = "**" if one.adjusted < LEVEL else "*" if one.p < LEVEL else ""
        shade = "white" if abs(difference) > 0.3 else "black"
        write = partial(axes.text, ha="center", va="center", fontsize=6.5, weight=weight)
        write(column, row, f"{_signed(difference)}{star}", color=shade)
        write(row, column, _short(1 - a12), color="white" if abs(a12 - 0.5) > 0.35 else "black")
    limit = max(0.1, float(np.nanmax(abs(differences))) if size > 1 else 0.1)
    kinds = (
        ("RdBu", differences, TwoSlopeNorm(0, -limit, limit)),
        ("PuOr", effects, TwoSlopeNorm(0.5, 0, 1)),
    )
    images = [axes.imshow(values, colormaps[name], norm, aspect="auto") for name, values, norm in kinds]
    axes.set_xticks(range(size), methods, rotation=45, ha="left", rotation_mode="anchor", fontsize=8.5)
    axes.xaxis.tick_top()
    axes.set_yticks(range(size), methods, fontsize=8.5)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    bars = ("above the diagonal: AUROC of row minus column", "below: A12, the row above the column")
    for image, text in zip(images, bars):
        bar = figure.colorbar(image, ax=axes, shrink=0.6, aspect=25, pad=0.015)
        bar.set_label(text, fontsize=8)
        bar.ax.tick_params(labelsize=7)
        bar.outline.set_visible(False)  # type: ignore[operator]
    figure.supxlabel(
        "* p < 0.05, exact Wilcoxon signed-rank test of programs    ** p < 0.05 after Holm's correction",
        fontsize=8,
        color="0.3",
    )
    save(figure, path)


def cost_figure(board: Board, path: Path) -> None:
    """Draws accuracy against passes, with the methods that no other beats in both."""
    figure = Figure(figsize=(9, 5), layout="constrained")
    axes = figure.subplots()
    points: list[tuple[str, float, float]] = []
    lines: list[tuple[float, float]] = []
    for method in board.edge_methods:
        accuracy, passes = board.mean(method, HEADLINE), board.mean(method, passes_metric)
        if accuracy is None or passes is None or passes.value == 0:
            continue
        points.append((method, passes.value, accuracy.value))
        axes.plot([passes.value] * 2, accuracy.ends, color="0.8", linewidth=1.2, zorder=1)
        lines += [(passes.value, height) for height in np.linspace(*accuracy.ends, 12)]
    best = _frontier([(x, y) for _, x, y in points])
    for _, x, y in points:
        axes.plot(x, y, "o", color=BLUE if (x, y) in best else GREY, markersize=6, zorder=3)
    if best:
        axes.step(*zip(*best), where="post", color=BLUE, linewidth=1, alpha=0.5, zorder=2)
        for (start, height), (end, _) in pairwise(best):
            lines += [(across, height) for across in np.geomspace(start, end, 20)]
    axes.set_xscale("log")
    axes.margins(x=0.09)  # room for the names of the methods at the ends
    lowest = min(
        (mean.ends[0] for method, *_ in points if (mean := board.mean(method, HEADLINE))), default=0.5
    )
    ends = lowest - 0.02, 1 + 0.16 * (1 - lowest)
    axes.set_ylim(*ends)
    axes.set_yticks([tick for tick in axes.get_yticks() if tick <= 1 + 1e-9])
    axes.set_ylim(*ends)
    axes.set_xlabel("passes of one example through the network, forward and backward (mean over programs)")
    axes.set_ylabel("AUROC at edges (mean over programs, 95 % interval)")
    axes.grid(color="0.94")
    axes.set_axisbelow(True)
    _bare(axes)
    _place_labels(axes, points, {method for method, x, y in points if (x, y) in best}, lines)
    save(figure, path)


def tasks_figure(board: Board, path: Path) -> None:
    """Draws AUROC of every method on every model as a heat map with numbers; the hardest model first."""
    table = {method: board.values(method, HEADLINE) for method in board.edge_methods}
    means = {
        model: np.mean([found[model] for found in table.values() if model in found] or [0.0])
        for model in board.models
    }
    models = sorted(board.models, key=lambda model: float(means[model]))
    values = np.array([[table[method].get(model, np.nan) for method in table] for model in models])
    width, height = 0.47 * len(table) + 3.2, max(3.0, 0.3 * len(models) + 1.9)
    figure = Figure(figsize=(width + _excess(models), height + _excess([*table])), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(values, colormaps["viridis"], vmin=0.4, vmax=1, aspect="auto")
    for (row, column), value in np.ndenumerate(values):
        text = "–" if np.isnan(value) else _short(value)
        axes.text(
            column, row, text, ha="center", va="center", fontsize=7, color="white" if value < 0.8 else "black"
        )
    axes.set_xticks(
        range(len(table)), list(table), rotation=45, ha="left", rotation_mode="anchor", fontsize=8.5
    )
    axes.xaxis.tick_top()
    axes.set_yticks(range(len(models)), models, fontsize=8.5)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(image, ax=axes, shrink=0.9, aspect=25, pad=0.015, extend="min")
    bar.set_label("AUROC at edges", fontsize=8.5)
    bar.ax.tick_params(labelsize=7.5)
    save(figure, path)


def roc_figure(board: Board, path: Path) -> None:
    """Draws a panel for each method: the ROC curve of every model, and their vertical mean."""
    methods, columns = board.edge_methods, 7
    rows = -(-len(methods) // columns)
    figure = Figure(figsize=(11, 1.75 * rows + 0.5), layout="constrained")
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    across = np.linspace(0, 1, 201)
    for axes, method in zip(panels, methods):
        curves = [
            one.at(HEADLINE_LEVEL).roc
            for one in board.rows
            if one.method == method and board.model(one) in board.models and one.at(HEADLINE_LEVEL).roc
        ]
        axes.plot([0, 1], [0, 1], color="0.85", linewidth=0.8)
        for curve in curves:
            axes.plot(*zip(*curve), color=BLUE, alpha=0.25, linewidth=0.8)
        if curves:
            heights = np.mean([_height(curve, across) for curve in curves], axis=0)
            axes.plot(np.r_[0, across], np.r_[0, heights], color=BLUE, linewidth=1.8)
        mean = board.mean(method, HEADLINE)
        axes.set_title(method, fontsize=8, loc="left", pad=3)
        axes.text(0.97, 0.06, number(mean.value if mean else None), fontsize=8, ha="right", color="0.3")
        axes.set(
            xlim=(-0.04, 1.02), ylim=(-0.02, 1.04), aspect="equal", xticks=(0, 0.5, 1), yticks=(0, 0.5, 1)
        )
        axes.tick_params(labelsize=7)
        _bare(axes)
    for axes in panels[len(methods) :]:
        axes.axis("off")
    figure.supxlabel(
        "share of forbidden edges taken (thin: one model; thick: mean; number: mean AUROC)", fontsize=9
    )
    figure.supylabel("share of required edges found", fontsize=9)
    save(figure, path)


def _excess(names: Sequence[str]) -> float:
    """Returns how many inches the longest name takes over what names usually take."""
    return 0.065 * max(0, max(map(len, names), default=0) - USUAL)


def _bare(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)


def _short(value: float) -> str:
    """Formats a number between 0 and 1 without its leading zero, and only 1 as 1."""
    text = f"{min(value, 0.994) if value < 1 else value:.2f}"
    return text.lstrip("0") if value < 1 else "1"


def _signed(value: float) -> str:
    """Formats a difference with its sign, in two digits after the point, or three if it is small."""
    sign, digits = "+" if value > 0 else "−", 2 if abs(value) >= 0.005 else 3
    return "0" if abs(value) < 0.0005 else f"{sign}{abs(value):.{digits}f}".replace("0.", ".", 1)


def _height(curve: Sequence[Sequence[float]], across: np.ndarray) -> np.ndarray:
    """Returns the true positive rate at false positive rates, the highest where the curve is vertical."""
    x, y = np.array(curve).T
    step = 1e-9  # np.interp needs vertical parts to lean
    return np.interp(across + step * len(x), x + step * np.arange(len(x)), y)


def _frontier(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Returns the points that none beats in both coordinates (less x, more y), by x."""
    best: list[tuple[float, float]] = []
    for x, y in sorted(points, key=lambda point: (point[0], -point[1])):
        if not best or y > best[-1][1]:
            best.append((x, y))
    return best


def _place_labels(
    axes: Axes,
    points: Sequence[tuple[str, float, float]],
    bold: set[str],
    lines: Sequence[tuple[float, float]],
) -> None:
    """Writes names beside points, where they cover neither each other, nor a point, nor a line.

    Args:
        axes: where to.
        points: names with their places.
        bold: the names to be written in bold.
        lines: places along intervals and the line of the best.
    """
    from adjustText import adjust_text

    names = [
        axes.text(x, y, name, fontsize=8.5, weight="bold" if name in bold else "normal", path_effects=HALO)
        for name, x, y in points
    ]
    x, y = [x for _, x, _ in points], [y for *_, y in points]
    line = {"arrowstyle": "-", "color": "0.7", "linewidth": 0.6}
    adjust_text(
        names,
        [*x, *(x for x, _ in lines)],
        [*y, *(y for _, y in lines)],
        target_x=x,
        target_y=y,
        ax=axes,
        expand=(1.25, 1.6),
        iter_lim=500,
        arrowprops=line,
    )
