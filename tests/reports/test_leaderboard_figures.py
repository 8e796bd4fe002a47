"""What the figures of a leaderboard draw are the numbers of its rows, read here without the board's help."""

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations, pairwise, product
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from interpbench.reports import leaderboard_figures
from interpbench.reports.leaderboard_figures import draw_figures
from interpbench.reports.palette import BLUE
from interpbench.runs.leaderboard_files import read_board
from interpbench.scoring.comparison import mean_interval
from interpbench.scoring.leaderboard_data import Board
from interpbench.scoring.leaderboard_rows import BOARD
from interpbench.scoring.results import RunCost
from tests import ROOT
from tests.evaluation_records import REQUIRED, board, record

MODELS = ("x", "y", "z")
NOISE = {"sharp": 0.3, "blunt": 1.0, "cheap": 1.5, "dull": 4.0}
"""Methods and how noisy their scores are."""
PASSES = {"sharp": 4000, "blunt": 900, "cheap": 10, "dull": 2000}


@pytest.fixture(scope="module")
def noisy() -> Board:
    """Four methods on three models, one of them a baseline and one not run on the last model."""
    records = []
    for method, model in product(NOISE, MODELS):
        rng = np.random.default_rng(len(records))
        scores = REQUIRED + NOISE[method] * rng.normal(size=REQUIRED.shape)
        cost = RunCost(1, PASSES[method] + len(records), 0, 0)
        records.append(replace(record(model, method, scores), cost=cost, baseline=method == "dull"))
    return Board.of(one for one in records if (one.method, one.task) != ("blunt", "z"))


@pytest.fixture(scope="module")
def figures(noisy: Board) -> dict[str, Figure]:
    """The figures by name, as they are given to be saved."""
    found: dict[str, Figure] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leaderboard_figures, "save", lambda figure, path: found.update({path.stem: figure}))
        draw_figures(noisy, lambda name: Path(name))
    return found


def aurocs(noisy: Board, method: str) -> dict[str, float]:
    levels = {one.task: one.levels["qkv_edge"] for one in noisy.rows if one.method == method}
    return {task: level.metrics["auroc"].value for task, level in levels.items()}


def ordered(noisy: Board) -> list[str]:
    """The methods, the best mean first."""
    return sorted(NOISE, key=lambda method: -np.mean(list(aurocs(noisy, method).values())))


def lines(axes: Axes, wanted: Callable[[Line2D], bool]) -> list[Line2D]:
    return [line for line in axes.lines if wanted(line)]


def marked(axes: Axes, marker: str) -> list[Line2D]:
    return lines(axes, lambda line: line.get_marker() == marker)


def labels(ticks: list) -> list[str]:  # type: ignore[type-arg]
    return [tick.get_text() for tick in ticks]


