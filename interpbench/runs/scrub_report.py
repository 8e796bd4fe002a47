"""What causal scrubbing says of a network: the report, its files, and how it is shown."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter
from rich.console import Console

from interpbench.core.files import write_json, write_text
from interpbench.reports.scrubbing_page import interval, scrubbing_page
from interpbench.reports.scrubbing_picture import ScrubbedSample
from interpbench.reports.tables import rows_table
from interpbench.scrubbing.path_draws import Sampling
from interpbench.scrubbing.recovered import Recovered
from interpbench.scrubbing.scrub_adversary import Refinement
from interpbench.scrubbing.vacuity import ClaimReport, NegativeTest

log = logging.getLogger(__name__)
SHOWN, LARGE = 12, 0.5
"""The number of refinements that are shown, and the change, in percent, from which on they are."""
VACUOUS = 0.9
"""The share of inputs that agree with no other from which on a claim is vacuous."""


@dataclass(frozen=True)
class ScrubReport:
    """What scrubbing says of a network.

    Attributes:
        task: the name of the task.
        inputs: the number of inputs.
        samples: the number of samples of each number.
        paths: the number of paths of each hypothesis that is run path by path.
        results: what is recovered, by hypothesis and by how unimportant parents are resampled.
        claims: how much each claim about values of the strongest hypothesis says, unimportant parents being
            resampled by `node`.
        negative: the negative test of each node that carries variables.
        single: what is recovered if a single claim about values exchanges inputs (and all else is `exact`).
        example: the inputs of one sample of the strongest hypothesis that is run path by path; None if it has
            too many paths.
        refinements: by how many percentage points each refinement changes what is recovered, unimportant
            parents being resampled by `node`; the largest change first.
    """

    task: str
    inputs: int
    samples: int
    paths: dict[str, int]
    results: dict[str, dict[Sampling, Recovered]]
    claims: dict[str, ClaimReport]
    negative: dict[str, NegativeTest]
    single: dict[str, Recovered]
    example: ScrubbedSample | None = None
    refinements: tuple[Refinement, ...] = ()

    def save_page(self, path: str | Path) -> None:
        """Writes a page: what is recovered, the hypothesis, and the inputs of one sample on all paths."""
        permuted = {name: claim.permuted for name, claim in self.claims.items()}
        title = f"Causal scrubbing of {self.task}"
        write_text(Path(path), scrubbing_page(title, self.results, self.single, permuted, self.example))

    def save(self, path: str | Path) -> None:
        """Writes the report as JSON."""
        write_json(Path(path), TypeAdapter(ScrubReport).dump_python(self, mode="json"))


def show_report(console: Console, report: ScrubReport, refined: bool = False) -> None:
    """Prints a report.

    Args:
        console: where to.
        report: the report.
        refined: whether refinements were asked for.
    """
    console.print(rows_table([_result(name, report) for name in report.results]))
    first = next(iter(next(iter(report.results.values())).values()))
    log.info(
        "%s: %d inputs, %d samples; the loss of the network is %.4g, of its outputs on other inputs %.4g, of "
        "the best constant %.4g",
        *(report.task, report.inputs, report.samples),
        *(first.network.value, first.shuffled.value, first.constant),
    )
    _show_undefined(report)
    for name, by_sampling in report.results.items():
        if (pool := next(iter(by_sampling.values())).pool) is not None:
            log.info(
                "%s: %s paths draw from pools of K = %d scrubbed values of each input; numbers are biased by "
                "the order of pairs of paths / (K c), with c inputs in a class",
                *(name, f"{report.paths[name]:,}", pool),
            )
    if report.claims:
        console.print(rows_table([_claim(name, report) for name in reversed(report.claims)]))
        log.info(
            "a claim is vacuous where inputs are alone; one that survives other inputs' values says nothing"
        )
    vacuous = [f"{name} ({one.alone:.0%})" for name, one in report.claims.items() if one.alone >= VACUOUS]
    if vacuous:
        log.info(
            "vacuous, as at least %.0f %% of the inputs agree with no other: %s",
            *(100 * VACUOUS, ", ".join(reversed(vacuous))),
        )
    if refined:
        _show_refinements(console, report.refinements)


def _show_undefined(report: ScrubReport) -> None:
    """Says why percentages are not defined, a line for each reason."""
    reasons: dict[str, list[str]] = {}
    for name, by_sampling in report.results.items():
        for sampling, one in by_sampling.items():
            if one.percent is None:
                reasons.setdefault(one.why, []).append(f"{name} ({sampling})")
    for why, where in reasons.items():
        log.info("%% recovered is not defined for %s: %s", ", ".join(where), why)


def _show_refinements(console: Console, refinements: Sequence[Refinement]) -> None:
    """Prints the refinements that change much, or that none does."""
    if not refinements:
        log.info("no refinement was tried: nothing is without a claim, or there are too many paths")
        return
    large = [one for one in refinements if abs(one.change.value) >= LARGE]
    if large:
        console.print(rows_table([_refinement(one) for one in large[:SHOWN]]))
        log.info("what changes much, in either direction, is something that the hypothesis has left out")
        return
    log.info(
        "none of %d refinements changes what is recovered (node) by more than %.2g %%",
        *(len(refinements), abs(refinements[0].change.value)),
    )


def _result(name: str, report: ScrubReport) -> dict[str, object]:
    row: dict[str, object] = {"hypothesis": name, "paths": report.paths.get(name)}
    row |= {f"% ({sampling})": percent(one) for sampling, one in report.results[name].items()}
    sampling, first = next(iter(report.results[name].items()))
    return row | {
        f"loss ({sampling})": round(first.scrubbed.value, 4),
        "distance": round(first.distance.value, 4),
        "answers changed": round(first.changed.value, 4),
    }


def _claim(name: str, report: ScrubReport) -> dict[str, object]:
    one, test, single = report.claims[name], report.negative.get(name), report.single.get(name)
    row: dict[str, object] = {"claim about": name, "inputs alone": round(one.alone, 3)}
    row["effective class"] = round(one.effective_size, 1)
    row["% by itself (exact)"] = interval(None if single is None else single.percent)
    row["% with others' values (node)"] = interval(one.permuted)
    if test is not None:
        row["of another class: right"] = f"{test.right.value:.3f}"
        row["of which it matters"] = f"{test.matters:.3f}"
        row["of its class: right"] = f"{test.kept.value:.3f}"
    return row


KINDS = {"feature": "a claim's values", "node": "a node without a claim", "edges": "all edges from a node"}
"""What is new in each kind of refinement, in words."""


def percent(one: Recovered) -> str:
    """Returns the percentage of the loss that is recovered, with its interval, or a dash."""
    return interval(one.percent)


def _refinement(one: Refinement) -> dict[str, object]:
    return {
        "what is new": KINDS[one.kind],
        "claim about": one.claim,
        "feature": one.feature or "–",
        "inputs alone": round(one.alone, 3),
        "change of % (node)": interval(one.change),
    }
