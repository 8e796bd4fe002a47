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

from interpbench.alignment.alignment import Alignment, align
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.checkpoints.checkpoint_files import in_regimes, released
from interpbench.checkpoints.load import load_checkpoint
from interpbench.circuits.ground_truth import State, Truth
from interpbench.core.errors import TaskError
from interpbench.core.files import read_json, write_json, write_text
from interpbench.core.process import prepare_torch
from interpbench.rasp.compile import compile_program
from interpbench.rasp.weights import compiled_network
from interpbench.reports.models_page import put
from interpbench.runs.scrub import BY_POSITION, POSITIONS, scrub_program
from interpbench.runs.scrub_report import ScrubReport
from interpbench.runs.subject import subject_of
from interpbench.scrubbing.program_claims import PROGRAM_LEVELS
from interpbench.tasks.catalogue import catalogue, get_task
from interpbench.tasks.task import RaspTask
from interpbench.transformer.model import Transformer

NUMBERS, PAGE = Path("docs/scrubbing.json"), Path("docs/scrubbing.md")
BEGIN = "<!-- made by `python -m benchmarks.scrub_models` -->"
LEVELS = (*PROGRAM_LEVELS, *BY_POSITION)
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
            if _is_known(known.get(key), checkpoint.record.sha256[:12]):
                continue
            subject = subject_of(checkpoint)
            found = both(checkpoint.network, subject.alignment, subject.truth)
            yield key, {"weights": checkpoint.record.sha256[:12], **found}
    for name in catalogue():
        task = get_task(name)
        if _is_known(known.get(f"compiled/{name}"), "") or not isinstance(task, RaspTask):
            continue
        task = replace(task, alignment={})  # variables are where Tracr places them
        network = compiled_network(compile_program(task.program))
        alignment = align(task, network.cfg.graph)
        yield f"compiled/{name}", {"weights": "", **both(network, alignment, find_truth(alignment))}


def _is_known(one: dict[str, JsonValue] | None, weights: str) -> bool:
    """Returns whether numbers are of these weights, at all levels."""
    return one is not None and one["weights"] == weights and {*LEVELS} <= {*one.get("levels", LEVELS)}


def both(network: Transformer, alignment: Alignment, truth: Truth) -> dict[str, JsonValue]:
    """Returns the numbers with the circuit, and, where these are bad, some with all edges of the program.

    Args:
        network: the network.
        alignment: the nodes of the program's variables.
        truth: the states of its edges.
    """
    found = numbers(scrubbed(network, alignment, truth.circuit))
    values = list(found.get("levels", {}).values())
    if all(value and value[0] >= ALL for value in values):
        return found
    program = truth.circuit | (truth.qkv_edges == State.ALLOWED)
    with_all = numbers(scrubbed(network, alignment, program))
    edges = [int(truth.circuit.sum()), int(program.sum())]
    return found | {"program": {"edges": edges, "levels": with_all.get("levels", {})}}


def scrubbed(network: Transformer, alignment: Alignment, circuit: np.ndarray) -> ScrubReport | str:
    """Returns the report on a network, or why there is none.

    Args:
        network: the network.
        alignment: the nodes of the program's variables.
        circuit: the edges that are claimed, bool `[R, W]`.
    """
    try:
        return scrub_program(network, alignment, circuit, samplings=("node",), **FEW)
    except TaskError as error:
        return str(error)


def numbers(report: ScrubReport | str) -> dict[str, JsonValue]:
    """Returns what is kept of a report."""
    if isinstance(report, str):
        return {"why": report}
    found: dict[str, JsonValue] = {"levels": {}, "loss": {}, "changed": {}, "why": ""}
    for level in LEVELS:
        one = report.results[level]["node"]
        ends = [] if one.percent is None else [one.percent.value, *one.percent.ends]
        found["levels"][level] = [round(each, 3) for each in ends]
        found["loss"][level] = float(f"{one.scrubbed.value:.4g}")
        found["changed"][level] = round(one.changed.value, 4)
    first = report.results["features"]["node"]
    found |= {
        "network": float(f"{first.network.value:.4g}"),
        "constant": float(f"{first.constant:.4g}"),
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
        f"| network | {' | '.join(LEVELS)} | loss (`{POSITIONS}`) | best constant | "
        f"answers changed (`{POSITIONS}`) |",
        f"| --- |{' --: |' * (len(LEVELS) + 3)}",
    ]
    for name, one in sorted(found.items()):
        if not one.get("levels"):
            lines.append(f"| `{name}` | {one['why']} |{' |' * (len(LEVELS) + 2)}")
            continue
        values = [one["levels"][level] for level in LEVELS]
        if all(value and value[0] >= ALL for value in values):
            continue
        cells = [_shown(value) for value in values]
        loss, changed = one["loss"][POSITIONS], one["changed"][POSITIONS]
        ends = f"{loss:.3g} | {one['constant']:.3g} | {changed:.3f}"
        lines.append(f"| `{name}` | {' | '.join(cells)} | {ends} |")
    return "\n".join(lines)


def with_program(found: dict[str, dict[str, JsonValue]]) -> str:
    """Returns the table of what the same networks recover with all edges of their programs."""
    lines = [
        f"| network | edges of the circuit, of the program | {' | '.join(LEVELS)} |",
        f"| --- | --: |{' --: |' * len(LEVELS)}",
    ]
    for name, one in sorted(found.items()):
        if program := one.get("program"):
            cells = [_shown(program["levels"].get(level, [])) for level in LEVELS]
            lines.append(f"| `{name}` | {program['edges'][0]}, {program['edges'][1]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _shown(value: Sequence[float]) -> str:
    """Returns a percentage with its interval, or a dash."""
    return f"{value[0]:.1f} [{value[1]:.1f}, {value[2]:.1f}]" if value else "–"


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
    said = "With all edges of their programs, also those that change no answer, the same networks recover:"
    tables = f"{summary(found)}\n\n{exceptions(found)}\n\n{said}\n\n{with_program(found)}"
    write_text(PAGE, put(PAGE.read_text(), tables, BEGIN))
    print(json.dumps({"networks": len(found)}))


if __name__ == "__main__":
    main()
