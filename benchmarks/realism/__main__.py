"""Compares networks that are trained to have a known circuit with natural ones, and writes `docs/realism.md`.

Networks and their measurements are kept in `runs/realism`: the same command goes on after an interruption.
All measurements are put together in `docs/realism.json`, over those that are there from before. All take
about two hours on two cores.

Run: `python -m benchmarks.realism --jobs 2`; `--tasks 2 --seeds 2` measures a part of it anew, `--page` makes
the page alone, `--out` keeps networks elsewhere.
"""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from joblib import Parallel, delayed

from benchmarks.realism.comparison import Row, agreement, agreement_lost, apart, auroc, truth_agreement
from benchmarks.realism.measurements import Measured, measure
from benchmarks.realism.networks import AGAIN, EVERY, NATURAL, REGIMES, SEEDS, TASKS, trained
from benchmarks.realism.page import OTHERS, RIGHT, Study, write
from benchmarks.realism.rankings import Ranked, ranked
from interpbench.core.errors import TrainingError
from interpbench.core.files import write_json
from interpbench.core.process import prepare_torch
from interpbench.training.interventional_accuracy import Evaluation

RESULTS = Path("docs/realism.json")


def measured(task: str, seeds: int, out: Path) -> None:
    """Trains and measures those networks of a task that are missing."""
    prepare_torch(threads=1)
    for seed in range(seeds):
        for regime in EVERY:
            file = out / task / f"{regime}-{seed}.json".replace(" ", "-")
            if file.is_file():
                continue
            try:
                one = trained(task, regime, seed, out)
            except TrainingError as error:
                print(f"left out: {error}", flush=True)
                break
            found = measure(Evaluation(one.network, one.alignment), one.truth, one.initial)
            shown = {
                "task": task,
                "regime": regime,
                "seed": seed,
                "steps": one.steps,
                "validation": asdict(one.validation),
                "measured": asdict(found),
                "ranked": asdict(ranked(one)),
            }
            write_json(file, shown)
            print(f"{file.stem:24} {task:24} {one.steps:5} steps  accuracy {found.accuracy:.3f}", flush=True)


def study() -> Study:
    """Returns the study of all networks that have been measured."""
    rows: list[Row] = []
    nodes: list[Measured] = []
    validations: list[dict[str, float]] = []
    for found in json.loads(RESULTS.read_text()):
        nodes.append(Measured(**found["measured"]))
        rows.append(Row(found["task"], found["regime"], nodes[-1].features, Ranked(**found["ranked"])))
        validations.append(found["validation"])
    weak = {
        row.task
        for row, rates in zip(rows, validations)
        if row.regime == NATURAL and rates["accuracy"] < RIGHT
    }
    strong = [row for row in rows if row.task not in weak]
    return Study(
        rows,
        nodes,
        validations,
        {regime: apart(rows, NATURAL, regime) for regime in OTHERS},
        {regime: auroc(strong, NATURAL, regime) for regime in OTHERS},
        {regime: agreement(rows, NATURAL, regime) for regime in OTHERS},
        {regime: agreement_lost(rows, NATURAL, regime, AGAIN) for regime in REGIMES},
        {regime: truth_agreement(rows, regime) for regime in REGIMES},
    )


def _in_files(place: str) -> str:
    return place.replace(" ", "-")


def main() -> None:
    """Measures what is missing, and writes the page."""
    parser = argparse.ArgumentParser(description="Are certified networks like natural ones?")
    parser.add_argument("--tasks", type=int, default=len(TASKS))
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--out", type=Path, default=Path("runs/realism"), help="where networks are kept")
    parser.add_argument("--jobs", type=int, default=1, help="how many tasks at a time")
    parser.add_argument("--page", action="store_true", help="write the page of what has been measured")
    options = parser.parse_args()
    if not options.page:
        tasks = TASKS[: options.tasks]
        Parallel(options.jobs)(delayed(measured)(task, options.seeds, options.out) for task in tasks)
        files = [json.loads(file.read_text()) for file in options.out.glob("*/*.json")]
        kept = json.loads(RESULTS.read_text()) if RESULTS.is_file() else []
        made = {f"{each['task']}/{each['regime']}-{each['seed']}": each for each in [*kept, *files]}
        lines = [json.dumps(made[place]) for place in sorted(made, key=_in_files)]
        RESULTS.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    write(study())


if __name__ == "__main__":
    main()
