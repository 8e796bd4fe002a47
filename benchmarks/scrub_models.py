"""Causal scrubbing of every network against its own program: the table in `docs/scrubbing.md`.

The networks are the released models, those in regimes, and those that Tracr compiles of all RASP tasks, with
512 inputs and 500 samples each. Numbers are in `docs/scrubbing.json`; what is there already is not measured
again, unless a model's weights have changed.

Run: `python -m benchmarks.scrub_models`; `--write` only writes the table.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from pydantic import JsonValue

from interpbench.alignment.alignment import align
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.checkpoints.checkpoint_files import in_regimes, released
from interpbench.checkpoints.load import load_checkpoint
from interpbench.core.errors import TaskError
from interpbench.core.files import read_json, write_json, write_text
from interpbench.core.process import prepare_torch
from interpbench.rasp.compile import compile_program
from interpbench.rasp.weights import compiled_network
from interpbench.reports.models_page import put
from interpbench.runs.scrub import POSITIONS, scrub_program
from interpbench.runs.scrub_report import ScrubReport
from interpbench.runs.subject import subject_of
from interpbench.scrubbing.program_claims import PROGRAM_LEVELS
from interpbench.tasks.catalogue import catalogue, get_task
from interpbench.tasks.task import RaspTask

NUMBERS, PAGE = Path("docs/scrubbing.json"), Path("docs/scrubbing.md")
BEGIN = "<!-- made by `python -m benchmarks.scrub_models` -->"
LEVELS = (*PROGRAM_LEVELS, POSITIONS)
FEW = {"inputs": 512, "samples": 500}
KINDS = {"released": "released", "regimes": "in regimes", "compiled": "compiled"}
ALL = 99.0
"""The percentage from which on the loss counts as recovered."""
VACUOUS = 0.9
"""The share of inputs that are alone from which on a claim is called vacuous."""


def measured(known: dict[str, dict[str, JsonValue]]) -> Iterator[tuple[str, dict[str, JsonValue]]]:
    """Yields the name of each network and its numbers.

    Args:
        known: the numbers that are there already.
    """
    for kind, models in (("released", released()), ("regimes", in_regimes())):
        for name, folder in models.items():
            key, checkpoint = f"{kind}/{name}", load_checkpoint(folder, certificate=False)
            if known.get(key, {}).get("weights") == checkpoint.record.sha256[:12]:
                continue
            subject = subject_of(checkpoint)
            report = scrubbed(checkpoint.network, subject.alignment, subject.truth.circuit)
            yield key, {"weights": checkpoint.record.sha256[:12], **numbers(report)}
    for name in catalogue():
        task = get_task(name)
        if f"compiled/{name}" in known or not isinstance(task, RaspTask):
            continue
        task = replace(task, alignment={})  # variables are where Tracr places them
        network = compiled_network(compile_program(task.program))
        alignment = align(task, network.cfg.graph)
        circuit = find_truth(alignment).circuit
        yield f"compiled/{name}", {"weights": "", **numbers(scrubbed(network, alignment, circuit))}


def scrubbed(network, alignment, circuit) -> ScrubReport | str:
    """Returns the report on a network, or why there is none."""
    try:
        return scrub_program(network, alignment, circuit, samplings=("node",), **FEW)
    except TaskError as error:
        return str(error)


def numbers(report: ScrubReport | str) -> dict[str, JsonValue]:
    """Returns what is kept of a report."""
    if isinstance(report, str):
        return {"why": report}
    found: dict[str, JsonValue] = {"levels": {}, "why": ""}
    for level in LEVELS:
        one = report.results[level]["node"]
        ends = [] if one.percent is None else [one.percent.value, *one.percent.ends]
        found["levels"][level] = [round(each, 3) for each in ends]
    first = report.results["features"]["node"]
    found |= {
        "loss": float(f"{first.scrubbed.value:.4g}"),
        "network": float(f"{first.network.value:.4g}"),
        "constant": float(f"{first.constant:.4g}"),
        "changed": round(report.results[POSITIONS]["node"].changed.value, 4),
        "paths": report.paths["features"],
        "claims": {name: round(claim.alone, 3) for name, claim in report.claims.items()},
        "permuted": {
            name: None if claim.permuted is None else round(claim.permuted.value, 1)
            for name, claim in report.claims.items()
        },
        "right": {name: round(test.right.value, 4) for name, test in report.negative.items()},
    }
    return found


def summary(found: dict[str, dict[str, JsonValue]]) -> str:
    """Returns the table of how many networks recover their loss."""
    lines = [
        f"| networks | number | {' | '.join(LEVELS)} | vacuous claims | survive others' values |",
        f"| --- | --: |{' --: |' * (len(LEVELS) + 2)}",
    ]
    for kind, title in KINDS.items():
        rows = [one for name, one in found.items() if name.startswith(f"{kind}/") and one.get("levels")]
        cells = []
        for level in LEVELS:
            known = [one["levels"][level][0] for one in rows if one["levels"][level]]
            cells.append(f"{sum(value >= ALL for value in known)} of {len(known)}")
        alone = [value for one in rows for value in one["claims"].values()]
        kept = [value for one in rows for value in one["permuted"].values() if value is not None]
        cells.append(f"{np.mean([value >= VACUOUS for value in alone]):.0%} of {len(alone)}")
        cells.append(f"{np.mean([value >= ALL for value in kept]):.0%} of {len(kept)}")
        lines.append(f"| {title} | {len(rows)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def exceptions(found: dict[str, dict[str, JsonValue]]) -> str:
    """Returns the table of networks that do not recover all of their loss at some level."""
    lines = [
        f"| network | {' | '.join(LEVELS)} | loss | best constant | answers changed |",
        f"| --- |{' --: |' * (len(LEVELS) + 3)}",
    ]
    for name, one in sorted(found.items()):
        if not one.get("levels"):
            lines.append(f"| `{name}` | {one['why']} |{' |' * (len(LEVELS) + 2)}")
            continue
        values = [one["levels"][level] for level in LEVELS]
        if all(value and value[0] >= ALL for value in values):
            continue
        cells = [f"{value[0]:.1f} [{value[1]:.1f}, {value[2]:.1f}]" if value else "–" for value in values]
        ends = f"{one['loss']:.3g} | {one['constant']:.3g} | {one['changed']:.3f}"
        lines.append(f"| `{name}` | {' | '.join(cells)} | {ends} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures what is missing, and writes the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="measure nothing")
    prepare_torch()
    found: dict[str, dict[str, JsonValue]] = read_json(NUMBERS) if NUMBERS.exists() else {}
    if not parser.parse_args(arguments).write:
        for name, one in measured(found):
            found[name] = one
            write_json(NUMBERS, found)
            print(name, one.get("levels") or one["why"], flush=True)
    tables = f"{summary(found)}\n\n{exceptions(found)}"
    write_text(PAGE, put(PAGE.read_text(), tables, BEGIN))
    print(json.dumps({"networks": len(found)}))


if __name__ == "__main__":
    main()
