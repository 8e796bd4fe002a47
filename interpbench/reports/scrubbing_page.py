"""One self-contained HTML page of a scrubbed network: what is recovered, the hypothesis, and one sample."""

from collections.abc import Mapping, Sequence
from importlib.resources import files

from interpbench.core.estimate import Estimate
from interpbench.reports.scrubbing_picture import (
    PathInput,
    ScrubbedSample,
    leaf_count,
    network_svg,
    paths_svg,
    said,
)
from interpbench.scrubbing.path_draws import PATH, Sampling
from interpbench.scrubbing.recovered import Recovered

MOST_LEAVES = 150
"""The largest number of paths beside each other that are drawn; more are only listed."""
HEADS = ("", "", "% [95 % interval]", "loss", "best constant", "distance")


def interval(one: Estimate | None, digits: int = 1) -> str:
    """Returns a number with its interval, if it has a width; a dash for None.

    Args:
        one: the number.
        digits: the number of digits after the point.
    """
    if one is None:
        return "–"
    value, low, high = (f"{number:.{digits}f}" for number in (one.value, *one.ends))
    return value if low == value == high else f"{value} [{low}, {high}]"


def scrubbing_page(
    title: str,
    results: Mapping[str, Mapping[Sampling, Recovered]],
    single: Mapping[str, Recovered],
    permuted: Mapping[str, Estimate | None],
    sample: ScrubbedSample | None,
) -> str:
    """Returns the page.

    Args:
        title: what was scrubbed.
        results: what is recovered, by hypothesis and by how unimportant parents are resampled.
        single: what is recovered if a single claim exchanges inputs and all else stays, by claim.
        permuted: the percentage that is recovered with a claim's values of other inputs, by claim.
        sample: the sample that is shown; None if no hypothesis was run path by path.
    """
    style = files("interpbench.reports").joinpath("scrubbing_page.css").read_text(encoding="utf-8")
    rows = [_row((name, sampling), one) for name, ways in results.items() for sampling, one in ways.items()]
    shown = "<p>No hypothesis was run path by path.</p>" if sample is None else _sample(sample)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{said(title)}</title><style>
{style}</style></head><body>
<h1>{said(title)}</h1>
<p>The percentage of the loss that is recovered, from 0 to 100, with its interval in orange; and how far
outputs are from the network's own.</p>
{_table(("hypothesis", "resampled"), rows)}
{_claims(single, permuted)}
{shown}</body></html>
"""


def _claims(single: Mapping[str, Recovered], permuted: Mapping[str, Estimate | None]) -> str:
    """Returns the bars of claims, each on its own; nothing without claims about values."""
    if not single:
        return ""
    rows = [_row((name, interval(permuted.get(name))), one) for name, one in single.items()]
    return f"""<h2>Claim by claim</h2>
<p>Here a single node gets what it writes on an input that agrees on its claim, and all else is as it was
(<i>exact</i>). A claim that recovers as much with the values of other inputs, resampled by <i>node</i>, says
nothing.</p>
{_table(("claim about", "% with others’ values"), rows)}"""


def _table(first: Sequence[str], rows: Sequence[str]) -> str:
    heads = "".join(f"<th>{said(head)}</th>" for head in (*first, *HEADS[1:]))
    return f'<div class="scroll"><table><tr>{heads}</tr>\n{"".join(rows)}</table></div>'


def _row(names: Sequence[str], one: Recovered) -> str:
    bar, number = "", said(one.why)
    if one.percent is not None:
        value, low, high = (min(100.0, max(0.0, each)) for each in (one.percent.value, *one.percent.ends))
        ends = f"left:{low:.1f}%;width:{max(high - low, 0.3):.1f}%"
        bar = f'<div class="bar"><i style="width:{value:.1f}%"></i><b style="{ends}"></b></div>'
        number = interval(one.percent)
    numbers = (f"{one.scrubbed.value:.4g}", f"{one.constant:.4g}", f"{one.distance.value:.4g}")
    cells = [*map(said, names), bar, number, *numbers]
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>\n"


def _sample(sample: ScrubbedSample) -> str:
    """Returns the hypothesis over the network, and the inputs of a sample on all paths."""
    changes = sum(one.changed for one in sample.inputs)
    drawn = f"<p>It has {leaf_count(sample)} paths beside each other, which are listed only.</p>"
    if leaf_count(sample) <= MOST_LEAVES:
        drawn = f'<div class="scroll">{paths_svg(sample)}</div>'
    return f"""<h2>The hypothesis over the network</h2>
<p>Nodes with a claim are blue, and the edges that are claimed are drawn, in the colour of the node that is
read. All else is claimed not to matter.</p>
<div class="scroll">{network_svg(sample)}</div>
<h2>Sample {sample.number}, path by path</h2>
<p>The same network, with a box for each path from the output: each node gets the input in its box, drawn
among those that agree on its claim with the input above. On {changes} of {len(sample.inputs) - 1} paths it is
another one, in orange. <i>Rest</i> is the input on which all else that the node reads takes its value.</p>
{drawn}
<details><summary>The same as a list, with values of claims and names of what does not matter</summary>
{_list(sample)}</details>
"""


def _list(sample: ScrubbedSample) -> str:
    """Returns the paths as nested lists."""
    children: dict[str, list[PathInput]] = {}
    for one in sample.inputs:
        children.setdefault(one.path.rpartition(PATH)[0], []).append(one)

    def listed(one: PathInput) -> str:
        name, same = one.path.rpartition(PATH)[2], "" if one.changed else ' class="same"'
        value = f" where its values are {said(one.agrees)}" if one.agrees else ""
        below = "".join(listed(child) for child in children.get(one.path, ()))
        return (
            f"<li><b>{said(name)}</b> <code{same}>{said(one.tokens)}</code>{value}{_rest(one, sample)}"
            f"{f'<ul>{below}</ul>' if below else ''}</li>"
        )

    return f"<ul>{listed(sample.inputs[0])}</ul>"


def _rest(one: PathInput, sample: ScrubbedSample) -> str:
    """Returns on which input all else that a node reads takes its value."""
    if not one.rest:
        return ""
    names = ", ".join(sample.unimportant.get(one.image, ()))
    return f'; <span class="same">on {said(one.rest)}: {said(names)}</span>'
