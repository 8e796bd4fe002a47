"""What people read of traces: the figures, `report.md`, and one self-contained HTML page."""

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path

from interpbench.core.files import read_bytes, write_text
from interpbench.core.text import markdown, shown
from interpbench.masked_lm.fact_specs import DatasetSpec
from interpbench.masked_lm.interpretation import interpretation, restores, sections_of, told
from interpbench.masked_lm.patch_sites import COMPONENTS
from interpbench.masked_lm.trace_figures import (
    SITE_NAMES,
    plot_comparison,
    plot_heads,
    plot_heatmap,
    plot_patching_flow,
    plot_peak_bars,
)
from interpbench.masked_lm.trace_results import TraceResult

REPORT, PAGE = "report.md", "report.html"
"""The names of the files of the report, and of the same as a page."""
MOST_FIGURE = 1 << 24
"""The size of the largest figure that the page takes, in bytes."""
FIGURES = {
    "fig1_mask_patch.png": "Clean activations at the mask, by layer",
    "fig2_context_patch.png": "Clean activations at the context word, by layer",
    "fig3_flow.png": "How one clean activation is put into the corrupted run",
    "fig4_heatmap.png": "Layers and models at the mask",
    "fig5_peaks.png": "Peaks at the mask",
    "fig6_heads.png": "Heads at the mask",
}
"""The names of the files of figures, and what they show; the last is there if heads were patched."""
READING = (
    "p is the softmax probability of the target at the mask. A number is p of the corrupted prompt with one "
    "clean activation, less p of the corrupted prompt: what that activation restores.",
    "Layers and heads are counted from 0. In brackets: 95 % intervals of a bootstrap of facts. They are of "
    "one layer each, and the layer with the highest number is chosen, so that its number is rather too high.",
    "A peak is where a clean activation suffices. It is not proof that the fact is stored there, nor that "
    "nothing else is needed.",
)
"""The sentences that say how to read the numbers."""
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 66rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; } td, th { padding: .2rem .7rem; text-align: left; }
th { border-bottom: 1px solid #8888; } figure { margin: 1.5rem 0; } figcaption { opacity: .75; }
img { max-width: 100%; background: white; border-radius: 4px; }
"""


def write_reports(spec: DatasetSpec, results: Sequence[TraceResult], folder: Path) -> None:
    """Writes the figures, the report and the page of some results.

    Args:
        spec: what was traced.
        results: the results, one a model.
        folder: the folder to write to.
    """
    drawn = draw_figures(results, folder)
    write_text(folder / REPORT, _report(spec, results, drawn))
    write_text(folder / PAGE, _page(spec, results, folder, drawn))


def draw_figures(results: Sequence[TraceResult], folder: Path) -> list[str]:
    """Writes the figures of some results and returns the names of their files."""
    named = {result.model_name: result for result in results}
    mask, context, flow, heat, peaks, heads = (folder / name for name in FIGURES)
    plot_comparison(named, "mask_patch", save_path=mask)
    plot_comparison(named, "context_patch", save_path=context)
    first = results[0]
    best = max(first.components, key=lambda site: first.peak_layer("mask_patch", site)[1])
    plot_patching_flow(first.num_layers, first.peak_layer("mask_patch", best)[0], flow)
    plot_heatmap(named, heat)
    plot_peak_bars(named, peaks)
    if not any(result.facts[0].heads for result in results):
        heads.unlink(missing_ok=True)
        return list(FIGURES)[:-1]
    plot_heads(named, heads)
    return list(FIGURES)


def _rows(results: Sequence[TraceResult]) -> list[list[str]]:
    """Returns the table of models; the first row is its head, the first two cells of others are names."""
    head = ["model", "address", "layers", "facts", "prompts", "clean minus corrupted"]
    head += [f"peak of the {SITE_NAMES[site]}" for site in COMPONENTS]
    rows = [head]
    for result in results:
        cells = [str(number) for number in (result.num_layers, result.num_facts, result.num_prompts)]
        row = [result.model_name, result.model_id, *cells, told(result.difference)]
        for site in COMPONENTS:
            if site in result.sites:
                layer, _ = result.peak_layer("mask_patch", site)
                peak = result.curve("mask_patch", site)[layer]
                row.append(f"{f'layer {layer}' if restores(result, peak) else 'none'}: {told(peak)}")
            else:
                row.append("not patched")
        rows.append(row)
    return rows


def _report(spec: DatasetSpec, results: Sequence[TraceResult], figures: Sequence[str]) -> str:
    head, *rows = _rows(results)
    table = [head, ["---"] * len(head), *([*map(markdown, row[:2]), *row[2:]] for row in rows)]
    parts = [
        f"# Where facts are restored: {markdown(spec.domain)}",
        markdown(_one_line(spec.description)),
        "\n".join(f"| {' | '.join(row)} |" for row in table),
        "\n".join(f"- {line}" for line in READING),
        interpretation(results),
        "## Figures",
        *(f"![{FIGURES[name]}]({name})" for name in figures),
    ]
    return "\n\n".join(parts) + "\n"


def _page(spec: DatasetSpec, results: Sequence[TraceResult], folder: Path, figures: Sequence[str]) -> str:
    """Returns the page.

    Args:
        spec: what was traced.
        results: the results.
        folder: the folder with the figures.
        figures: the names of their files.
    """
    head, *rows = _rows(results)
    cells = "".join(f"<tr>{''.join(f'<td>{_said(cell)}</td>' for cell in row)}</tr>\n" for row in rows)
    texts = "".join(
        f"<h2>{title}</h2>\n{_list(lines)}" for title, lines in sections_of(results, _said).items()
    )
    pictures = "".join(
        f'<figure><img alt="{FIGURES[name]}" src="data:image/png;base64,{_encoded(folder / name)}">'
        f"<figcaption>{FIGURES[name]}</figcaption></figure>\n"
        for name in figures
    )
    title = f"Where facts are restored: {_said(spec.domain)}"
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>{title}</title><style>{STYLE}</style></head><body>
<h1>{title}</h1>
<p>{_said(_one_line(spec.description))}</p>
<table><tr>{"".join(f"<th>{name}</th>" for name in head)}</tr>
{cells}</table>
{_list(READING)}{texts}{pictures}</body></html>
"""


def _list(lines: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{line}</li>' for line in lines)}</ul>\n"


def _encoded(path: Path) -> str:
    return base64.b64encode(read_bytes(path, MOST_FIGURE)).decode()


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _said(text: str) -> str:
    return escape(shown(text))
