"""What regimes do to methods, as a table and a figure."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import numpy as np
from matplotlib import colormaps
from matplotlib.cm import ScalarMappable
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure

from interpbench.core.text import markdown
from interpbench.discovery.directions import Direction
from interpbench.reports.labels import NOTHING, number
from interpbench.reports.palette import save
from interpbench.scoring.exam_data import JOINT, OrderEffect, RegimeEffect, ThresholdEffect, direction_of
from interpbench.scoring.hypotheses import LEVEL

NOISING, *_ = EVERY_DIRECTION = get_args(Direction)
"""The directions of patching, of which the first is the usual one."""
LEAST_LIMIT = 0.05
"""The smallest difference that is drawn in the darkest colour."""


def exam_table(effects: Sequence[RegimeEffect]) -> str:
    """Returns a Markdown table of methods × regimes.

    A cell has the mean on networks in these regimes, and by how much that differs from the twins' mean, with
    its interval; ** marks what is significant after correction. The counts of a column are those of the
    method that was run on most of its networks; cells of fewer networks say of how many.
    """
    regimes, methods = _axes(effects)
    cells = {(one.method, one.regimes): one for one in effects}
    counts: dict[str, tuple[int, int]] = {}
    for one in effects:
        counts[one.regimes] = max(counts.get(one.regimes, (0, 0)), (one.models, one.programs))
    lines = [["method", *(f"{name}: {counts[name][0]} ({counts[name][1]})" for name in regimes)]]
    lines += [["---", *["--:"] * len(regimes)]]
    lines += [
        [markdown(method), *(_cell(cells.get((method, name)), counts[name][0]) for name in regimes)]
        for method in methods
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def circuits_table(*every: Sequence[RegimeEffect]) -> str:
    """Returns a Markdown table of methods × regimes of what circuits are.

    Cells of fewer networks than the method that was run on most of them has say of how many.

    Args:
        every: the numbers of a cell, each on networks in these regimes.
    """
    together = [one for effects in every for one in effects]
    regimes, methods = _axes(together)
    cells = [{(one.method, one.regimes): f"{one.inside.value:.2f}" for one in effects} for effects in every]
    models = Counter[tuple[str, str]]()
    for one in together:
        models[one.method, one.regimes] = max(models[one.method, one.regimes], one.models)
    most = {name: max(models[method, name] for method in methods) for name in regimes}

    def cell(method: str, name: str) -> str:
        said, here = " / ".join(each.get((method, name), NOTHING) for each in cells), models[method, name]
        return f"{said}, of {here}" if 0 < here < most[name] else said

    lines = [["method", *(f"{name}: {most[name]}" for name in regimes)], ["---", *["--:"] * len(regimes)]]
    lines += [[markdown(method), *(cell(method, name) for name in regimes)] for method in methods]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def directions_table(effects: Sequence[RegimeEffect]) -> str:
    """Returns a Markdown table of methods × regimes: their numbers by noising / by denoising / by both.

    Methods that were run in one direction alone are left out.

    Args:
        effects: what regimes do to methods, of which the usual direction is noising.
    """
    cells: dict[str, dict[str, dict[str, float]]] = {}
    for one in effects:
        method, direction = direction_of(one.method)
        here = cells.setdefault(method, {}).setdefault(one.regimes, {})
        here[direction or NOISING] = one.inside.value
    methods = [
        method
        for method in _axes(effects)[1]
        if any(len(each) > 1 for each in cells.get(method, {}).values())
    ]
    regimes = list(dict.fromkeys(one.regimes for one in effects))

    def cell(method: str, name: str) -> str:
        here = cells[method].get(name, {})
        return " / ".join(f"{here[each]:.2f}" if each in here else NOTHING for each in EVERY_DIRECTION)

    lines = [["method", *regimes], ["---", *["--:"] * len(regimes)]]
    lines += [[markdown(method), *(cell(method, name) for name in regimes)] for method in methods]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def thresholds_table(effects: Sequence[ThresholdEffect]) -> str:
    """Returns a Markdown table of a method's thresholds × regimes: relative size, precision and recall."""
    groups = list(dict.fromkeys(one.group for one in effects))
    places = list(dict.fromkeys((one.method, one.threshold) for one in effects))
    cells = {
        (one.method, one.threshold, one.group): f"{one.size:.2f} / {one.precision:.2f} / {one.recall:.2f}"
        for one in effects
    }
    lines = [["method", "threshold", *(group or "clean twins" for group in groups)]]
    lines.append(["---", *["--:"] * (len(groups) + 1)])
    for method, threshold in places:
        each = (cells.get((method, threshold, group), NOTHING) for group in groups)
        lines.append([markdown(method), threshold, *each])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def orders_table(effects: Sequence[OrderEffect]) -> str:
    """Returns a Markdown table of methods × regimes: what is found of order 0 / of order 1."""
    regimes = list(dict.fromkeys(one.regimes for one in effects))
    models = {name: max(one.models for one in effects if one.regimes == name) for name in regimes}
    cells = {(one.method, one.regimes): one for one in effects}
    values: dict[str, list[float]] = {}
    for one in effects:
        values.setdefault(one.method, []).append(one.together.value)

    def cell(method: str, name: str) -> str:
        one = cells.get((method, name))
        if one is None:
            return NOTHING
        fewer = f", of {one.models}" if one.models < models[name] else ""
        return f"{one.alone.value:.2f} / {one.together.value:.2f}{fewer}"

    lines = [["method", *(f"{name}: {models[name]}" for name in regimes)], ["---", *["--:"] * len(regimes)]]
    for method in sorted(values, key=lambda method: -float(np.mean(values[method]))):
        lines.append([markdown(method), *(cell(method, name) for name in regimes)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(one: RegimeEffect | None, models: int) -> str:
    if one is None:
        return NOTHING
    low, high = (_signed(end) for end in one.difference.ends)
    star = "**" if one.adjusted < LEVEL else ""
    fewer = f", of {one.models}" if one.models < models else ""
    return f"{number(one.inside.value)} ({_signed(one.difference.value)} [{low}, {high}]){star}{fewer}"


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−") if abs(value) >= 5e-4 else "0"


def _axes(effects: Sequence[RegimeEffect]) -> tuple[list[str], list[str]]:
    """Returns the combinations of regimes, and the methods from the best to the worst mean over them."""
    regimes = list(dict.fromkeys(one.regimes for one in effects))
    values: dict[str, list[float]] = {}
    for one in effects:
        values.setdefault(one.method, []).append(one.inside.value)
    return regimes, sorted(values, key=lambda method: -float(np.mean(values[method])))


def draw_exam(effects: Sequence[RegimeEffect], title: str, path: Path) -> None:
    """Draws the profile of each method: by how much each combination of regimes changes its number.

    Args:
        effects: what regimes do to methods.
        title: what the number is called.
        path: the file.
    """
    regimes, methods = _axes(effects)
    single = [name for name in regimes if JOINT not in name]
    panels = [some for some in (single, [name for name in regimes if name not in single]) if some]
    limit = max([LEAST_LIMIT, *(abs(one.difference.value) for one in effects)])
    wide, high = max(map(len, panels)), len(methods)
    shades = ScalarMappable(TwoSlopeNorm(0, -limit, limit), colormaps["RdBu"])
    figure = Figure(figsize=(0.66 * wide + 2.6, len(panels) * (0.23 * high + 0.9)), layout="constrained")
    grid = figure.subplots(len(panels), squeeze=False)
    for axes, names in zip(grid[:, 0], panels):
        table = np.full((high, wide), np.nan)
        for one in (one for one in effects if one.regimes in names):
            table[methods.index(one.method), names.index(one.regimes)] = one.difference.value
        axes.imshow(table, shades.cmap, shades.norm, aspect="auto")
        for (row, column), value in np.ndenumerate(table[:, : len(names)]):
            said = NOTHING if np.isnan(value) else f"{value:+.2f}" if round(value, 2) else "0"
            shade = "white" if abs(np.nan_to_num(value)) > 0.6 * limit else "black"
            axes.text(column, row, said.replace("-", "−"), ha="center", va="center", fontsize=8, color=shade)
        models = {name: max(one.models for one in effects if one.regimes == name) for name in names}
        said = [f"{name}: {models[name]}" for name in names]
        axes.set_xticks(range(len(names)), said, fontsize=8.5, rotation=38, ha="left", rotation_mode="anchor")
        axes.xaxis.tick_top()
        axes.set_yticks(range(high), methods, fontsize=8.5)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
    bar = figure.colorbar(shades, ax=grid[:, 0].tolist(), shrink=0.4, aspect=30, pad=0.02)
    bar.set_label(f"{title} minus that on the clean twins", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    bar.outline.set_visible(False)  # type: ignore[operator]
    save(figure, path)
