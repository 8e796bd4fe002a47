"""One self-contained HTML page of a scrubbed network: what is recovered, and the inputs of one sample."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from interpbench.core.text import printable
from interpbench.scrubbing.path_draws import PATH, Sampling
from interpbench.scrubbing.recovered import Recovered

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; } td, th { padding: .15rem .6rem; text-align: left; }
.bar { position: relative; width: 22rem; height: .9rem; background: #8882; }
.bar i { position: absolute; inset: 0 auto 0 0; background: #0072B2; }
.bar b { position: absolute; top: 40%; height: 20%; background: #D55E00; }
ul { list-style: none; border-left: 1px solid #8886; margin: 0 0 0 .4rem; padding-left: 1rem; }
code { background: #8882; padding: 0 .25rem; } .same { opacity: .55; }
"""


@dataclass(frozen=True)
class PathInput:
    """The input that a node gets on a path, in one sample.

    Attributes:
        path: the names of the claims from the output down to the node.
        tokens: the input.
        agrees: what the claim's value is on it, the same as on the input above; empty if all of it counts.
    """

    path: str
    tokens: str
    agrees: str = ""


def scrubbing_page(
    title: str, results: Mapping[str, Mapping[Sampling, Recovered]], example: Sequence[PathInput]
) -> str:
    """Returns the page.

    Args:
        title: what was scrubbed.
        results: what is recovered, by hypothesis and by how unimportant parents are resampled.
        example: the inputs of one sample on all paths, the output's first.
    """
    rows = [
        _row(name, sampling, one)
        for name, by_sampling in results.items()
        for sampling, one in by_sampling.items()
    ]
    tree = _tree(example) if example else "<p>No hypothesis was run path by path.</p>"
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{_said(title)}</title><style>{STYLE}</style></head><body>
<h1>{_said(title)}</h1>
<p>The percentage of the loss that is recovered, with its interval in orange, from 0 to 100.</p>
<table><tr><th>hypothesis</th><th>resampled</th><th></th><th>%</th><th>loss</th><th>best constant</th></tr>
{"".join(rows)}</table>
<h2>One sample</h2>
<p>The hypothesis from the output down. Each node gets the input beside it, drawn among those that agree on
its claim with the input above; pale where it is that input itself. Whatever is not listed takes its values on
another input still.</p>
{tree}</body></html>
"""


def _row(name: str, sampling: str, one: Recovered) -> str:
    ends = f"<td>{one.scrubbed.value:.4g}</td><td>{one.constant:.4g}</td></tr>\n"
    start = f"<tr><td>{_said(name)}</td><td>{_said(sampling)}</td>"
    if one.percent is None:
        return f"{start}<td>{_said(one.why)}</td><td>–</td>{ends}"
    value, low, high = (min(100.0, max(0.0, each)) for each in (one.percent.value, *one.percent.ends))
    bar = (
        f'<i style="width:{value:.1f}%"></i><b style="left:{low:.1f}%;width:{max(high - low, 0.3):.1f}%"></b>'
    )
    return f'{start}<td><div class="bar">{bar}</div></td><td>{one.percent.value:.1f}</td>{ends}'


def _tree(example: Sequence[PathInput]) -> str:
    """Returns the paths as nested lists."""
    children: dict[str, list[PathInput]] = {}
    for one in example:
        children.setdefault(one.path.rpartition(PATH)[0], []).append(one)

    def listed(above: PathInput) -> str:
        below = "".join(_item(one, above) + listed(one) for one in children.get(above.path, ()))
        return f"<ul>{below}</ul>" if below else ""

    return (
        f"<p><b>{_said(example[0].path)}</b> <code>{_said(example[0].tokens)}</code></p>{listed(example[0])}"
    )


def _item(one: PathInput, above: PathInput) -> str:
    same = ' class="same"' if one.tokens == above.tokens else ""
    value = f" where its values are {_said(one.agrees)}" if one.agrees else ""
    return (
        f"<li{same}><b>{_said(one.path.rpartition(PATH)[2])}</b> <code>{_said(one.tokens)}</code>{value}</li>"
    )


def _said(text: str) -> str:
    return escape(printable(text))
