"""Tables and plain-text circuits for the terminal."""

from collections.abc import Mapping, Sequence

import numpy as np
from rich.table import Table

from interpbench.alignment.alignment import Alignment
from interpbench.circuits.ground_truth import LEVELS, Level, State, Truth
from interpbench.circuits.naming import EMBED, Node, Reader
from interpbench.circuits.order_arrays import orders_of
from interpbench.core.text import printable, terminal
from interpbench.reports.labels import LEVEL_NAMES, NOTHING, auroc_ap, method_labels, number, task_labels
from interpbench.scoring.evaluation_record import EvaluationRecord
from interpbench.scoring.orders import ALL_ORDERS, RECALL


def records_table(records: Sequence[EvaluationRecord], width: int | None = None) -> Table:
    """Returns one row a record and, where there are several tasks, the mean of each method over them.

    Passes are counted in examples, so that they do not depend on the batch size.

    Args:
        records: the records.
        width: the width of the terminal; columns of costs are left out where it is too narrow. None for all.
    """
    free = any(record.headline_level == "head_edge" for record in records)
    table = Table(
        title="AUROC / average precision",
        caption=f"pass: one example through the network{NOTE if free else ''}",
        title_justify="left",
        caption_justify="left",
    )
    rows, means = records_rows(records), mean_rows(records)
    for place, name in enumerate(("task", "method")):
        longest = max((len(row[place]) for row in [*rows, *means]), default=0)
        table.add_column(name, overflow="fold", min_width=min(longest, LEAST_WIDTH))
    costs = ("forward\npasses", "backward\npasses", "CPU\nseconds")
    shown = costs if width is None or width >= WIDE else costs[2:] if width >= MEDIUM else ()
    for name in (*LEVEL_NAMES.values(), *shown):
        table.add_column(name, justify="right", no_wrap=True)
    for number_, row in enumerate([*rows, *means]):
        if number_ == len(rows):
            table.add_section()
        cells = [*row[:5], *row[len(row) - len(shown) :]]
        table.add_row(*map(terminal, cells), style="bold" if number_ >= len(rows) else None)
    return table


WIDE, MEDIUM = 100, 90
"""The widths of a terminal from which the table of records says numbers of passes, and CPU seconds."""
LEAST_WIDTH = 12
"""The width that the columns of tasks and methods have at least, if their names are so long."""
NOTE = """
in brackets, and in no mean: the program leaves free which of q, k and v it reads through;
compare methods on this model by their head edges"""


def _beside_headline(record: EvaluationRecord, level: Level) -> bool:
    """Returns whether a level is that of q/k/v edges while methods are compared at head edges."""
    return level == "qkv_edge" and record.headline_level != level


def _cell(record: EvaluationRecord, level: Level) -> str:
    said = auroc_ap(record.levels.get(level))
    return f"({said})" if _beside_headline(record, level) and said != NOTHING else said


def records_rows(records: Sequence[EvaluationRecord]) -> list[tuple[str, ...]]:
    """Returns the cells of `records_table`, one row a record."""
    return [
        (
            task,
            label,
            *(_cell(record, level) for level in LEVELS),
            *(f"{passes:,}" if record.cost else NOTHING for passes in _passes(record)),
            number(record.cpu_seconds, 2),
        )
        for record, task, label in zip(records, task_labels(records), method_labels(records))
    ]


def mean_rows(records: Sequence[EvaluationRecord]) -> list[tuple[str, ...]]:
    """Returns the mean of each method, where there are several tasks."""
    if len({record.task for record in records}) < 2:
        return []
    groups: dict[str, list[EvaluationRecord]] = {}
    for record, label in zip(records, method_labels(records, seeds=False)):
        groups.setdefault(label, []).append(record)
    return [
        (f"mean of {len({record.task for record in group})}", label, *_means(group))
        for label, group in groups.items()
    ]


def order_rows(records: Sequence[EvaluationRecord]) -> list[dict[str, object]]:
    """Returns what methods find of each order of being required, where some edges matter only with others.

    Shares are among the best edges, as many as are required of any order (`scoring.orders`).
    """
    rows: list[dict[str, object]] = []
    for record, task, label in zip(records, task_labels(records), method_labels(records)):
        level = record.levels.get(record.headline_level)
        found = {} if level is None else level.metrics
        if ALL_ORDERS not in found:
            continue
        shares = {
            name.replace("recall_", "found_of_"): each for name, each in found.items() if RECALL in name
        }
        said = {"AUROC_of_all_orders": found[ALL_ORDERS], **shares}
        rows.append({"task": task, "method": label, **{k: number(each.value) for k, each in said.items()}})
    return rows


