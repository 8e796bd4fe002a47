"""What scrubbing sees of networks that were trained for less: for behaviour, IIT, SIIT, or also for edges.

Each task is trained with each objective (`configs/objective`), by its default recipe, until it is certified
for what it was trained for, and then scrubbed against its program. The table is in `docs/scrubbing.md`; runs
are in `runs/scrub_objectives`, where the same command goes on after an interruption.

Run: `python -m benchmarks.scrub_objectives`.
"""

from pathlib import Path

from interpbench import train
from interpbench.checkpoints.load import load_checkpoint
from interpbench.core.files import write_text
from interpbench.core.process import prepare_torch
from interpbench.reports.models_page import put
from interpbench.runs.scrub import POSITIONS, scrub_program
from interpbench.runs.scrub_report import percent
from interpbench.runs.subject import subject_of
from interpbench.training.interventional_accuracy import Evaluation
from interpbench.training.recipe import Recipe
from interpbench.training.validation import validate

TASKS = ("detect_abc", "trend_to_next", "equals_mirror")
UNGUIDED = {"probe": 0.0, "attention_supervision": 0.0}
OBJECTIVES = {
    "behaviour": {"iit": 0.0, "strict": 0.0, "edge_strict": 0.0, **UNGUIDED},
    "iit": {"strict": 0.0, "edge_strict": 0.0, **UNGUIDED},
    "siit": {"edge_strict": 0.0, **UNGUIDED},
    "siit_edges": {},
}
OUT = "runs/scrub_objectives"
PAGE = Path("docs/scrubbing.md")
BEGIN = "<!-- made by `python -m benchmarks.scrub_objectives` -->"
ROWS = 4096
"""The number of pairs of inputs on which rates are measured."""


def row(task: str, objective: str) -> str:
    """Returns the row of a network in the table."""
    outcome = train(task, objective=OBJECTIVES[objective], out=OUT)
    checkpoint = load_checkpoint(outcome.folder, certificate=False)
    subject = subject_of(checkpoint)
    evaluation = Evaluation(checkpoint.network, subject.alignment)
    found, _ = validate(evaluation, subject.truth, Recipe(), ROWS, 0, 0)
    report = scrub_program(
        checkpoint.network,
        subject.alignment,
        subject.truth.circuit,
        samplings=("node", "global"),
        claims=False,
    )
    levels = report.results
    cells = [
        f"`{task}`",
        f"`{objective}`" + ("" if outcome.certified else " (not certified)"),
        *(f"{rate:.3f}" for rate in (found.accuracy, found.iia, found.siia, found.edges)),
        *(percent(levels["features"][sampling]) for sampling in ("node", "global")),
        percent(levels[POSITIONS]["node"]),
        f"{levels['features']['node'].scrubbed.value:.3g}",
        f"{levels['features']['node'].constant:.3g}",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Trains what is missing, scrubs, and writes the table."""
    prepare_torch()
    columns = ("task", "objective", "accuracy", "IIA", "SIIA", "edges")
    scrubbed = ("% (`node`)", "% (`global`)", "% by position (`node`)", "loss (`node`)", "best constant")
    lines = [f"| {' | '.join((*columns, *scrubbed))} |", f"| --- | --- |{' --: |' * 9}"]
    for task in TASKS:
        for objective in OBJECTIVES:
            lines.append(row(task, objective))
            print(lines[-1], flush=True)
    write_text(PAGE, put(PAGE.read_text(), "\n".join(lines), BEGIN))


if __name__ == "__main__":
    main()