def test_all_figures_are_drawn_and_of_nothing_none(figures: dict[str, Figure], tmp_path: Path) -> None:
    assert list(figures) == ["scores", "pairs", "cost", "tasks", "roc"]
    draw_figures(Board(()), lambda name: tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_dots_are_means_and_ticks_are_models(noisy: Board, figures: dict[str, Figure]) -> None:
    axes = figures["scores"].axes[0]
    methods = ordered(noisy)
    assert labels(axes.get_yticklabels()) == methods
    for place, method in enumerate(methods):
        values = aurocs(noisy, method)
        (ticks,) = [line for line in marked(axes, "|") if line.get_ydata()[0] == place]
        assert sorted(ticks.get_xdata()) == pytest.approx(sorted(values.values()))
        (dot,) = [line for line in marked(axes, "o") if line.get_ydata()[0] == place]
        assert dot.get_xdata()[0] == pytest.approx(np.mean(list(values.values())))
        assert (dot.get_markerfacecolor() == "white") == (method == "dull")
        (line,) = [one for one in marked(axes, "None") if list(one.get_ydata()) == [place, place]]
        assert tuple(line.get_xdata()) == mean_interval(list(values.values()), list(values)).ends
    precision = figures["scores"].axes[1]
    assert precision.get_title() == "average precision"
    drawn = {line.get_ydata()[0]: sorted(line.get_xdata()) for line in marked(precision, "|")}
    for place, method in enumerate(methods):
        levels = [one.levels["qkv_edge"] for one in noisy.rows if one.method == method]
        assert drawn[place] == pytest.approx(sorted(x.metrics["average_precision"].value for x in levels))


def test_pairs_are_differences_on_models_that_both_have(noisy: Board, figures: dict[str, Figure]) -> None:
    axes, methods = figures["pairs"].axes[0], ordered(noisy)
    differences, effects = (np.ma.filled(image.get_array(), np.nan) for image in axes.images)
    assert labels(axes.get_yticklabels()) == labels(axes.get_xticklabels()) == methods
    texts = {tuple(map(int, text.get_position())): text.get_text() for text in axes.texts}
    for row, column in product(range(len(methods)), repeat=2):
        first, second = (aurocs(noisy, methods[place]) for place in (row, column))
        moved = [first[model] - second[model] for model in first.keys() & second.keys()]
        if row < column:
            assert differences[row, column] == pytest.approx(np.mean(moved))
            size = f"{abs(np.mean(moved)):.2f}".replace("0.", ".")
            assert texts[column, row].strip("+−*") in (size, "0")
            assert np.isnan(effects[row, column])
        elif row > column:
            wins = [
                float(first[a] > second[b]) + (first[a] == second[b]) / 2
                for a, b in product(first.keys() & second.keys(), repeat=2)
            ]
            assert effects[row, column] == pytest.approx(np.mean(wins))
            assert np.isnan(differences[row, column])
    assert len(texts) == len(methods) * (len(methods) - 1)


def test_cost_is_mean_passes_and_the_frontier_is_not_beaten(noisy: Board, figures: dict[str, Figure]) -> None:
    axes = figures["cost"].axes[0]
    expected = {
        method: (
            np.mean([one.cost.passes for one in noisy.rows if one.method == method]),
            np.mean(list(aurocs(noisy, method).values())),
        )
        for method in NOISE
    }
    points = [(line.get_xdata()[0], line.get_ydata()[0], line) for line in marked(axes, "o")]
    assert sorted((x, y) for x, y, _ in points) == [pytest.approx(p) for p in sorted(expected.values())]
    blue = {(x, y) for x, y, line in points if to_hex(line.get_color()) == BLUE.lower()}
    for x, y, _ in points:
        beaten = any(a <= x and b >= y and (a, b) != (x, y) for a, b, _ in points)
        assert ((x, y) in blue) == (not beaten)
    assert len(blue) in (2, 3) and axes.get_xscale() == "log"
    assert {text.get_text() for text in axes.texts} == set(NOISE)


@pytest.mark.exhaustive
def test_names_beside_costs_cover_neither_each_other_nor_a_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the released leaderboard, on which many methods cost the same and score the same."""
    found: dict[str, Figure] = {}
    monkeypatch.setattr(leaderboard_figures, "save", lambda figure, path: found.update({path.stem: figure}))
    leaderboard_figures.cost_figure(read_board(ROOT / "docs" / BOARD), Path("cost"))
    figure = found["cost"]
    FigureCanvasAgg(figure).draw()
    (axes,) = figure.axes
    names = [text.get_window_extent() for text in axes.texts]
    points = [axes.transData.transform(line.get_xydata()[0]) for line in marked(axes, "o")]
    assert len(names) == len(points) > 10
    assert not [(a, b) for a, b in combinations(names, 2) if a.overlaps(b)]
    assert not [(name, point) for name, point in product(names, points) if name.contains(*point)]


def test_the_heat_map_holds_every_auroc_the_hardest_model_first(
    noisy: Board, figures: dict[str, Figure]
) -> None:
    axes, methods = figures["tasks"].axes[0], ordered(noisy)
    found = {method: aurocs(noisy, method) for method in methods}
    means = {m: np.mean([one[m] for one in found.values() if m in one]) for m in MODELS}
    models = sorted(MODELS, key=lambda model: means[model])
    assert labels(axes.get_yticklabels()) == models and labels(axes.get_xticklabels()) == methods
    values = np.ma.filled(axes.images[0].get_array(), np.nan)
    expected = [[found[method].get(model, np.nan) for method in methods] for model in models]
    np.testing.assert_allclose(values, expected)
    texts = {tuple(map(int, text.get_position())): text.get_text() for text in axes.texts}
    for (row, column), value in np.ndenumerate(np.array(expected)):
        text = texts[column, row]
        assert text == "–" if np.isnan(value) else float(text) == pytest.approx(value, abs=0.006)


def test_roc_curves_are_those_of_the_rows_and_the_thick_one_is_their_mean(
    noisy: Board, figures: dict[str, Figure]
) -> None:
    panels = {axes.get_title(loc="left"): axes for axes in figures["roc"].axes if axes.get_title(loc="left")}
    assert list(panels) == ordered(noisy)
    for method, axes in panels.items():
        curves = [one.levels["qkv_edge"].roc for one in noisy.rows if one.method == method]
        thin = lines(axes, lambda line: line.get_alpha() == 0.25)
        assert [tuple(zip(*line.get_data())) for line in thin] == curves
        (thick,) = lines(axes, lambda line: line.get_linewidth() == 1.8)
        for x, height in zip(*thick.get_data()):
            if x not in {corner for curve in curves for corner, _ in curve}:  # else it is vertical there
                assert height == pytest.approx(
                    np.mean([literal_height(curve, x) for curve in curves]), abs=1e-6
                )
        mean = np.mean(list(aurocs(noisy, method).values()))
        assert [text.get_text() for text in axes.texts] == [f"{mean:.3f}"]


def literal_height(curve: tuple[tuple[float, float], ...], x: float) -> float:
    """The height of a curve of straight lines at a place between its corners."""
    ((x0, y0), (x1, y1)) = next((a, b) for a, b in pairwise(curve) if a[0] < x < b[0])
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0)


def test_models_that_are_left_out_are_in_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, Figure] = {}
    monkeypatch.setattr(leaderboard_figures, "save", lambda figure, path: found.update({path.stem: figure}))
    draw_figures(board(), lambda name: Path(name))
    assert set(labels(found["tasks"].axes[0].get_yticklabels())) == {"x", "y"}
    assert all(len(line.get_xdata()) == 2 for line in marked(found["scores"].axes[0], "|"))
