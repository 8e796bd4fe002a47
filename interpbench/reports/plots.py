"""ROC curves of several methods on one task."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes

from interpbench.circuits.ground_truth import LEVELS, Level
from interpbench.core.text import mathtext
from interpbench.reports.labels import LEVEL_NAMES, method_labels, number
from interpbench.reports.palette import COLOURS, Picture, save
from interpbench.scoring.evaluation_record import EvaluationRecord
from interpbench.scoring.results import LevelScores

DASHES = ("-", (0, (5, 2)), (0, (1, 1.2)), (0, (6, 2, 1.5, 2)))


def roc_figure(records: Sequence[EvaluationRecord], path: Path) -> None:
    """Draws the ROC curves of all methods on one task, a panel for each level, and writes them as PNG.

    Ties are straight lines between distinct scores. Curves get thinner and other dashes in the order of
    the records, so that those below remain visible where several coincide.

    Args:
        records: records of one task.
        path: the file to write.
    """
    found = dict(zip(method_labels(records), (record.levels for record in records)))
    save(roc_curves(found, records[0].task if records else ""), path)


def roc_curves(found: Mapping[str, Mapping[Level, LevelScores]], title: str = "") -> Picture:
    """Draws the ROC curves of several rankings as a figure, a panel for each level; see `roc_figure`.

    Args:
        found: what to call each ranking, and how well it does at each level, as `interpbench.compare` says.
        title: what to write above.
    """
    labels = list(map(mathtext, found))
    legend = 0.2 * len(found) + 0.15
    figure = Picture(figsize=(11, 4.3 + legend))
    if title:
        figure.suptitle(mathtext(title), x=0.01, ha="left", weight="bold")
    for place, level in enumerate(LEVELS):
        height = 3.25 / (4.3 + legend)
        axes = figure.add_axes((0.055 + 0.325 * place, (legend + 0.55) / (4.3 + legend), 0.28, height))
        _panel(axes, [levels.get(level) for levels in found.values()], labels)
        axes.set_title(LEVEL_NAMES[level], fontsize=10)
        if place == 0:
            axes.set_ylabel("required found")
    return figure


def _panel(axes: Axes, curves: Sequence[LevelScores | None], labels: Sequence[str]) -> None:
    """Draws one level."""
    axes.plot([0, 1], [0, 1], color="0.85", linewidth=0.8, zorder=0)
    drawn = 0
    for number_of, (curve, label) in enumerate(zip(curves, labels)):
        if curve is not None and curve.auroc is not None:
            axes.plot(
                *zip(*curve.roc),
                label=f"{number(curve.auroc)}  {label}",
                color=COLOURS[number_of % len(COLOURS)],
                linestyle=DASHES[number_of % len(DASHES)],
                linewidth=1.3 + 3.2 * (1 - (number_of + 1) / len(labels)),
            )
            drawn += 1
    axes.set(xlim=(-0.025, 1.025), ylim=(-0.025, 1.025), xlabel="forbidden taken", aspect="equal")
    axes.spines[["top", "right"]].set_visible(False)
    if drawn:
        axes.legend(
            loc="upper left",
            bbox_to_anchor=(-0.02, -0.15),
            frameon=False,
            fontsize=8,
            handlelength=4,
            labelspacing=0.45,
            title="AUROC",
            title_fontsize=8,
            alignment="left",
        )
    else:
        axes.text(0.5, 0.5, "nothing to tell apart", ha="center", color="0.5", backgroundcolor="white")
