"""Which methods tell a circuit from copies of it? The table of regime `alive` in `docs/exam.md`.

In networks with bystanders, copies of the circuit compute the output as well, but the logits ignore them. A
method that looks for what computes something finds all of them. Here each method's scores of what is of the
circuit alone are compared with those of what is of another copy alone. One half is chance.

Run: `python -m benchmarks.against_copies`.
"""

from pathlib import Path

import numpy as np

from interpbench.alignment.peers import copies_of_circuit
from interpbench.checkpoints.find import find_checkpoints
from interpbench.checkpoints.load import load_checkpoint, load_pairs
from interpbench.core.files import write_text
from interpbench.core.process import prepare_torch
from interpbench.discovery.isolated_run import apply
from interpbench.discovery.known_methods import EXAMPLES, known_methods
from interpbench.discovery.method import get_method
from interpbench.reports.models_page import put
from interpbench.scoring.against_copies import auroc_against_copies
from interpbench.scoring.curves import compare
from interpbench.scoring.orders import ALL_ORDERS
from interpbench.scoring.ranking_metrics import HEADLINE
from interpbench.tasks.catalogue import get_task

MODELS = "regime:alive"
"""The networks, as a group of models."""
LEFT_OUT = ("edge_pruning", "edge_sp", "node_sp", "ugs")
"""Methods that train masks, which would take hours."""
PAGE = Path("docs/exam.md")
BEGIN = "<!-- made by `python -m benchmarks.against_copies` -->"


def measured(folder: Path, method: str) -> tuple[float, float]:
    """Returns the AUROC against copies, and that of all edges (of any order), of a method on a network."""
    checkpoint = load_checkpoint(folder)
    scores = apply(get_method(method), load_pairs(folder).problem(checkpoint.network, EXAMPLES), method)
    copies = copies_of_circuit(get_task(checkpoint.record.task), checkpoint.truth)
    against = auroc_against_copies(scores.edges, [edges for _, edges in copies])
    assert against is not None
    metrics = compare(checkpoint.truth, scores)["qkv_edge"].metrics
    return against, metrics.get(ALL_ORDERS, metrics[HEADLINE.name]).value


def main() -> None:
    """Runs all methods on the networks, and writes the table."""
    prepare_torch(threads=1)
    folders = find_checkpoints(MODELS)
    found: dict[str, np.ndarray] = {}
    for method in sorted(set(known_methods()) - set(LEFT_OUT)):
        found[method] = np.array([measured(folder, method) for folder in folders])
        print(method, found[method][:, 0].round(2).tolist(), flush=True)
    order = sorted(found, key=lambda name: (-found[name].mean(0)[0], -found[name].mean(0)[1], name))
    rows = [
        f"| method | against copies, mean of {len(folders)} networks | least | above 0.99 | all edges |",
        "| --- | --: | --: | --: | --: |",
    ]
    for name in order:
        against, plain = found[name].T
        above = int((against > 0.99).sum())
        rows.append(f"| {name} | {against.mean():.3f} | {against.min():.2f} | {above} | {plain.mean():.3f} |")
    write_text(PAGE, put(PAGE.read_text(), "\n".join(rows), BEGIN))


if __name__ == "__main__":
    main()
