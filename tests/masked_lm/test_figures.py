"""The figures: their files, what is drawn, and published results without intervals."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import AxesImage

from interpbench.core.errors import TraceError
from interpbench.masked_lm import (
    TraceResult,
    plot_comparison,
    plot_heads,
    plot_heatmap,
    plot_patching_flow,
    plot_peak_bars,
)
from interpbench.masked_lm.trace_results import FactTrace

OLD = {"num_layers": 4, "mask_patch": [0.1, 0.5, 0.2, 0.0], "context_patch": [0.0, 0.0, 0.1, 0.0]}
"""A result with the published keys alone."""


def result(name: str, layers: int) -> TraceResult:
    """Returns a result whose peaks are in layer 1, of 0.3 for the MLP and 0.6 for attention."""
    curve = np.zeros(layers)
    curve[1] = 0.3
    facts = [
        FactTrace(
            fact=str(number),
            prompts=1,
            has_mask=True,
            clean=0.8,
            corrupt=0.1,
            restored={
                "mlp": {"mask": (curve + number / 100).tolist(), "context": curve.tolist()},
                "attn": {"mask": (2 * curve).tolist(), "context": curve.tolist()},
                "resid": {"mask": np.linspace(0, 0.7, layers).tolist(), "context": curve.tolist()},
            },
            heads=(np.arange(2 * layers).reshape(layers, 2) / 10).tolist(),
        )
        for number in (-1, 0, 1)
    ]
    return TraceResult(name, "x", facts)


RESULTS = {one.model_name: one for one in (result("short", 3), result("$long$", 5))}


def test_all_figures_are_written_the_same_from_results_and_from_json(tmp_path: Path) -> None:
    plain = {name: one.to_dict() for name, one in RESULTS.items()}
    for number, draw in enumerate((plot_comparison, plot_heatmap, plot_peak_bars, plot_heads)):
        first, second = tmp_path / f"{number}.png", tmp_path / f"{number}-json.png"
        draw(RESULTS, save_path=first)
        draw(plain, save_path=str(second))
        assert first.read_bytes().startswith(b"\x89PNG") and first.read_bytes() == second.read_bytes()
    plot_patching_flow(num_layers=12, highlighted_layer=7, save_path=tmp_path / "flow.png")
    assert (tmp_path / "flow.png").is_file()


def test_curves_have_a_panel_for_each_site_and_intervals() -> None:
    figure = plot_comparison(RESULTS, curve="mask_patch", title="A title")
    assert [axes.get_title() for axes in figure.axes] == [
        *("MLP", "attention", "residual stream, which carries all in the end")
    ]
    lines = figure.axes[0].lines
    assert (
        list(lines[0].get_ydata()) == pytest.approx([0, 0.3, 0], abs=1e-9) and len(lines[1].get_ydata()) == 5
    )
    band = figure.axes[0].collections[0].get_paths()[0].vertices[:, 1]
    assert band.min() < -0.004 and band.max() > 0.304
    assert figure.get_suptitle() == "A title"


def test_heat_maps_have_numbers_by_layer() -> None:
    (image,) = [
        one for axes in plot_heatmap(RESULTS).axes for one in axes.images if isinstance(one, AxesImage)
    ]
    table = np.ma.getdata(image.get_array())
    assert table.shape == (4, 5) and table[1, 1] == pytest.approx(0.6) and np.isnan(table[0, 3:]).all()
    heads = [one for axes in plot_heads(RESULTS).axes for one in axes.images if isinstance(one, AxesImage)]
    assert [np.shape(one.get_array()) for one in heads] == [(3, 2), (5, 2)]
    assert np.ma.getdata(heads[0].get_array())[2, 1] == pytest.approx(0.5)


def test_bars_are_the_peaks_and_never_of_the_residual_stream() -> None:
    axes = plot_peak_bars(RESULTS).axes[0]
    heights = [bar.get_height() for bar in axes.patches]
    assert heights == pytest.approx([0.3, 0.3, 0.6, 0.6])
    assert [text.get_text() for text in axes.texts] == ["layer 1"] * 4


def test_bars_of_flat_curves_name_no_layer() -> None:
    found = result("one", 3).to_dict()
    found["curves"]["mlp"]["mask_patch"] = [[1e-7, 0.0, 2e-7, "bootstrap"]] * 3
    said = [text.get_text() for text in plot_peak_bars({"one": found}).axes[0].texts]
    assert said[0] == "flat" and said[1].startswith("layer ")


def test_equal_curves_differ_in_dashes_and_marks() -> None:
    same = {name: result("one", 3) for name in ("one", "two", "three")}
    lines = plot_comparison(same).axes[0].get_lines()[:3]
    assert len({(line.get_linestyle(), line.get_marker()) for line in lines}) == 3
    assert lines[0].get_linewidth() > lines[2].get_linewidth(), "the one below is wider"


def test_published_results_are_drawn_without_intervals() -> None:
    old = {"old": OLD}
    assert [axes.get_title() for axes in plot_comparison(old, "context_patch").axes] == ["MLP"]
    assert [bar.get_height() for bar in plot_peak_bars(old).axes[0].patches] == [0.5]
    assert plot_heatmap(old).axes[0].images
    with pytest.raises(TraceError, match="no result has heads"):
        plot_heads(old)


def test_one_fact_is_drawn_without_an_interval() -> None:
    one = replace(RESULTS["short"], facts=RESULTS["short"].facts[:1])
    assert one.to_dict()["difference"] == [pytest.approx(0.7)]
    band = plot_comparison({"one": one}).axes[1].collections[0].get_paths()[0].vertices[:, 1]
    assert sorted(set(band)) == pytest.approx([0, 0.6])
    assert plot_heads({"one": one}).axes[0].images and plot_peak_bars({"one": one}).axes[0].patches


def test_what_is_not_there_is_said() -> None:
    with pytest.raises(TraceError, match="no result has the curve subject_patch"):
        plot_comparison(RESULTS, "subject_patch")
    with pytest.raises(TraceError, match="there is no layer 12 of 12"):
        plot_patching_flow(12, 12)
