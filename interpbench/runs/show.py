"""Prints tasks: the catalogue, and one task's program, domain, circuit and truth. Needs no torch."""

from rich.console import Console
from rich.table import Table

from interpbench.alignment.alignment import Alignment, align
from interpbench.alignment.truth import find_truth
from interpbench.checkpoints.find import RECORD, released
from interpbench.circuits.truth import State, Truth
from interpbench.core.files import read_json
from interpbench.reports.tables import circuit_lines
from interpbench.tasks.catalogue import catalogue, get_task
from interpbench.tasks.shapes import shape


def show_tasks(console: Console) -> None:
    """Prints the catalogue."""
    available = released()
    table = Table(title=f"{len(catalogue())} tasks")
    for column in (
        "name",
        "id",
        "attention",
        "output",
        "inputs",
        "variables",
        "layers",
        "model",
        "what it computes",
    ):
        table.add_column(
            column, justify="right" if column in ("id", "inputs", "variables", "layers") else "left"
        )
    for task in catalogue().values():
        model = task.model
        output = "number" if model.classes is None else f"{len(model.classes)} classes"
        table.add_row(
            task.name,
            "–" if task.legacy_id is None else str(task.legacy_id),
            task.attention,
            output,
            f"{task.domain.size:,}",
            str(len(model.variables) - sum(name in model.variables for name in ("tokens", "indices"))),
            str(shape(task).n_layers),
            "yes" if task.name in available else "–",
            task.description,
        )
    console.print(table)


def _released_truth(alignment: Alignment) -> Truth | None:
    """Returns the truth in a released model's record, if graph and alignment are the same: it saves time."""
    folder = released().get(alignment.task.name)
    if folder is None:
        return None
    data, graph = read_json(folder / RECORD), alignment.graph
    sizes = data.get("shape", {})
    same_graph = (sizes.get("n_layers"), sizes.get("n_heads")) == (graph.n_layers, graph.n_heads)
    same_places = data.get("alignment") == {name: str(node) for name, node in alignment.nodes.items()}
    return Truth.from_json(graph, data["truth"]) if same_graph and same_places and "truth" in data else None


def show_task(console: Console, name: str) -> None:
    """Prints one task's program, domain, circuit and truth states."""
    task = get_task(name)
    alignment = align(task, shape(task).graph)
    truth = _released_truth(alignment) or find_truth(alignment)
    domain = "all of it is enumerated" if task.domain.enumerated else "sampled; a tenth is held out"
    classes = task.model.classes
    console.print(
        f"[bold]{task.name}[/] (published number {task.legacy_id}): {task.description}\n", highlight=False
    )
    if task.duplicate_of:
        console.print(f"The same program as {task.duplicate_of}.\n", highlight=False)
    console.print("[bold]Program[/]")
    for line in task.listing():
        console.print(f"  {line}", markup=False, highlight=False)
    console.print(
        f"\n[bold]Domain[/]\n"
        f"  {task.length} tokens from {len(task.vocab)}: {' '.join(map(str, task.vocab))}\n"
        f"  {task.domain.size:,} inputs, {domain}; {task.attention} attention\n"
        f"  output: {'a number' if classes is None else ', '.join(map(str, classes))}",
        highlight=False,
    )
    counts = ", ".join(
        f"{truth.count('qkv_edge', state)} {state.name.lower()}"
        for state in (State.REQUIRED, State.FREE, State.ALLOWED, State.FORBIDDEN)
        if state != State.FREE or truth.count("qkv_edge", state)
    )
    console.print(f"\n[bold]Circuit[/] (q/k/v edges: {counts})")
    for line in circuit_lines(truth, alignment):
        console.print(f"  {line}", markup=False, highlight=False)
    if truth.trivial:
        console.print(f"\nTrivial: {truth.trivial}.")
