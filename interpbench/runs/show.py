"""Prints tasks: the catalogue, and one task's program, domain, circuit and truth. Needs no torch."""

from collections.abc import Sequence
from itertools import compress
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from interpbench.alignment.alignment import Alignment, align
from interpbench.alignment.find_gates import KINDS, find_gates
from interpbench.alignment.find_orders import unknown_orders
from interpbench.checkpoints.checkpoint_files import in_regimes, released
from interpbench.checkpoints.index import standing
from interpbench.circuits.ground_truth import State, Truth
from interpbench.core.text import printable, terminal
from interpbench.reports.tables import circuit_lines, rows_table
from interpbench.reports.task_table import output, task_table
from interpbench.runs.measure_tasks import record_of
from interpbench.tasks.catalogue import catalogue, families, get_task
from interpbench.tasks.family import split_name
from interpbench.tasks.groups import ALL, Member, in_group
from interpbench.tasks.regimes.regime import RegimeTask
from interpbench.tasks.shapes import shape


def show_tasks(console: Console, group: str | None = None, min_edges: int = 0, causal: bool = False) -> None:
    """Prints the catalogue, or a part of it.

    Args:
        console: where to print.
        group: the group of the tasks (`tasks/groups.py`); None for all tasks.
        min_edges: the least number of required q/k/v edges.
        causal: whether tasks with bidirectional attention are left out.

    Raises:
        ConfigError: for a group that there is not.
    """
    tasks = list(catalogue().values())
    if group not in (None, ALL):
        tasks = list(compress(tasks, in_group(group, map(Member.of_task, tasks))))
    known = {task.name: record_of(task) for task in tasks}
    chosen = [
        task
        for task in tasks
        if known[task.name].edges[0] >= min_edges and (task.attention == "causal" or not causal)
    ]
    console.print(task_table(chosen, known, _models(), console.width))


def _models() -> dict[str, str]:
    """Returns the grade of each released model, in words."""
    return {name: standing(folder) for name, folder in released().items()}


def show_task(console: Console, name: str, picture: Path | None = None, gates: bool = False) -> None:
    """Prints one task's program, domain, circuit and truth states.

    Args:
        console: where to print.
        name: the task, by name or published number, or where one of your own is.
        picture: the PNG to draw the circuit to; None for no picture.
        gates: whether to print how the inputs of nodes are joined.
    """
    task = get_task(name)
    alignment = align(task, shape(task).graph)
    record = record_of(task)
    truth = Truth.from_json(alignment.graph, record.truth)
    number = "" if task.legacy_id is None else f" (published number {task.legacy_id})"
    said = escape(printable(task.description))  # whole, however long
    console.print(f"[bold]{terminal(task.name)}[/]{number}: {said}\n", highlight=False)
    if isinstance(task, RegimeTask):
        console.print(f"The task {task.base.name} in a regime.\n", highlight=False)
    elif task.program_name != task.name:
        console.print(f"The same program as {task.program_name}, up to names.\n", highlight=False)
    console.print("[bold]Program[/]")
    for line in task.listing():
        console.print(f"  {printable(line)}", markup=False, highlight=False)
    domain = "training draws all of it" if task.domain.enumerated else "sampled; a tenth is held out"
    draws = ", balanced draws" if task.sampler else ""
    classes = task.causal_model.classes
    missing = f"{len(record.unreached)} unreached by these inputs: {_few(record.unreached, ', ')}"
    unreached = f"\n  {missing}" if record.unreached else ""
    margin = "largest error" if classes is None else "smallest margin"
    console.print(
        f"\n[bold]Domain[/]\n"
        f"  {task.length} tokens from {len(task.vocab)}: {_few(task.vocab, ' ')}\n"
        f"  {task.domain.size:,} inputs, {domain}{draws}; {task.attention} attention\n"
        f"  output: {'a number' if classes is None else f'{output(task)}: ' + _few(classes, ', ')}\n"
        f"  the most frequent output makes up {record.most_frequent:.0%} of drawn inputs{unreached}"
        + ("" if record.margin is None else f"\n  {margin} of the compiled network: {record.margin:g}"),
        highlight=False,
    )
    if (family := families().get(split_name(task.name)[0])) is not None:
        console.print("\n[bold]Parameters[/]")
        for line in family.describe():
            console.print(f"  {printable(line)}", markup=False, highlight=False)
    counts = ", ".join(
        f"{truth.count('qkv_edge', state)} {state.name.lower()}"
        for state in (State.REQUIRED, State.FREE, State.ALLOWED, State.FORBIDDEN)
        if state != State.FREE or truth.count("qkv_edge", state)
    )
    console.print(f"\n[bold]Circuit[/] (q/k/v edges: {counts})")
    console.print(_legend(truth), end="", highlight=False)
    if (unknown := unknown_orders(alignment)) is not None:
        varied, order = unknown
        only = f"what matters only once {order + 1} others or more are patched, too, is not known"
        console.print(f"  {only}: too many sets of {varied} edges", highlight=False)
    for line in circuit_lines(truth, alignment):
        console.print(f"  {printable(line)}", markup=False, highlight=False)
    if gates:
        console.print("\n[bold]Gates[/] (shares of the outputs that all edges into a node change together)")
        rows = _gates(alignment)
        console.print(rows_table(rows) if rows else "  no node reads several edges of the circuit")
    if (folder := {**released(), **in_regimes()}.get(task.name)) is not None:
        console.print(f"\n[bold]Released model[/]\n  {standing(folder)}", highlight=False)
    if record.trivial:
        console.print(f"\nTrivial: {record.trivial}.", highlight=False)
    if picture is not None:
        from interpbench.reports.drawing import draw_circuit

        draw_circuit(truth, picture, alignment.carried, title=task.name)
        console.print(f"\nPicture: {terminal(picture)}", highlight=False)


def _legend(truth: Truth) -> str:
    """Returns a line that says what stands in parentheses in a circuit, if anything does."""
    if not truth.count("qkv_edge", State.ALLOWED):
        return ""
    of_order = "; of order k: with an effect once k others are patched, too"
    return f"  in parentheses: allowed, without effect alone{of_order if truth.witnesses else ''}\n"


def _gates(alignment: Alignment) -> list[dict[str, object]]:
    """Returns how each edge is joined to its siblings, where any of them is."""
    rows: list[dict[str, object]] = []
    for gate in find_gates(alignment).values():
        for edge, moved in zip(gate.edges, gate.moved):
            shares = gate.shares(edge)
            shares["none of these"] = 1 - sum(shares.values())
            said = {kind: f"{share:.2f}" if moved.any() else "" for kind, share in shares.items()}
            kinds = {kind.upper() if kind in KINDS else kind: share for kind, share in said.items()}
            rows.append({"edge": edge, **kinds, "outputs": int(moved.sum())})
    return rows


def _few(values: Sequence[object], joint: str) -> str:
    """Joins values, of many only the first and the last."""
    some = values if len(values) <= 40 else (*values[:12], "…", *values[-12:])
    return joint.join(map(terminal, some))
