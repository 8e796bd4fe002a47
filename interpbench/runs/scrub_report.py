"""What causal scrubbing says of a network: the report, its files, and how it is shown."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter
from rich.console import Console

from interpbench.core.files import write_json, write_text
from interpbench.reports.scrubbing_page import PathInput, scrubbing_page
from interpbench.reports.tables import rows_table
from interpbench.scrubbing.path_draws import Sampling
from interpbench.scrubbing.recovered import Recovered
from interpbench.scrubbing.refine import Refinement
from interpbench.scrubbing.vacuity import ClaimReport, NegativeTest

log = logging.getLogger(__name__)
SHOWN, LARGE = 12, 0.5
"""The number of refinements that are shown, and the change, in percent, from which on they are."""


@dataclass(frozen=True)
class ScrubReport:
    """What scrubbing says of a network.

    Attributes:
        task: the name of the task.
        inputs: the number of inputs.
        samples: the number of samples of each number.
        paths: the number of paths of each hypothesis that is run path by path.
        results: what is recovered, by hypothesis and by how unimportant parents are resampled.
        claims: how much each claim of the strongest hypothesis says, by node.
        negative: the negative test of each node that carries variables.
        example: the inputs of the first sample of the strongest hypothesis that is run path by path.
        refinements: what each further feature of each claim changes, the largest change first.
    """

    task: str
    inputs: int
    samples: int
    paths: dict[str, int]
    results: dict[str, dict[Sampling, Recovered]]
    claims: dict[str, ClaimReport]
    negative: dict[str, NegativeTest]
    example: tuple[PathInput, ...] = ()
    refinements: tuple[Refinement, ...] = ()

    def save_page(self, path: str | Path) -> None:
        """Writes a page with what is recovered, and the inputs of one sample on all paths."""
        title = f"Causal scrubbing of {self.task}"
        write_text(Path(path), scrubbing_page(title, self.results, self.example))

    def save(self, path: str | Path) -> None:
        """Writes the report as JSON."""
        write_json(Path(path), TypeAdapter(ScrubReport).dump_python(self, mode="json"))


def show_report(console: Console, report: ScrubReport) -> None:
    """Prints a report."""
    console.print(rows_table([_result(name, report) for name in report.results]))
    first = next(iter(next(iter(report.results.values())).values()))
    log.info(
        "%s: %d inputs, %d samples; the loss of the network is %.4g, of its outputs on other inputs %.4g, of "
        "the best constant %.4g",
        *(report.task, report.inputs, report.samples),
        *(first.network.value, first.shuffled.value, first.constant),
    )
    if report.claims:
        console.print(rows_table([_claim(name, report) for name in reversed(report.claims)]))
        log.info(
            "a claim is vacuous where inputs are alone; one that survives other inputs' values says nothing"
        )
    if report.refinements:
        _show_refinements(console, report.refinements)


def _show_refinements(console: Console, refinements: Sequence[Refinement]) -> None:
    """Prints the refinements that change much, or that none does."""
    large = [one for one in refinements if abs(one.difference) >= LARGE]
    if large:
        console.print(rows_table([_refinement(one) for one in large[:SHOWN]]))
        log.info("a feature that changes much in a claim is one that the hypothesis has left out")
        return
    most = max(abs(one.difference) for one in refinements)
    log.info(
        "none of %d further features of claims changes what is recovered by more than %.2g %%",
        len(refinements),
        most,
    )


def _result(name: str, report: ScrubReport) -> dict[str, object]:
    row: dict[str, object] = {"hypothesis": name, "paths": report.paths.get(name)}
    row |= {f"% ({sampling})": percent(one) for sampling, one in report.results[name].items()}
    first = next(iter(report.results[name].values()))
    return row | {"loss": round(first.scrubbed.value, 4), "answers changed": round(first.changed.value, 4)}


def _claim(name: str, report: ScrubReport) -> dict[str, object]:
    one, test = report.claims[name], report.negative.get(name)
    row: dict[str, object] = {"claim about": name, "inputs alone": round(one.alone, 3)}
    row["effective class"] = round(one.effective_size, 1)
    row["% with others' values"] = "–" if one.permuted is None else f"{one.permuted.value:.1f}"
    row["of another class: right"] = "–" if test is None else f"{test.right.value:.3f}"
    row["of which it matters"] = "–" if test is None else f"{test.matters:.3f}"
    row["of its class: right"] = "–" if test is None else f"{test.kept.value:.3f}"
    return row


def percent(one: Recovered) -> str:
    """Returns the percentage of the loss that is recovered, with its interval, or a dash."""
    if one.percent is None:
        return "–"
    value, low, high = (f"{number:.1f}" for number in (one.percent.value, *one.percent.ends))
    return value if low == value == high else f"{value} [{low}, {high}]"


def _refinement(one: Refinement) -> dict[str, object]:
    after = "–" if one.percent is None else f"{one.percent.value:.1f}"
    return {
        "claim about": one.claim,
        "with feature": one.feature,
        "% recovered": after,
        "change": f"{one.difference:+.1f}",
    }
