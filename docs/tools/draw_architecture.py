"""Draws the pictures of docs/architecture.md from the code itself.

`packages.svg` has the packages, in the rows of the import contract, and what each imports. An arrow is left
out where other arrows lead the same way. `training_row.svg` has one row of the first step of a training.

Run: `python docs/tools/draw_architecture.py`; a test fails if the stored pictures are not current.
"""

import sys
import tomllib
from pathlib import Path

import grimp
import matplotlib as mpl
import networkx as nx
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Patch

from interpbench.alignment.alignment import align
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.reports.palette import BLUE, VERMILLION
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.shapes import shape
from interpbench.training.draws import Draws
from interpbench.training.recipe import Recipe
from interpbench.training.sampling import Batch, Sampler

ROOT = Path(__file__).parents[2]
OUT = ROOT / "docs"
PLACES = {
    **{"runs": 1.5, "reports": 1.5, "training": 0.0, "checkpoints": 1.0, "scoring": 2.0, "discovery": 3.0},
    **{"scrubbing": 4.0, "decoys": 4.0, "masked_lm": 1.5},
    **{"alignment": 0.5, "tasks": 1.5, "rasp": 1.5, "causal": 1.0, "transformer": 2.0, "circuits": 1.5},
    "core": 1.5,
}
"""How far to the right a package is drawn; a new one is drawn at the left."""
PHRASES = {
    "runs": "one file\na command",
    "reports": "tables, figures,\npages",
    "masked_lm": "causal tracing\nof encoders",
    "training": "draws, losses,\ncertificates",
    "checkpoints": "the format,\nthe hub",
    "scoring": "metrics,\nintervals",
    "discovery": "one file\na method",
    "scrubbing": "hypotheses,\nput to the test",
    "decoys": "what fools\na method",
    "alignment": "variables to\nnodes; truth",
    "tasks": "programs, inputs,\nproblems",
    "rasp": "from RASP to\ncausal models",
    "causal": "exact causal\nmodels",
    "transformer": "the kernel",
    "circuits": "nodes, edges,\ntruth, scores",
    "core": "configuration,\nfiles, errors",
}
SOURCES = {"its own run": "white", "the source": BLUE, "the next row's source": VERMILLION}
TASK, BATCH = "frac_prevs", 64


def layers() -> list[list[str]]:
    """Returns the rows of packages of the import contract, from the top."""
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    rows = next(rule["layers"] for rule in rules if rule["type"] == "layers")
    return [[name.strip().removeprefix("interpbench.") for name in row.split("|")] for row in rows]


def imports() -> list[tuple[str, str]]:
    """Returns which package imports which, without what follows from the others."""
    modules, found = grimp.build_graph("interpbench", cache_dir=None), nx.DiGraph()
    for name in modules.modules:
        for imported in modules.find_modules_directly_imported_by(name):
            ends = [place.split(".")[1:2] for place in (name, imported)]
            if all(ends) and ends[0] != ends[1]:
                found.add_edge(ends[0][0], ends[1][0])
    return sorted(nx.transitive_reduction(found).edges)


def packages_figure() -> Figure:
    """Draws the packages."""
    rows, figure = layers(), Figure(figsize=(8.2, 9.6))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(-0.55, 4.55), ylim=(-len(rows) + 0.55, 0.45))
    axes.axis("off")
    where = {name: (PLACES.get(name, 0.0), -float(row)) for row, names in enumerate(rows) for name in names}
    for importer, imported in imports():
        (x, y), (to_x, to_y) = where[importer], where[imported]
        aside = float(np.clip((to_x - x) / 4, -0.36, 0.36))
        ends = (x + aside, y - 0.36), (to_x - aside, to_y + 0.36)
        style = {"mutation_scale": 11, "color": "0.45", "linewidth": 1.1, "shrinkA": 0, "shrinkB": 0}
        arrow = FancyArrowPatch(*ends, arrowstyle="-|>", **style)
        arrow.set_gid(f"{importer} imports {imported}")
        axes.add_patch(arrow)
    for name, (x, y) in where.items():
        box = FancyBboxPatch((x - 0.45, y - 0.34), 0.9, 0.68, boxstyle="round,pad=0,rounding_size=0.06")
        box.set(facecolor="#e8f1fa", edgecolor=BLUE, linewidth=1.2)
        axes.add_patch(box)
        axes.text(x, y + 0.18, name, ha="center", va="center", fontsize=13, weight="bold")
        axes.text(x, y - 0.11, PHRASES.get(name, ""), ha="center", va="center", fontsize=10.5, color="0.25")
    return figure


