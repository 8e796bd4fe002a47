"""Figures of traces: curves by layer, the way of a patch, heat maps of layers and of heads, and peaks.

Results are given by the names of models, as `TraceResult` or as what its `to_dict` gives; with the published
keys alone, curves have no intervals. A figure is returned, and written as PNG if `save_path` is given.

Common arguments:
    results: results by the names of models.
    curve: `mask_patch`, `context_patch` or `subject_patch`.
    save_path: the file to write; None for none.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from matplotlib.ticker import MaxNLocator

from interpbench.core.errors import TraceError
from interpbench.core.text import mathtext
from interpbench.masked_lm.patch_sites import COMPONENTS, Site
from interpbench.masked_lm.trace_results import FLAT, TraceResult
from interpbench.reports.palette import BLUE, COLOURS, VERMILLION, Picture, save

Results = Mapping[str, TraceResult | Mapping[str, Any]]
SITE_NAMES: dict[Site, str] = {"mlp": "MLP", "attn": "attention", "resid": "residual stream"}
"""The names of the sites in figures and texts."""
CURVE_NAMES = {
    "mask_patch": "clean activation at the mask",
    "context_patch": "clean activation at the context word",
    "subject_patch": "clean activation at the subject",
}
"""The names of the curves in figures and texts."""

DASHES, MARKS = ("-", "--", ":", "-."), "os^Dv"
"""The lines and the marks of curves, in turn."""


def plot_comparison(
    results: Results, curve: str = "mask_patch", title: str = "", save_path: str | Path | None = None
) -> Picture:
    """Draws a curve of all models by layer, a panel for each site, with the intervals over facts.

    Args:
        results: results by the names of models.
        curve: `mask_patch`, `context_patch` or `subject_patch`.
        title: what to write above; the name of the curve by default.
        save_path: the file to write; None for none.
    """
    found = {name: _curves(result, curve) for name, result in results.items()}
    sites: list[Site] = [site for site in SITE_NAMES if any(site in curves for curves in found.values())]
    if not sites:
        raise TraceError(f"no result has the curve {curve}")
    figure = Picture(figsize=(3.6 * len(sites) + 0.6, 3.6), layout="constrained")
    figure.suptitle(
        mathtext(title or f"What a {CURVE_NAMES[curve]} restores"), x=0.01, ha="left", weight="bold"
    )
    panels = figure.subplots(1, len(sites), sharey=True, squeeze=False)[0]
    for axes, site in zip(panels, sites):
        for number, (name, curves) in enumerate(found.items()):
            if site in curves:
                _line(axes, curves[site], mathtext(name), number)
        axes.axhline(0, color="0.8", linewidth=0.8, zorder=0)
        note = ", which carries all in the end" if (site, curve) == ("resid", "mask_patch") else ""
        axes.set_title(SITE_NAMES[site] + note, fontsize=10)
        axes.set_xlabel("layer")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("restored probability")
    panels[0].legend(frameon=False, fontsize=8)
    return _saved(figure, save_path)


def _line(axes: Axes, values: np.ndarray, label: str, number: int) -> None:
    """Draws one curve, `[layer, 3]` with value, low and high end, and its interval.

    Curves differ in dashes and marks, so that of two that are equal both can be seen.

    Args:
        axes: where to.
        values: the curve.
        label: its name.
        number: how many curves are below it.
    """
    layers, colour = np.arange(len(values)), COLOURS[number % len(COLOURS)]
    axes.plot(
        layers,
        values[:, 0],
        label=label,
        color=colour,
        linestyle=DASHES[number % len(DASHES)],
        marker=MARKS[number % len(MARKS)],
        markersize=max(2.5, 7 - 1.5 * number),
        linewidth=max(1.2, 2.8 - 0.6 * number),
    )
    axes.fill_between(layers, values[:, 1], values[:, 2], color=colour, alpha=0.18, linewidth=0)


def plot_patching_flow(
    num_layers: int, highlighted_layer: int, save_path: str | Path | None = None
) -> Picture:
    """Draws how a clean activation of one layer gets into the corrupted run.

    Args:
        num_layers: the number of layers.
        highlighted_layer: the layer that is patched, from 0.
        save_path: the file to write; None for none.

    Raises:
        TraceError: if there is no such layer.
    """
    if not 0 <= highlighted_layer < num_layers:
        raise TraceError(f"there is no layer {highlighted_layer} of {num_layers}; the first one is 0")
    figure = Picture(figsize=(7.6, 2.9))
    axes = figure.add_axes((0, 0, 1, 1))
    step = 6.0 / num_layers
    axes.set(xlim=(-1.8, 7.6), ylim=(-0.75, 2.35))
    axes.axis("off")
    for y, run, colour, end in (
        (1.6, "clean prompt", BLUE, "p(clean)"),
        (0.0, "corrupted prompt", "0.45", "p(patched)"),
    ):
        axes.text(-0.15, y, run, ha="right", va="center", fontsize=9.5)
        axes.annotate("", (6.35, y), (-0.05, y), arrowprops={"arrowstyle": "-|>", "color": "0.6"}, zorder=0)
        axes.text(6.45, y, end, va="center", fontsize=9.5)
        for layer in range(num_layers):
            chosen = layer == highlighted_layer
            corner = (layer * step + 0.14 * step, y - 0.24)
            box = FancyBboxPatch(corner, 0.72 * step, 0.48, boxstyle="round,pad=0,rounding_size=0.05")
            patched = VERMILLION if y == 0 else BLUE
            box.set(
                facecolor=patched if chosen else "white",
                edgecolor=patched if chosen else colour,
                linewidth=1.1,
            )
            axes.add_patch(box)
            if num_layers <= 24 or chosen:
                tint = "white" if chosen else "0.3"
                axes.text(
                    (layer + 0.5) * step, y, str(layer), ha="center", va="center", fontsize=8, color=tint
                )
    middle = (highlighted_layer + 0.5) * step
    arrow = FancyArrowPatch(
        (middle, 1.34), (middle, 0.27), arrowstyle="-|>", mutation_scale=13, color=VERMILLION, linewidth=1.8
    )
    axes.add_patch(arrow)
    side = "left" if highlighted_layer < num_layers / 2 else "right"
    shift = 0.12 if side == "left" else -0.12
    said = f"the clean activation of layer {highlighted_layer}, at one place of the prompt"
    axes.text(middle + shift, 0.8, said, ha=side, va="center", fontsize=9, color=VERMILLION)
    axes.text(6.9, -0.48, "restored: p(patched) − p(corrupted)", ha="right", va="center", fontsize=9.5)
    return _saved(figure, save_path)


def plot_heatmap(results: Results, save_path: str | Path | None = None, curve: str = "mask_patch") -> Picture:
    """Draws a curve of all models as a heat map, a row for each model and component, a column for each layer.

    Args:
        results: results by the names of models.
        save_path: the file to write; None for none.
        curve: `mask_patch`, `context_patch` or `subject_patch`.
    """
    rows = {
        f"{mathtext(name)}, {SITE_NAMES[site]}": values[:, 0]
        for name, result in results.items()
        for site, values in _curves(result, curve).items()
        if site in COMPONENTS
    }
    layers = max(map(len, rows.values()), default=0)
    if not layers:
        raise TraceError(f"no result has the curve {curve} of attention or MLP")
    table = np.full((len(rows), layers), np.nan)
    for number, values in enumerate(rows.values()):
        table[number, : len(values)] = values
    figure = Picture(figsize=(max(5.0, 2.6 + 0.42 * layers), 1.5 + 0.38 * len(rows)), layout="constrained")
    figure.suptitle(f"What a {CURVE_NAMES[curve]} restores", x=0.01, ha="left", weight="bold")
    axes = figure.add_subplot()
    _heat(figure, axes, table)
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set_xlabel("layer")
    return _saved(figure, save_path)


def plot_peak_bars(
    results: Results, save_path: str | Path | None = None, curve: str = "mask_patch"
) -> Picture:
    """Draws the peaks of all models as bars, with their layers and the intervals over facts.

    The residual stream is left out: at the mask it always peaks at the last layer. A curve of less than a
    tenth of clean minus corrupted is flat, and has no peak.

    Args:
        results: results by the names of models.
        save_path: the file to write; None for none.
        curve: `mask_patch`, `context_patch` or `subject_patch`.
    """
    found = {name: _curves(result, curve) for name, result in results.items()}
    sites: list[Site] = [site for site in COMPONENTS if any(site in curves for curves in found.values())]
    if not sites:
        raise TraceError(f"no result has the curve {curve} of attention or MLP")
    least = [FLAT * abs(_plain(result).get("clean_minus_corrupt", 0.0)) for result in results.values()]
    figure = Picture(figsize=(2.6 + 1.5 * len(found), 3.6), layout="constrained")
    figure.suptitle(f"Peak: {CURVE_NAMES[curve]}", x=0.01, ha="left", weight="bold")
    axes = figure.add_subplot()
    width = 0.8 / len(sites)
    for number, site in enumerate(sites):
        drawn = [(place, curves[site]) for place, curves in enumerate(found.values()) if site in curves]
        peaks = np.array([values[values[:, 0].argmax()] for _, values in drawn])
        places = np.array([place for place, _ in drawn]) + (number + 0.5) * width - 0.4
        axes.bar(places, peaks[:, 0], 0.92 * width, color=COLOURS[number], label=SITE_NAMES[site])
        ends = np.abs(peaks[:, 1:].T - peaks[:, 0])
        axes.errorbar(places, peaks[:, 0], ends, fmt="none", ecolor="0.25", elinewidth=1.1, capsize=3)
        for place, peak, (model, values) in zip(places, peaks, drawn):
            said = "flat" if peak[0] < least[model] else f"layer {values[:, 0].argmax()}"
            high = max(peak[0], peak[2], 0)
            axes.annotate(said, (place, high), (0, 3), textcoords="offset points", ha="center", fontsize=8)
    axes.set_xticks(range(len(found)), [mathtext(name) for name in found])
    axes.axhline(0, color="0.6", linewidth=0.8)
    axes.set_ylabel("restored probability")
    axes.margins(y=0.12)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    return _saved(figure, save_path)


def plot_heads(results: Results, save_path: str | Path | None = None) -> Picture:
    """Draws what the clean output of each head at the mask restores, as a heat map for each model.

    Raises:
        TraceError: if heads were not patched in any model.
    """
    maps: dict[str, np.ndarray] = {}
    for name, result in results.items():
        heads = _plain(result).get("heads") or []
        if heads:
            maps[name] = np.array([[one[0] for one in row] for row in heads])
    if not maps:
        raise TraceError("no result has heads, which trace(dataset, heads=True) patches")
    layers, heads = (max(table.shape[axis] for table in maps.values()) for axis in (0, 1))
    size = (1.2 + len(maps) * max(2.6, 0.34 * heads + 1.2), max(2.6, 1.5 + 0.3 * layers))
    figure = Picture(figsize=size, layout="constrained")
    figure.suptitle("What the clean output of a head at the mask restores", x=0.01, ha="left", weight="bold")
    for axes, (name, table) in zip(figure.subplots(1, len(maps), squeeze=False)[0], maps.items()):
        _heat(figure, axes, table)
        axes.set_title(mathtext(name), fontsize=10)
        axes.set(xlabel="head", ylabel="layer")
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        axes.invert_yaxis()
    return _saved(figure, save_path)


def _heat(figure: Picture, axes: Axes, table: np.ndarray) -> None:
    """Draws numbers as colours, blue below 0 and red above, with a scale."""
    most = max(float(np.nanmax(np.abs(table))), 1e-9)
    image = axes.imshow(table, cmap="RdBu_r", vmin=-most, vmax=most, aspect="auto", interpolation="nearest")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.colorbar(image, ax=axes, label="restored probability", shrink=0.9)


def _plain(result: TraceResult | Mapping[str, Any]) -> Mapping[str, Any]:
    return result.to_dict() if isinstance(result, TraceResult) else result


def _curves(result: TraceResult | Mapping[str, Any], curve: str) -> dict[Site, np.ndarray]:
    """Returns a curve by site, `[layer, 3]` each: the value, and the ends of its interval."""
    plain = _plain(result)
    found = {
        site: np.array([one[:3] if len(one) > 1 else one * 3 for one in curves[curve]])
        for site, curves in plain.get("curves", {}).items()
        if curve in curves
    }
    if not found and curve in plain:
        found[plain.get("site", "mlp")] = np.repeat(np.array(plain[curve], float)[:, None], 3, 1)
    return found


def _saved(figure: Picture, path: str | Path | None) -> Picture:
    if path is not None:
        save(figure, Path(path))
    return figure
