"""What methods see of AND, OR and ADDER gates, by noising, by denoising, and by both.

Which gate joins the inputs of a node depends on the pair of inputs (`alignment.find_gates`). For each node
that several edges lead to, pairs are chosen at whose outputs the edges are joined by AND alone, by OR alone,
or by ADDER alone, and only these outputs are scored. A method gets 64 such pairs, and patches the clean run
(noising), the corrupted one (denoising), or both. Measured are

* the share of the gate's edges that are found: that score higher than 99 % of the forbidden ones;
* whether the two directions together say the right gate of an edge: AND if its score by noising is more than
  twice that by denoising, OR if it is less than half of it, else ADDER.

Networks are those of nineteen tasks in `models`, and of these in regime `noisy` where there is one: forbidden
edges of those are not dead, so that an effect of almost nothing does not stand out. Numbers are in
`docs/gates.json`, means over nodes in the table of docs/exam.md.

Run: `python -m benchmarks.gates`; `--write` writes the table of what has been measured, and measures nothing.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

from benchmarks.power import power
from interpbench.alignment.alignment import Alignment, align
from interpbench.alignment.find_gates import KINDS, Gate, find_gates
from interpbench.checkpoints.checkpoint_files import in_regimes, released
from interpbench.checkpoints.load import load_checkpoint
from interpbench.circuits.graph import Graph
from interpbench.circuits.ground_truth import Truth
from interpbench.circuits.naming import edge_name
from interpbench.core.files import write_json, write_text
from interpbench.core.process import prepare_torch
from interpbench.core.text import markdown
from interpbench.discovery.isolated_run import apply
from interpbench.discovery.method import get_method
from interpbench.reports.labels import NOTHING
from interpbench.reports.models_page import put
from interpbench.runs.measure_tasks import record_of
from interpbench.runs.subject import subject_of
from interpbench.tasks.catalogue import catalogue, get_task
from interpbench.tasks.data import draw_pairs
from interpbench.tasks.problem import Pairs
from interpbench.tasks.shapes import shape

METHODS = ("exact", "acdc", "eap", "atp", "relp", "eap_ig_activations")
DIRECTIONS = ("noising", "denoising", "both")
TASKS = (
    "trend_to_next",
    "equals_two_back",
    "detect_abc",
    "hist",
    "all_equal",
    "differs_from_previous",
    "direction_change",
    "equals_mirror",
    "is_non_decreasing",
    "last_two_equal",
    "max_with_previous",
    "multiple_of_first",
    "parity_alternates",
    "zero_non_unique",
    "add_next",
    "mean_of_ends",
    "next_minus_current",
    "sum_last_two",
    "times_next",
)
NETWORKS = tuple(name for task in TASKS for name in (task, f"{task}[regime=noisy]"))
DRAWN, PAIRS, LEAST = 20_000, 64, 32
"""How many pairs are drawn, how many of them a method gets, and the least that a gate has to have."""
CLEAR = 2.0
"""The ratio of the scores of two directions from which on one alone is said to see an edge."""
RESULTS, PAGE = Path("docs/gates.json"), Path("docs/exam.md")
BEGIN = "<!-- gates, made by `python -m benchmarks.gates` -->"
"""The line after which the page holds the table."""


@dataclass(frozen=True)
class Seen:
    """What a method sees of a gate.

    Attributes:
        network: the name of the network's task.
        node: the node whose inputs are joined.
        kind: the gate.
        method: the method.
        pairs: the number of pairs of inputs.
        found: the share of the gate's edges that are found, by direction.
        right: the share of the gate's edges of which the two directions together say the right gate.
    """

    network: str
    node: str
    kind: str
    method: str
    pairs: int
    found: dict[str, float]
    right: float


def pairs_at(pairs: Pairs, gate: Gate, kind: int) -> tuple[Pairs, tuple[str, ...]]:
    """Returns the pairs at some of whose outputs one kind of gate joins all edges that any gate ever joins.

    Only those outputs are scored. The edges are returned, too.

    Args:
        pairs: the pairs that the gate was found on.
        gate: the gate.
        kind: the place of the kind in `KINDS`.
    """
    varied = [place for place, each in enumerate(gate.kinds.any((0, 2, 3))) if each]
    at = gate.kinds[kind][varied].all(0)
    chosen = torch.from_numpy(np.flatnonzero(at.any(1))[:PAIRS])
    scored = torch.zeros_like(pairs.scored)
    scored[:, 1:] = torch.from_numpy(at)
    return (
        Pairs(*(each[chosen] for each in (pairs.clean, pairs.corrupted, scored))),
        tuple(gate.edges[place] for place in varied),
    )


def places_of(graph: Graph, names: Sequence[str]) -> np.ndarray:
    """Returns the q/k/v edges of these names, bool `[reader, writer]`."""
    edges = np.zeros(graph.legal.shape, bool)
    for reader, writer in np.argwhere(graph.legal):
        edges[reader, writer] = edge_name(graph.nodes[writer], graph.readers[reader]) in names
    return edges


def said(noising: np.ndarray, denoising: np.ndarray) -> np.ndarray:
    """Returns the gates that two directions say of edges, as places in `KINDS`.

    Args:
        noising: the scores of edges by noising.
        denoising: those by denoising.
    """
    return np.select([noising > CLEAR * denoising, denoising > CLEAR * noising], [0, 1], 2)


def gates_of(alignment: Alignment, pairs: Pairs) -> dict[str, Gate]:
    """Returns the gates on pairs of token ids, of nodes of which two edges are ever joined by one."""
    bos = alignment.task.bos
    codes = [np.where(ids > bos, -1, ids)[:, 1:] for ids in (pairs.clean.numpy(), pairs.corrupted.numpy())]
    gates = find_gates(alignment, (codes[0], codes[1]))
    return {node: gate for node, gate in gates.items() if gate.kinds.any((0, 2, 3)).sum() > 1}


def seen(name: str) -> Iterator[Seen]:
    """Yields what each method sees of each gate of a network."""
    folder = {**released(), **in_regimes()}.get(name)
    if folder is None:
        return
    checkpoint = load_checkpoint(folder)
    truth: Truth = checkpoint.truth
    pairs = draw_pairs(get_task(checkpoint.task), DRAWN, 2)
    for node, gate in gates_of(subject_of(checkpoint).alignment, pairs).items():
        for place, kind in enumerate(KINDS):
            some, names = pairs_at(pairs, gate, place)
            edges = places_of(truth.graph, names)
            if len(some.clean) < LEAST or edges.sum() < 2:
                continue
            problem = some.problem(checkpoint.network)
            for method in METHODS:
                scores = {
                    each: apply(get_method(method, {"direction": each}), problem, method).edges
                    for each in DIRECTIONS
                }
                right = said(scores["noising"][edges], scores["denoising"][edges]) == place
                found = {each: power(truth, edges, scores[each]) for each in DIRECTIONS}
                yield Seen(name, node, kind, method, len(some.clean), found, float(right.mean()))


def most_common() -> list[tuple[str, float]]:
    """Returns the most common gate of each edge of the catalogue's circuits, and its share of outputs.

    Left out are trivial circuits, edges alone into a node, and outputs that all edges into it do not change.
    """
    found: list[tuple[str, float]] = []
    for task in catalogue().values():
        if record_of(task).trivial is None:
            for gate in find_gates(align(task, shape(task).graph)).values():
                shares = [gate.shares(edge) for edge, moved in zip(gate.edges, gate.moved) if moved.any()]
                found += [max(each.items(), key=lambda item: item[1]) for each in shares]
    return found


def table(every: Sequence[Seen]) -> str:
    """Returns a Markdown table of methods × gates: edges found by each direction, and gates said right."""
    lines: list[list[str]] = []
    for method in METHODS:
        for noisy in (False, True):
            lines.append(_row(method, noisy, [one for one in every if one.method == method]))
    heads = [
        f"{kind.upper()} ({_count(every, kind, False)}, noisy {_count(every, kind, True)})" for kind in KINDS
    ]
    lines = [["method", *heads, "gates said right"], ["---", *["--:"] * (len(KINDS) + 1)], *lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _count(every: Sequence[Seen], kind: str, noisy: bool) -> int:
    """Returns the number of nodes whose inputs a kind of gate joins, in noisy networks or in the others."""
    return len({(x.network, x.node) for x in every if x.kind == kind and ("noisy" in x.network) == noisy})


def _row(method: str, noisy: bool, every: Sequence[Seen]) -> list[str]:
    """Returns the cells of a method on networks in regime `noisy`, or on the others."""
    cells: list[str] = []
    rights: list[str] = []
    for kind in KINDS:
        here = [one for one in every if one.kind == kind and ("noisy" in one.network) == noisy]
        if not here:
            cells.append(NOTHING)
            rights.append(NOTHING)
            continue
        found = [np.mean([one.found[each] for one in here]) for each in DIRECTIONS]
        cells.append(" / ".join(f"{share:.2f}" for share in found))
        rights.append(f"{np.mean([one.right for one in here]):.2f}")
    return [markdown(method) + (", noisy" if noisy else ""), *cells, " / ".join(rights)]


def main() -> None:
    """Measures all networks, and writes numbers and table."""
    parser = argparse.ArgumentParser(description="What methods see of gates.")
    parser.add_argument("--write", action="store_true", help="write the table of what has been measured")
    options = parser.parse_args()
    prepare_torch(threads=1)
    if not options.write:
        every = [one for name in NETWORKS for one in seen(name)]
        write_json(RESULTS, [asdict(one) for one in every])
    every = [Seen(**one) for one in json.loads(RESULTS.read_text())]
    write_text(PAGE, put(PAGE.read_text(), table(every), BEGIN))
    print(table(every))
    shares = most_common()
    for least in (1.0, 0.5):
        kinds = [kind for kind, share in shares if share >= least]
        counts = ", ".join(f"{kinds.count(kind)} {kind.upper()}" for kind in KINDS)
        many = f"{len(kinds)} of {len(shares)} edges"
        print(f"{many} are joined by one gate at {least:.0%} of outputs: {counts}")


if __name__ == "__main__":
    main()
