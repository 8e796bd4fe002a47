"""The tables of released models in `docs/models.md`, and README's summary, made from the models' records."""

import statistics
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from interpbench.checkpoints.certificate_file import read_certificate
from interpbench.checkpoints.checkpoint_files import CERTIFICATE
from interpbench.checkpoints.record import ModelRecord, read_record, task_of
from interpbench.circuits.certificate import Certificate
from interpbench.circuits.grades import Verdict, grade, said_of
from interpbench.circuits.ground_truth import State
from interpbench.tasks.catalogue import program_of
from interpbench.tasks.family import split_name
from interpbench.tasks.task_records import records

BEGIN, END = "<!-- made by `interpbench models --write` -->", "<!-- end of what is made -->"
"""The lines between which a page holds what is made."""
COLUMNS = {
    **{"task": "---", "id": "--:", "what it computes": "---", "network": "---", "edges": "--:"},
    **{"steps": "--:", "time": "--:", "margin": "--:", "signal / noise": "--:", "worst set": "--:"},
    **{"grade": "---"},
}
"""The columns of the tables, and how Markdown aligns them."""
ALONE = [column for column in COLUMNS if column != "signal / noise"]
IN_REGIMES = [column for column in COLUMNS if column not in ("id", "what it computes")]
"""The columns of tasks alone, and of tasks in regimes."""


class Model(NamedTuple):
    """A released model, as far as its records say.

    Attributes:
        name: the model's name.
        record: what `model.json` says.
        certificate: what was measured of it; None without a certificate.
    """

    name: str
    record: ModelRecord
    certificate: Certificate | None

    @property
    def trivial(self) -> bool:
        """Whether a single node computes the output."""
        return self.record.read_truth.trivial is not None

    @property
    def verdict(self) -> Verdict | None:
        """What a reader with the default standard makes of the certificate."""
        return None if self.certificate is None else grade(self.certificate)

    @property
    def worst(self) -> float | None:
        """The largest share of wrong rows with the adversary's worst set patched; None without one."""
        attacks = [] if self.certificate is None else self.certificate.attacks.values()
        rates = [rate for attack in attacks for rate in attack.rates.values()]
        return max((1 - rate.share for rate in rates), default=None)


def _share(value: float | None) -> str:
    """Returns a share in percent, with two significant digits where it is small."""
    return "–" if value is None else f"{100 * value:.{1 if value >= 0.01 else 2}f} %"


def read_models(folders: Mapping[str, Path]) -> list[Model]:
    """Returns the models in some folders, by name."""
    found = ((name, folder, read_record(folder)) for name, folder in folders.items())
    return [
        Model(name, record, read_certificate(folder / CERTIFICATE, record)) for name, folder, record in found
    ]


def summary(models: Sequence[Model], seeds: Sequence[str] = (), living: Sequence[Model] = ()) -> str:
    """Returns what README says of the released models, in lines of at most 120 characters.

    Args:
        models: one of each task.
        seeds: the names of those of further seeds, such as `all_equal/seed1`.
        living: those of tasks in regimes.
    """
    rest = [model for model in models if not model.trivial]
    deep = sum(model.record.shape.n_layers > 2 for model in rest)
    numbers = sum(model.record.classes is None for model in rest)
    passed = [model.verdict is not None and model.verdict.grade == "adversarial" for model in models]
    broken = [model.worst or 0.0 for model, held in zip(models, passed) if not held]
    programs = len({program_of(model.record.task) for model in models})
    weights = len({model.record.sha256 for model in models})
    further = f", and {len(seeds)} of further seeds of {len({name.split('/')[0] for name in seeds})} of them"
    text = (
        f"Models of {len(models)} of {len(records())} tasks are released{further if seeds else ''}. "
        f"Some tasks differ in the names of their values alone: these are {programs} different programs and "
        f"{weights} different networks. {len(rest)} have a circuit of several nodes ({deep} of these in more "
        f"than two layers, {numbers} with numbers as outputs), and in {len(models) - len(rest)} a single "
        f"node computes the output. {sum(passed)} also withstood the adversary's search for a set of nodes "
        "or edges that breaks them"
    )
    if broken:
        middle = statistics.median(broken)
        text += (
            f"; in the other {len(broken)} it found one, which changes up to {max(broken):.0%} of answers "
        )
        text += f"(in the median model {middle:.1%})"
    text += "."
    if living:
        tasks = {split_name(model.record.task)[0] for model in living}
        text += f" {len(living)} more are of {len(tasks)} of these tasks in regimes, harder to read."
    return "\n".join(textwrap.wrap(text, 120, break_long_words=False, break_on_hyphens=False))


def tables(models: Sequence[Model], seeds: Sequence[str] = (), living: Sequence[Model] = ()) -> str:
    """Returns the tables of `docs/models.md`, trivial models and those in regimes apart.

    Args:
        models: one of each task.
        seeds: the names of those of further seeds.
        living: those of tasks in regimes.
    """
    parts = [summary(models, seeds, living)]
    for title, columns, chosen in (
        ("Circuits of several nodes", ALONE, [model for model in models if not model.trivial]),
        ("A single node computes the output", ALONE, [model for model in models if model.trivial]),
        ("Tasks in regimes", IN_REGIMES, living),
    ):
        if not chosen:
            continue
        cells = [list(columns), *([_cells(model)[column] for column in columns] for model in chosen)]
        head, *rows = [f"| {' | '.join(row)} |" for row in cells]
        aligned = f"|{'|'.join(COLUMNS[column] for column in columns)}|"
        parts.append("\n".join([f"### {title}", "", head, aligned, *rows]))
    return "\n\n".join(parts)


def put(page: str, made: str, mark: str = BEGIN) -> str:
    """Returns a page with what is made between a mark and `END`; the page itself if it has none.

    Args:
        page: the text of the page.
        made: what is made.
        mark: the line after which it goes.
    """
    before, begin, rest = page.partition(mark)
    _, end, after = rest.partition(END)
    return f"{before}{mark}\n{made}\n{END}{after}" if begin and end else page


def _cells(model: Model) -> dict[str, str]:
    """Returns what the tables say of a model, by column."""
    record, shape = model.record, model.record.shape
    truth, edges = record.read_truth, len(shape.graph.edges)
    allowed = truth.count("qkv_edge", State.ALLOWED)
    needed = len(truth.required)
    steps = f"{record.steps:,}" + (f" ({record.guided:,})" if record.guided else "")
    spent = f"{record.cpu_seconds:,.0f} s" if record.cpu_seconds else f"{record.seconds:,.0f} s\\*"
    if record.training.get("start"):  # of other weights than random ones
        steps, spent = f"… + {steps}", f"… + {spent}"
    sign = "±" if record.classes is None else ""
    effects = None if model.certificate is None else model.certificate.effects
    return {
        "task": f"`{model.name}`",
        "id": "–" if record.legacy_id is None else str(record.legacy_id),
        "what it computes": task_of(record.task).description.replace("|", "\\|"),
        "network": f"{shape.n_layers} × {shape.n_heads}, {shape.d_model}",
        "edges": f"{needed} / {allowed} / {edges:,}",
        "steps": steps,
        "time": spent,
        "margin": "–" if model.certificate is None else f"{sign}{model.certificate.margin:.2g}",
        "worst set": _share(model.worst),
        "signal / noise": "–" if effects is None else f"{effects.signal:.2g} / {effects.noise:.2g}",
        "grade": said_of(model.certificate),
    }
