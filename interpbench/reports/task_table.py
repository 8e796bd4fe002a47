"""The catalogue of tasks, as a table for the terminal and as a page."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from textwrap import shorten

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from interpbench.tasks.catalogue import catalogue, families
from interpbench.tasks.regimes.regime import described
from interpbench.tasks.task import Task
from interpbench.tasks.task_records import TaskRecord

Records = Mapping[str, TaskRecord]
EDGES = "edges: required / allowed / forbidden q/k/v edges"
MOST_NAMES = 3
"""Unreached classes that the page names; of more it says how many there are."""
WIDTHS = {
    **{"name": 0, "id": 0, "group": 150, "layers": 95, "nodes": 105, "edges": 0, "inputs": 95},
    **{"output": 120, "mask": 145, "circuit": 0, "model": 0, "what it computes": 190},
}
"""Columns of the table, and how wide a terminal has to be to show them."""
COLUMNS = {
    **{"task": "---", "id": "--:", "what it computes": "---", "inputs": "--:", "mask": "---"},
    **{"layers": "--:", "nodes": "--:", "edges": "--:", "output": "---", "top": "--:", "margin": "--:"},
}
"""Columns of the page, and how Markdown aligns them."""


def task_table(tasks: Sequence[Task], records: Records, models: Mapping[str, str], width: int) -> Table:
    """Returns tasks as a table, a line each.

    Args:
        tasks: what to list.
        records: the measured facts of each.
        models: what is known of the released model of a task, by name.
        width: of the terminal; descriptions are cut to what is left of it.
    """
    table = Table(
        title=f"{len(tasks)} tasks",
        caption="\n".join([EDGES, *_with_parameters(tasks), _in_regimes()]),
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    shown = [name for name, least in WIDTHS.items() if width >= least]
    whole = {"name": max((len(task.name) for task in tasks), default=0)}
    for name in shown:
        right = "right" if name in ("id", "layers", "nodes", "edges", "inputs") else "left"
        table.add_column(name, justify=right, no_wrap=True, overflow="ellipsis", min_width=whole.get(name))
    for task in tasks:
        record = records[task.name]
        cells = {
            "name": task.name,
            "id": number(task),
            "group": task.group,
            "layers": str(record.layers),
            "nodes": f"{record.nodes[0]}/{sum(record.nodes)}",
            "edges": "/".join(map(str, record.edges)),
            "inputs": size(task.domain.size),
            "output": output(task),
            "mask": "causal" if task.attention == "causal" else "both ways",
            "circuit": "trivial" if record.trivial else "",
            "model": models.get(task.name, "–"),
            "what it computes": shorten(task.description, max(width - 158, 1), placeholder="…"),
        }
        table.add_row(*(cells[name] for name in shown))
    return table


def _with_parameters(tasks: Sequence[Task]) -> list[str]:
    """Returns a line that says which of some tasks, and which outside the catalogue, have parameters."""
    listed = [task.name for task in tasks if task.name in families()]
    names = ", ".join([*listed, *sorted(set(families()) - set(catalogue()))])
    return [f"with parameters (see interpbench show): {names}"]


def _in_regimes() -> str:
    """Returns a line that says which regimes there are, and their dials."""
    return escape(f"in regimes, as in hist[regime=alive,copies=3] (docs/exam.md): {', '.join(described())}")


def number(task: Task) -> str:
    """Returns the published number."""
    return "–" if task.legacy_id is None else str(task.legacy_id)


def size(inputs: int) -> str:
    """Returns the number of inputs; of many, the power of ten."""
    return f"{inputs:,}" if inputs < 10**7 else f"{inputs:.1e}".replace("e+", "e")


def output(task: Task) -> str:
    """Returns what kind of output a task has."""
    classes = task.causal_model.classes
    return "number" if classes is None else f"{len(classes)} classes"


def _unreached(names: Sequence[str]) -> str:
    """Returns how many classes no input reaches, and which these are if they are few."""
    few = f": {', '.join(f'`{name}`' for name in names)}" if len(names) <= MOST_NAMES else ""
    return f"{len(names)} unreached{few}"


def tasks_markdown(tasks: Sequence[Task], records: Records) -> str:
    """Returns the page `docs/tasks.md`: every task, group by group."""
    trivial = sum(records[task.name].trivial is not None for task in tasks)
    lines = [
        "# Tasks",
        "",
        "Made by `interpbench tasks --write`; a test checks that it is current.",
        "",
        f"{len(tasks)} tasks, {trivial} of them with a trivial circuit: one node alone computes the output",
        "from the embedding, or what else the program computes is the same for every input. *Nodes* and",
        "*edges* (into single q, k and v inputs) of the default network are required / allowed / forbidden.",
        "*Top*: the share of the most frequent output among scored positions of drawn inputs. *Unreached*:",
        "classes of the compiled program that no input reaches. *Margin*: the compiled network's smallest",
        "distance between the right class and the next, or its largest error (±) for a number.",
    ]
    by_group = sorted(tasks, key=lambda task: (task.group, task.legacy_id or 0, task.name))
    for name, group in groupby(by_group, key=lambda task: task.group):
        lines += [
            "",
            f"## {name.replace('_', ' ').capitalize()}",
            "",
            f"| {' | '.join(COLUMNS)} |",
            f"|{'|'.join(COLUMNS.values())}|",
        ]
        lines += [_row(task, records[task.name]) for task in group]
    return "\n".join(lines) + "\n"


def _row(task: Task, record: TaskRecord) -> str:
    notes = [task.description]
    if task.program_name != task.name:
        notes.append(f"The same program as {task.program_name}, up to names.")
    if record.trivial:
        notes.append(f"Trivial: {record.trivial}.")
    if task.name in families():
        notes.append(f"Parameters: {'; '.join(families()[task.name].describe())}.")
    unreached = f", {_unreached(record.unreached)}" if record.unreached else ""
    sampler = ", balanced draws" if task.sampler else ""
    cells = [
        f"`{task.name}`",
        number(task),
        " ".join(notes).replace("|", "\\|"),
        f"{size(task.domain.size)}{sampler}",
        task.attention,
        str(record.layers),
        "/".join(map(str, record.nodes)),
        "/".join(map(str, record.edges)),
        output(task) + unreached,
        f"{record.most_frequent:.2f}",
        "–" if record.margin is None else f"{'±' if task.causal_model.numerical else ''}{record.margin:.2g}",
    ]
    return f"| {' | '.join(cells)} |"
