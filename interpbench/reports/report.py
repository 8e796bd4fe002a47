"""The report of an evaluation: one Markdown file with the scores, the grades, and the pictures."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from interpbench.circuits.certificate import Certificate
from interpbench.core.files import write_text
from interpbench.core.text import markdown
from interpbench.reports.certificates import verdict_sentence
from interpbench.reports.labels import LEVEL_NAMES, NOTHING
from interpbench.reports.tables import mean_rows, order_rows, records_rows
from interpbench.scoring.evaluation_record import EvaluationRecord

READING = """\
- Each cell is AUROC / average precision of the method's ranking. AUROC is the probability that a required
  node or edge outranks a forbidden one (ties count half): 1 is perfect, 0.5 is chance. Average precision is
  stricter where few of many edges are required; chance is their share.
- *Required* changes an output of the program for some pair of inputs; *forbidden* is outside the circuit.
  What is in the program but changes no output is *allowed*, and scored only if the evaluation is structural.
- In brackets, and in no mean: numbers at q/k/v edges where the program leaves free through which of a head's
  inputs it reads, and next to nothing is scored there; such a model's methods are compared by head edges.
- A pass is one example through the network.
- In the pictures, a method is credited with as many of its best-scored q/k/v edges as are required."""


def write_report(
    folder: Path,
    records: Sequence[EvaluationRecord],
    certificates: Mapping[str, Certificate],
    pictures: Mapping[str, Sequence[Path]],
) -> Path:
    """Writes `report.md` and returns its path.

    Args:
        folder: where to write it.
        records: the evaluations.
        certificates: task to its certificate.
        pictures: task to the pictures to show, which the report links relative to `folder`.
    """
    path = folder / "report.md"
    parts = [
        "# Circuit discovery against known circuits",
        _scores(records),
        *_orders(records),
        f"## How to read this\n\n{READING}",
    ]
    for task in dict.fromkeys([*(record.task for record in records), *certificates, *pictures]):
        parts.append(f"## {markdown(task)}")
        if task in certificates:
            parts.append(verdict_sentence(certificates[task]))
        parts += [
            f"![{markdown(f'{task}: {picture.stem}')}]({_link(picture, folder)})"
            for picture in pictures.get(task, ())
        ]
    write_text(path, "\n\n".join(parts) + "\n")
    return path


def _scores(records: Sequence[EvaluationRecord]) -> str:
    """Returns the table of scores."""
    header = ("task", "method", *LEVEL_NAMES.values(), "forward passes", "backward passes", "CPU seconds")
    rows = [
        header,
        ("---", "---", *["---:"] * (len(header) - 2)),
        *records_rows(records),
        *mean_rows(records),
    ]
    return "\n".join(f"| {' | '.join(markdown(cell) for cell in row)} |" for row in rows)


def _orders(records: Sequence[EvaluationRecord]) -> list[str]:
    """Returns the table of what methods find of each order; none if everything required is of order 0."""
    rows = order_rows(records)
    if not rows:
        return []
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[str(row.get(name, NOTHING)) for name in names] for row in rows]
    header = [[name.replace("_", " ") for name in names], ["---", "---", *["---:"] * (len(names) - 2)]]
    lines = [f"| {' | '.join(map(markdown, row))} |" for row in [*header, *cells]]
    return ["## Edges that matter only once others are patched, too\n\n" + "\n".join(lines)]


def _link(picture: Path, folder: Path) -> str:
    return quote(Path(os.path.relpath(picture, folder)).as_posix())