def first_batch() -> tuple[Batch, Sampler]:
    """Returns the first step of a training, and what drew it."""
    task = get_task(TASK)
    alignment = align(task, shape(task).graph)
    sampler = Sampler(alignment, find_truth(alignment), Recipe(draws=Draws(own_sources=1.0)), BATCH, 0)
    return sampler(0, "cpu"), sampler  # pyright: ignore[reportArgumentType]


def telling_row(batch: Batch) -> int:
    """Returns a row in which every world does something, with few edges patched."""
    assert batch.edges is not None
    nodes, edges = batch.nodes.numpy(), batch.edges.numpy().sum((0, 1))
    changed = (batch.targets[:, 1] != batch.targets[:, 2]).any(0).numpy()
    good = changed & (nodes[:, 2] == 1).any(0) & (nodes[:, 2] == 2).any(0) & (edges > 3) & (edges < 60)
    return int(np.flatnonzero(good)[0])


def row_figure() -> Figure:
    """Draws one row of the first step in all of its worlds."""
    batch, sampler = first_batch()
    row, graph = telling_row(batch), sampler.alignment.graph
    figure = Figure(figsize=(6.6, 9.0))
    vocabulary = [*sampler.task.vocab, "BOS", "PAD"]
    tokens, targets = batch.tokens[:, row].numpy(), batch.targets[:, :, row].numpy()
    axes = figure.add_axes((0.16, 0.88, 0.82, 0.10))
    axes.axis("off")
    axes.set(xlim=(-0.5, len(batch.worlds) - 0.5), ylim=(0, 1))
    axes.text(-0.62, 0.45, "tokens", ha="right", fontsize=10)
    axes.text(-0.62, 0.0, "targets", ha="right", fontsize=10)
    for place, name in enumerate(batch.worlds):
        axes.text(place, 0.95, name, ha="center", fontsize=11.5, weight="bold")
        read = " ".join(vocabulary[token] for token in tokens[place][1:])
        axes.text(place, 0.45, read, ha="center", fontsize=11, family="monospace")
        said = " ".join(f"{value:.2g}" for value in targets[:, place])
        axes.text(place, 0.0, said, ha="center", fontsize=9.5, color="0.3")
    axes = figure.add_axes((0.16, 0.55, 0.82, 0.285))
    _grid(axes, batch.nodes[:, :, row].numpy(), list(map(str, graph.nodes)))
    axes.set_title("What each node writes there is taken from …", fontsize=10.5, loc="left")
    axes.set_xticks([])
    axes = figure.add_axes((0.16, 0.13, 0.82, 0.36))
    assert batch.edges is not None and batch.edge_sources is not None
    patched = batch.edges[:, :, row].numpy() * (1 + batch.edge_sources[..., row].numpy())
    _grid(axes, np.where(graph.legal, patched, 3).T, list(map(str, graph.nodes)))
    title = "… and in edge_strict, what each reader (column) sees of each node (row)"
    axes.set_title(title, fontsize=10.5, loc="left")
    readers = list(map(str, graph.readers))
    axes.set_xticks(np.arange(len(readers)) + 0.5, readers, rotation=90, fontsize=8.5)
    kinds = [Patch(facecolor=colour, edgecolor="0.6", label=kind) for kind, colour in SOURCES.items()]
    kinds.append(Patch(facecolor="0.85", edgecolor="0.85", label="no edge"))
    figure.legend(handles=kinds, loc="lower center", ncols=4, frameon=False, fontsize=9.5, columnspacing=1.2)
    return figure


def _grid(axes: Axes, values: np.ndarray, names: list[str]) -> None:
    """Draws cells of four kinds."""
    colours = ListedColormap([*SOURCES.values(), "0.85"])
    rows, columns = values.shape
    axes.pcolormesh(values, cmap=colours, vmin=-0.5, vmax=3.5, edgecolors="0.8", linewidth=0.6)
    axes.set(xlim=(0, columns), ylim=(rows, 0))
    axes.set_yticks(np.arange(rows) + 0.5, names, fontsize=8.5)
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_color("0.8")


def draw(folder: Path) -> None:
    """Writes both pictures."""
    settings = {"svg.fonttype": "none", "svg.hashsalt": "interpbench", "font.family": "sans-serif"}
    with mpl.rc_context(settings):
        for name, figure in (("packages", packages_figure()), ("training_row", row_figure())):
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else OUT)
