"""The figures of docs/decoys.md: what each circuit plants, and how methods rank the features."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from interpbench.decoys.decoy_circuits import ORDER, PLANTED, DecoyCircuit, decoy_circuit
from interpbench.decoys.decoy_scores import Cells
from interpbench.decoys.dissociation import FOOLED
from interpbench.decoys.feature_methods import METHODS
from interpbench.decoys.hidden_layer import FEATURES, HiddenLayer
from interpbench.reports.palette import BLUE, VERMILLION, save

PALE, TINT = "0.72", "#FDF1E8"
"""The colours of features that nothing reads, and of panels in which a method is fooled."""
SAYS = {
    "clean": ("nothing planted", "four gates v tanh(x)"),
    "confounded": ("not read, but r = 0.95 and 0.97", "f7 follows the output"),
    "suppressor": ("a narrow bump each", "steep, up and down again"),
    "baseline": ("a narrower bump each", "it lies on the baseline"),
    "interaction": ("read together, both causal", "x7 = 1 in all of the data"),
    "off_manifold": ("equal in all of the data", "a patch leaves the diagonal"),
}
"""What is written above the wiring, and above the plot, of each circuit."""


def draw_circuits(path: Path) -> None:
    """Draws each circuit: what the network reads, and what it computes of the planted features.

    Args:
        path: the file.
    """
    figure = Figure(figsize=(13, 7.0))
    for place, name in enumerate(ORDER):
        circuit, (row, column) = decoy_circuit(name), divmod(place, 3)
        left, bottom = 0.02 + 0.328 * column, 0.56 - 0.49 * row
        wiring = figure.add_axes((left, bottom, 0.13, 0.31))
        plot = figure.add_axes((left + 0.168, bottom + 0.02, 0.135, 0.29))
        figure.text(left + 0.012, bottom + 0.355, name, weight="bold", fontsize=12)
        _wiring(wiring, circuit)
        for axes, said in zip((wiring, plot), SAYS[name]):
            axes.set_title(said, fontsize=9, color="0.3")
        PLOTS.get(name, _responses)(plot, circuit)
        plot.tick_params(labelsize=7.5)
        plot.xaxis.label.set_fontsize(8)
        plot.yaxis.label.set_fontsize(8)
        plot.spines[["top", "right"]].set_visible(False)
    save(figure, path)


def _colour(circuit: DecoyCircuit, feature: int) -> str:
    planted = circuit.name != "clean" and feature in PLANTED
    return BLUE if feature in circuit.causal else VERMILLION if planted else PALE


def _wiring(axes: Axes, circuit: DecoyCircuit) -> None:
    """Draws the features on the left, the hidden units in the middle and the output on the right."""
    axes.set(xlim=(-0.25, 1.15), ylim=(FEATURES - 0.4, -0.6))
    axes.axis("off")
    units = circuit.network.units
    heights = np.linspace(0.2, FEATURES - 1.2, len(units))
    middle = (FEATURES - 1) / 2
    for height, unit in zip(heights, units):
        for feature in unit.reads:
            axes.plot([0, 0.5], [feature, height], color=_colour(circuit, feature), linewidth=1, zorder=1)
        axes.plot([0.5, 1], [height, middle], color="0.8", linewidth=0.7, zorder=0)
        axes.plot(0.5, height, "s", color="white", markeredgecolor="0.4", markersize=5, zorder=2)
    for feature in range(FEATURES):
        colour = _colour(circuit, feature)
        axes.plot(0, feature, "o", color=colour, markersize=7, zorder=2)
        axes.text(-0.07, feature, f"f{feature}", ha="right", va="center", fontsize=8, color=colour)
        if feature in circuit.correlated:
            axes.annotate(
                "",
                xy=(0.06, feature),
                xytext=(0.97, middle + 0.3),
                arrowprops={"arrowstyle": "-|>", "color": VERMILLION, "linestyle": ":"},
            )
    axes.plot(1, middle, "o", color="0.2", markersize=9)
    axes.text(1, middle + 1.1, "y", ha="center", va="center", fontsize=9)


def _responses(axes: Axes, circuit: DecoyCircuit) -> None:
    """Draws what the output makes of single features, and where inputs are."""
    points = np.linspace(-3, 3, 1201)
    axes.fill_between(points, 1.6 * np.exp(-(points**2) / 2) - 1.7, -1.7, color="0.93", zorder=0)
    for feature in (*circuit.causal, PLANTED[1]):
        units = [unit for unit in circuit.network.units if feature in unit.reads]
        inputs = np.zeros((len(points), FEATURES))
        inputs[:, feature] = points
        if units:
            width = 1.8 if feature in PLANTED else 0.9
            values = HiddenLayer(units).outputs(inputs)
            axes.plot(points, values, color=_colour(circuit, feature), linewidth=width)
    axes.axvline(0, color="0.8", linewidth=0.7, zorder=0)
    axes.set(
        xlim=(-3, 3), ylim=(-1.7, 2.9), xlabel="feature (grey: how often)", ylabel="its part of the output"
    )


def _scatter(axes: Axes, circuit: DecoyCircuit) -> None:
    inputs = circuit.draw(512, 0)
    outputs = circuit.network.outputs(inputs)
    for feature, colour in ((1, BLUE), (PLANTED[1], VERMILLION)):
        axes.plot(inputs[:, feature], outputs, ".", color=colour, markersize=2.2)
    axes.set(xlim=(-3.2, 3.2), ylim=(-3.4, 3.4), xlabel="f1 (blue) and f7", ylabel="output")


def _plane(axes: Axes, circuit: DecoyCircuit) -> None:
    """Draws the output over the plane of the planted features, and where in it the data lie."""
    points = np.linspace(-3, 3, 121)
    six, seven = np.meshgrid(points, points)
    inputs = np.zeros((six.size, FEATURES))
    inputs[:, PLANTED[0]], inputs[:, PLANTED[1]] = six.ravel(), seven.ravel()
    outputs = circuit.network.outputs(inputs).reshape(six.shape)
    shades = outputs - outputs[60, 60]
    axes.contourf(points, points, shades, levels=np.linspace(-5.2, 5.2, 27), cmap="RdBu_r", alpha=0.75)
    along = circuit.on_data(np.repeat(points[:, None], FEATURES, axis=1))
    axes.plot(along[:, PLANTED[0]], along[:, PLANTED[1]], color="black", linewidth=1.8)
    axes.set(xlim=(-3, 3), ylim=(-3, 3), xlabel="f6", ylabel="f7")
    if circuit.copied:
        arrow = {"arrowstyle": "-|>", "color": "black"}
        axes.annotate("", xy=(2.3, -1), xytext=(-1, -1), arrowprops=arrow)


PLOTS: dict[str, Callable[[Axes, DecoyCircuit], None]] = {
    "confounded": _scatter,
    "interaction": _plane,
    "off_manifold": _plane,
}
"""The plot of each circuit that is not about functions of single features."""


def draw_scores(cells: Cells, path: Path) -> None:
    """Draws the scores of all features, a panel for each method and circuit, with a dot for each seed.

    Args:
        cells: the table.
        path: the file.
    """
    figure = Figure(figsize=(12, 6.6), layout="constrained")
    panels = figure.subplots(len(METHODS) - 1, len(ORDER), sharex=True, sharey="row")
    for row, method in enumerate(METHODS[1:]):
        top = max(cells[method, name].scores.max() for name in ORDER)
        for column, name in enumerate(ORDER):
            axes, circuit, cell = panels[row, column], decoy_circuit(name), cells[method, name]
            for feature in range(FEATURES):
                values = cell.scores[:, feature]
                axes.plot(
                    np.full(len(values), feature), values, ".", color=_colour(circuit, feature), markersize=3
                )
            mean = sum(cell.aurocs) / len(cell.aurocs)
            axes.text(0.97, 0.93, f"{mean:.3f}", transform=axes.transAxes, ha="right", va="top", fontsize=9)
            axes.set(xlim=(-0.8, FEATURES - 0.2), ylim=(-0.04 * top, 1.22 * top))
            axes.set_xticks(range(0, FEATURES, 2), [f"f{feature}" for feature in range(0, FEATURES, 2)])
            axes.tick_params(labelsize=7)
            axes.spines[["top", "right"]].set_visible(False)
            if (method, name) in FOOLED:
                axes.set_facecolor(TINT)
            if row == 0:
                axes.set_title(name, fontsize=10)
            if column == 0:
                axes.set_ylabel(method.replace("_", "\n"), fontsize=9)
    save(figure, path)
