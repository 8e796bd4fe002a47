"""Whether causal tracing finds facts whose place is certified: the table of `docs/masked_lm.md`.

Three encoders fill in the language of a country at a mask. Their certificates say where it is looked up: by
an MLP at the country, by an MLP at the mask, or by a head on the way. Each is written as a BERT and traced
like any other, on one prompt for each country.

Run: `python -m benchmarks.known_facts`.
"""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from interpbench.core.files import write_text
from interpbench.masked_lm import (
    CausalTracer,
    DatasetSpec,
    FactSpec,
    ModelSpec,
    TraceResult,
    generate_from_spec,
)
from interpbench.masked_lm.patch_sites import SITES
from interpbench.reports.models_page import put
from interpbench.runs.export import export_bert
from interpbench.tasks.handwritten.fact_recall import COUNTRIES, LANGUAGE_OF

PLACES = {
    "fact_in_early_mlp": "MLP of layer 0, at the country",
    "fact_in_late_mlp": "MLP of layer 1, at the mask",
    "fact_in_head": "head 2 of layer 1, to the mask",
}
"""The place of the fact in each network, as its certificate says."""
PAGE = Path("docs/masked_lm.md")
BEGIN = "<!-- made by `python -m benchmarks.known_facts` -->"
CURVES = {"mask": "mask_patch", "country": "context_patch"}


def facts() -> list[FactSpec]:
    """Returns a fact for each country; the corrupted prompt has the next one with another language."""
    found: list[FactSpec] = []
    for place, country in enumerate(COUNTRIES):
        turned = [*COUNTRIES[place:], *COUNTRIES[:place]]
        other = next(name for name in turned if LANGUAGE_OF[name] != LANGUAGE_OF[country])
        home = next(name for name in reversed(turned) if name not in (country, other))
        template = f"she lives in {home} , but in {{}} people speak [MASK] ."
        found.append(FactSpec(country, other, template, LANGUAGE_OF[country], country, other))
    return found


def traced(task: str, folder: Path) -> TraceResult:
    """Returns what tracing a released network gives."""
    export_bert(task, folder)
    model = ModelSpec(task, str(folder))
    spec = DatasetSpec("languages", "what people speak", [model], facts(), [("", "")], str(folder / "out"))
    rows, _ = generate_from_spec(spec, folder / "out")
    return CausalTracer(task, str(folder), local_files_only=True).trace(rows)


def lines(task: str, result: TraceResult) -> Iterator[str]:
    """Yields the rows of a network: what each site restores at each place, by layer."""
    for site in SITES:
        for place, curve in CURVES.items():
            values = [f"{one.value:.3f}".replace("-0.000", "0.000") for one in result.curve(curve, site)]
            layer, most = result.peak_layer(curve, site)
            peak = f"layer {layer}" if most > 0.5 * result.clean_minus_corrupt else "–"
            yield f"| `{task}` | {PLACES[task]} | {site} | {place} | {' | '.join(values)} | {peak} |"


def table() -> str:
    """Returns the table."""
    rows = [
        "| network | the fact is in | site | patched at | layer 0 | layer 1 | peak, if it is half of all |",
        "| --- | --- | --- | --- | --: | --: | --- |",
    ]
    best: list[str] = []
    for task in PLACES:
        with TemporaryDirectory() as folder:
            result = traced(task, Path(folder))
        rows += lines(task, result)
        heads = result.head_map()
        value, layer, head = max(
            (one.value, layer, head) for layer, row in enumerate(heads) for head, one in enumerate(row)
        )
        best.append(f"`{task}`: a{layer}.h{head} ({value:.3f} of {result.clean_minus_corrupt:.3f})")
    return "\n".join([*rows, "", f"The single head that restores most at the mask: {'; '.join(best)}."])


def main() -> None:
    """Traces all networks, and writes the table."""
    write_text(PAGE, put(PAGE.read_text(), table(), BEGIN))


if __name__ == "__main__":
    main()
