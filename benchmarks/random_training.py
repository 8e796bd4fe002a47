"""Does the default recipe certify random programs? The table of `docs/random_programs.md`.

A run counts as certified if its certificate reaches the grade that training asks for, and as *in time* if
training and certificate took no more than ten CPU minutes together. Each run that is not certified is listed
with what its certificate says.

Run: `python train.py -m 'task=random_rasp[seed=0],random_rasp[seed=1]'`, which trains two of them, and so on
for as many as are wanted. Then `python -m benchmarks.random_training runs/*/trained-*`.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.stats import binomtest

from interpbench.checkpoints.format import Checkpoint
from interpbench.checkpoints.load import load_checkpoint
from interpbench.circuits.grades import Grade
from interpbench.core.files import write_text
from interpbench.reports.models_page import END, put

PAGE = Path("docs/random_programs.md")
BEGIN = "<!-- made by `python -m benchmarks.random_training` -->"
MINUTES = 10
"""The CPU minutes that a network may take, its certificate counted."""
LEAST: Grade = "siit+edges"
METRICS = "metrics.jsonl"
VALIDATED = {
    "accuracy": "of rows",
    "iia": "at the worst swap of an aligned node",
    "siia": "of another one",
    "edges": "of edges",
}
"""The rates of a validation."""


def passed(one: Checkpoint) -> bool:
    """Returns whether a network is certified."""
    verdict = one.verdict()
    return verdict is not None and verdict.reaches(LEAST)


def reason(one: Checkpoint) -> str:
    """Returns, in words, what most keeps a network from being certified.

    At the end of a schedule nothing is measured that the last validation shows to be out of reach.
    """
    verdict = one.verdict()
    if verdict is None:
        return "no certificate was measured"
    first = verdict.missed(LEAST)[0]
    if not first.endswith("not measured"):
        return first
    last = json.loads((one.folder / METRICS).read_text().splitlines()[-1])
    rates = ", ".join(f"{last[key]:.3f} {said}" for key, said in VALIDATED.items())
    return f"the last validation is right on {rates}; worst: {last['worst']}"


def settings_of(task: str) -> str:
    """Returns a task without its seed."""
    name, _, inside = task.rstrip("]").partition("[")
    told = [each for each in inside.split(",") if each and not each.startswith("seed=")]
    return f"{name}[{','.join(told)}]" if told else name


def table(found: Sequence[Checkpoint]) -> str:
    """Returns the table: a row for each kind of program, then what was not certified."""
    kinds: dict[str, list[Checkpoint]] = defaultdict(list)
    for one in found:
        kinds[settings_of(one.task)].append(one)
    rows = [
        "| task | seeds | certified | in time | steps | CPU minutes |",
        "| --- | --: | --: | --: | --: | --: |",
    ]
    failures: list[str] = []
    for kind, members in sorted(kinds.items()):
        certified = [one for one in members if passed(one)]
        spent = np.array([one.record.cpu_seconds for one in members]) / 60
        timely = [one for one in certified if one.record.cpu_seconds <= 60 * MINUTES]
        ends = binomtest(len(timely), len(members)).proportion_ci()
        steps = np.median([one.record.steps for one in certified] or [0])
        share = f"{len(timely) / len(members):.0%} ({ends.low:.0%} to {ends.high:.0%})"
        rows.append(
            f"| `{kind}` | {len(members)} | {len(certified)} | {len(timely)}, {share} | {steps:,.0f} "
            f"| {np.median(spent):.1f} ({spent.min():.1f} to {spent.max():.1f}) |"
        )
        failures += [
            f"* `{one.task}`, {one.record.steps:,} steps: {reason(one)}."
            for one in members
            if one not in certified
        ]
    said = ["", "Not certified:", "", *failures] if failures else []
    return "\n".join([*rows, *said])


def kept(page: str) -> str:
    """Returns what was made of a page's part of this benchmark before."""
    return page.partition(BEGIN)[2].partition(END)[0].strip("\n")


def main() -> None:
    """Reads the runs, and writes the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path, help="the folders of runs")
    found = [load_checkpoint(folder) for folder in sorted(parser.parse_args().runs)]
    write_text(PAGE, put(PAGE.read_text(), table(found), BEGIN))


if __name__ == "__main__":
    main()