def sweep_facts(records: Sequence[EvaluationRecord]) -> dict[str, str]:
    """Returns what the table of a sweep says of a run's evaluations: cells of `records_table`, by column.

    Args:
        records: one, or several, of which the means are taken.
    """
    if not records:
        return {}
    cells = records_rows(records)[0][2:] if len(records) == 1 else _means(records)
    scores = {f"AUROC / AP, {name}": cell for name, cell in zip(LEVEL_NAMES.values(), cells)}
    return {**scores, "CPU seconds": cells[-1]}


def _passes(record: EvaluationRecord) -> tuple[int, int]:
    """Returns how many examples went forward and backward."""
    cost = record.cost
    return (0, 0) if cost is None else (cost.forward_examples, cost.backward_examples)


def _means(records: Sequence[EvaluationRecord]) -> list[str]:
    """Averages each column over the records in which it is defined."""
    cells: list[str] = []
    for level in LEVELS:
        curves = [
            record.levels[level]
            for record in records
            if level in record.levels and not _beside_headline(record, level)
        ]
        pairs = [(c.auroc, c.average_precision) for c in curves if c.auroc is not None]
        cells.append(" / ".join(number(float(np.mean(part))) for part in zip(*pairs)) or NOTHING)
    for passes in zip(*map(_passes, records)):
        cells.append(f"{np.mean(passes):,.0f}")
    spent = [record.cpu_seconds for record in records if record.cpu_seconds is not None]
    return [*cells, number(float(np.mean(spent)) if spent else None, 2)]


def rows_table(rows: Sequence[Mapping[str, object]]) -> Table:
    """Returns any rows as a table; the columns are the keys, in order of appearance, numbers to the right."""
    table = Table()
    keys = list(dict.fromkeys(key for row in rows for key in row))
    for key in keys:
        values = [row[key] for row in rows if row.get(key) is not None]
        numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
        name = key if "." in key else key.replace("_", " ")  # the names of settings stay as they are
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        cells = [row.get(key) for key in keys]
        table.add_row(*(NOTHING if cell is None else terminal(cell) for cell in cells))
    return table


def circuit_lines(truth: Truth, alignment: Alignment) -> list[str]:
    """Draws the circuit in plain text: layer by layer the nodes in it, and what each of them reads.

    What is allowed, but changes no output, is in parentheses, with its order if it does so with others. What
    a head reads through an input that the program leaves open has a line of its own.
    """
    graph = truth.graph
    edges, nodes = orders_of(truth, "qkv_edge"), orders_of(truth, "node")
    states = {node: State(int(truth.nodes[index])) for node, index in graph.node_index.items()}

    def mark(text: str, state: int, order: int = 0) -> str:
        said = f"{text}; order {order}" if order > 0 else text
        return f"({said})" if state == State.ALLOWED else text

    def reads(reader: Reader) -> str:
        row, orders = (table[graph.reader_index[reader]] for table in (truth.qkv_edges, edges))
        named = np.isin(row, (State.ALLOWED, State.REQUIRED))
        return ", ".join(mark(str(graph.nodes[w]), row[w], orders[w]) for w in np.flatnonzero(named))

    def free(node: Node) -> str:
        row = truth.qkv_edges[graph.reader_index[Reader(node.layer, "q", node.head)]]
        heads = truth.head_edges[graph.destinations.index(str(node))]
        return ", ".join(mark(str(graph.nodes[w]), heads[w]) for w in np.flatnonzero(row == State.FREE))

    def describe(node: Node) -> str:
        text = printable(f"{node} = {', '.join(alignment.variables_at(node))}")
        return mark(text, states[node], int(nodes[graph.node_index[node]]))

    lines = [describe(EMBED)]
    for layer in range(graph.n_layers):
        here = [node for node in graph.nodes if node.layer == layer]
        outside = [str(node) for node in here if states[node] == State.FORBIDDEN]
        lines += ["", f"layer {layer}" + (f"   outside the circuit: {' '.join(outside)}" if outside else "")]
        for node in (node for node in here if states[node] != State.FORBIDDEN):
            lines.append(f"    {describe(node)}")
            for reader in (r for r in graph.readers if (r.layer, r.head) == (layer, node.head)):
                if sources := reads(reader):
                    lines.append(f"        {reader.slot:<3} <- {sources}")
            if node.head is not None and (sources := free(node)):
                lines.append(f"        q/k/v <- {sources}")
    return [*lines, "", f"logits <- {reads(graph.readers[-1])}"]
