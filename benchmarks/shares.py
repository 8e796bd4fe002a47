"""What one share tells of a variable that exists as a sum of two: the table of `shares` in `docs/exam.md`.

On the program, a share alone tells little of the variable. Nothing certified says that of the network: the
node of a share may carry more than its readers take. Here a linear probe (ridge regression to one-hot
values, as in `discovery.readings`) reads the variable off each share's node, at positions where it has a
value; it is fitted to one half of drawn inputs and counted on the other. Beside it are the most frequent
value, the best guess from what the program has at either node, and a probe of the embedding.

Run: `python -m benchmarks.shares`.
"""

from pathlib import Path

import numpy as np
import torch

from interpbench.alignment.alignment import align
from interpbench.causal.model import has_value
from interpbench.checkpoints.find import find_checkpoints
from interpbench.checkpoints.load import load_checkpoint
from interpbench.circuits.naming import EMBED
from interpbench.core import seeds
from interpbench.core.files import write_text
from interpbench.core.process import prepare_torch
from interpbench.discovery.readings import RIDGE
from interpbench.reports.models_page import put
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.regimes.parts import PART
from interpbench.tasks.regimes.regime import RegimeTask
from interpbench.transformer.recording import record

GROUPS = ("regime:shares", "regime:cancelling")
"""The networks, as groups of models."""
INPUTS = 2_000
PAGE = Path("docs/exam.md")
BEGIN = "<!-- made by `python -m benchmarks.shares` -->"


def probed(written: np.ndarray, values: np.ndarray) -> float:
    """Returns how often a linear probe is right on the half of samples that it was not fitted to.

    Args:
        written: what a node writes, `[M, D]`.
        values: what is to be read, `[M]`.
    """
    classes, labels = np.unique(values, return_inverse=True)
    half, targets = len(values) // 2, np.eye(len(classes))[labels]
    inputs = written - written[:half].mean(0)
    gram = inputs[:half].T @ inputs[:half] / half
    gram += RIDGE * max(np.trace(gram) / len(gram), 1e-12) * np.eye(len(gram))
    mean = targets[:half].mean(0)
    weights = np.linalg.solve(gram, inputs[:half].T @ (targets[:half] - mean) / half)
    return float(((inputs[half:] @ weights + mean).argmax(1) == labels[half:]).mean())


def guessed(values: np.ndarray, known: np.ndarray) -> float:
    """Returns how often the most frequent value `[M]` is right where others, `[M, K]`, are known."""
    counts: dict[tuple[object, ...], dict[object, int]] = {}
    for value, others in zip(values.tolist(), known.tolist()):
        here = counts.setdefault(tuple(others), {})
        here[value] = here.get(value, 0) + 1
    return sum(max(here.values()) for here in counts.values()) / len(values)


@torch.no_grad()
def rows_of(folder: Path) -> list[str]:
    """Returns a row of the table for each variable of a network that is in shares."""
    checkpoint = load_checkpoint(folder)
    task = get_task(checkpoint.task)
    assert isinstance(task, RegimeTask)
    tokens = task.domain.draw(seeds.generator(0, "shares", task.name), INPUTS)
    values = task.causal_model.run(tokens)
    ids = torch.from_numpy(task.token_ids(tokens)).long()
    written = record(checkpoint.network, ids)[1].stack[:, :, 1:].permute(0, 3, 2, 1).double().numpy()
    graph = checkpoint.truth.graph
    alignment = align(task, graph, checkpoint.record.alignment)
    homes = alignment.nodes
    alone: RegimeTask = task
    while not _shared(alone):
        assert isinstance(alone.base, RegimeTask)
        alone = alone.base
    whole = alone.base.causal_model.run(tokens)
    rows: list[str] = []
    for second in (name for name in values if name.endswith(f"{PART}2")):
        name = second.partition(PART)[0]
        first, there = f"{name}{PART}1", has_value(whole[name])
        wanted, nodes = whole[name][there], (homes[first], homes[second])
        read = [probed(written[graph.node_index[node]][there], wanted) for node in (*nodes, EMBED)]
        known = [
            np.stack([values[each][there] for each in alignment.aligned_nodes[node]], -1) for node in nodes
        ]
        told = [guessed(wanted, each) for each in (np.zeros((len(wanted), 1)), *known)]
        numbers = (told[0], max(told[1:]), *read)
        rows.append(f"| `{task.name}` | `{name}` | " + " | ".join(f"{x:.2f}" for x in numbers) + " |")
    return rows


def _shared(task: RegimeTask) -> bool:
    return task.name.endswith(("[regime=shares]", "[regime=cancelling]"))


def main() -> None:
    """Probes the networks, and writes the table."""
    prepare_torch(threads=1)
    rows = [
        "| network | variable | most frequent | from one node | probe of first node | second | embedding |",
        "| --- | --- | --: | --: | --: | --: | --: |",
    ]
    for group in GROUPS:
        for folder in find_checkpoints(group):
            rows += rows_of(folder)
    print("\n".join(rows))
    write_text(PAGE, put(PAGE.read_text(), "\n".join(rows), BEGIN))


if __name__ == "__main__":
    main()
