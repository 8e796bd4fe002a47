"""What do the weights of living networks give away, copied or trained? A table of `docs/exam.md`.

Each network has copies of its circuit (`regime=alive`). Its edges are guessed in three ways that patch
nothing. One is the regression on sizes that was fitted to released models (`fitted_features`), one are
virtual weights. The third, *paths*, is what an adversary would follow who knows how such networks are
made: the Frobenius norm of what a node writes with, times all that leads from the reader to the logits.
That is built from the end. A hidden unit counts by what its output brings there, a value by what its head
writes, queries and keys by each other. The mean of the unembedding over classes is taken off, as what
moves all classes alike changes no answer.

Run: `python -m benchmarks.copied_networks`, of released networks; `FOLDERS` after it adds runs of one's own.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from interpbench.alignment.peers import copies_of_circuit
from interpbench.checkpoints.find import find_checkpoints
from interpbench.checkpoints.load import load_checkpoint
from interpbench.circuits.graph import Graph
from interpbench.circuits.naming import Node, Reader
from interpbench.core.files import write_text
from interpbench.core.process import prepare_torch
from interpbench.reports.models_page import put
from interpbench.runs.shortcuts import ALL, shortcuts_of
from interpbench.scoring.against_copies import auroc_against_copies
from interpbench.tasks.catalogue import get_task
from interpbench.training.reader_inputs import input_map, layer_parts
from interpbench.transformer.model import Transformer

RELEASED = "regime:alive"
"""The released living networks, as a group of models."""
PAGE = Path("docs/exam.md")
BEGIN = "<!-- made by `python -m benchmarks.copied_networks` -->"


@torch.no_grad()
def path_norms(network: Transformer, graph: Graph) -> np.ndarray:
    """Returns the score of each edge by paths to the logits, `[R, W]`."""
    maps: dict[Reader, Tensor] = {}
    scores = np.zeros((len(graph.readers), len(graph.nodes)))
    for number, reader in reversed(list(enumerate(graph.readers))):
        maps[reader] = _small(_onwards(network, graph, reader, maps))
        for place in range(graph.writers_before(reader)):
            scores[number, place] = float((_written(network, graph.nodes[place]) @ maps[reader]).norm())
    return scores


def _onwards(network: Transformer, graph: Graph, reader: Reader, maps: Mapping[Reader, Tensor]) -> Tensor:
    """Returns a reader's matrix times all that leads on from it, `[D, *]`, given those of later readers."""
    weight, _ = input_map(network, reader)
    if reader.slot == "logits":
        return weight - weight.mean(1, keepdim=True) if weight.shape[1] > 1 else weight
    node = graph.node_index[Node(reader.layer, reader.head)]
    later = torch.cat([each for other, each in maps.items() if graph.writers_before(other) > node], 1)
    attention, mlp = layer_parts(network, reader.layer)
    if reader.head is None:
        return weight * (mlp.W_out @ later).norm(dim=1)
    values = attention.W_V[reader.head] @ (attention.W_O[reader.head] @ later)
    if reader.slot == "v":
        return values
    other = (attention.W_K if reader.slot == "q" else attention.W_Q)[reader.head]
    return weight * other.norm(dim=0) * values.norm()


def _small(matrix: Tensor) -> Tensor:
    """Returns a matrix `[D, D]` at most whose product with its transpose is the same."""
    if matrix.shape[1] <= matrix.shape[0]:
        return matrix
    left, sizes, _ = torch.linalg.svd(matrix, full_matrices=False)
    return left * sizes


def _written(network: Transformer, node: Node) -> Tensor:
    """Returns what a node writes with, `[*, D]`."""
    if node.layer < 0:
        tables = [network.embed.W_E] + [network.pos_embed.W_pos] * (network.pos_embed is not None)
        return torch.cat(tables)
    attention, mlp = layer_parts(network, node.layer)
    return mlp.W_out if node.head is None else attention.W_V[node.head] @ attention.W_O[node.head]


def row(folder: Path) -> str:
    """Returns a row of the table."""
    one = load_checkpoint(folder)
    verdict, truth = one.verdict(), one.truth
    assert verdict is not None
    sizes, peers = shortcuts_of(folder).auroc, shortcuts_of(folder, among_peers=True).auroc
    paths = path_norms(one.network, truth.graph)
    legal = truth.qkv_edges >= 0
    circuit = truth.circuit[legal]
    wins = paths[legal][circuit][:, None] - paths[legal][~circuit]
    copies = [edges for _, edges in copies_of_circuit(get_task(one.task), truth)]
    against = auroc_against_copies(paths, copies)
    values = [
        *(sizes[key][0] for key in (("nodes", ALL), ("edges", ALL), ("edges", "virtual weights"))),
        float((wins > 0).mean() + (wins == 0).mean() / 2),
        *(peers[key][0] for key in (("nodes", ALL), ("edges", ALL)) if key in peers),
        float("nan") if against is None else against,
    ]
    made = "copied" if one.record.training.get("start") else "trained"
    said = " | ".join(f"{value:.2f}" for value in values)
    minutes = one.record.cpu_seconds / 60
    return f"| `{one.task}` | {made} | {one.record.steps:,} | {minutes:.1f} | {verdict.grade} | {said} |"


def main() -> None:
    """Measures the networks, and writes the table."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path, help="runs of other networks, trained with start=")
    prepare_torch(threads=1)
    folders = [*parser.parse_args().folders, *find_checkpoints(RELEASED)]
    rows = [
        "| network | made | steps | CPU minutes | grade | sizes: nodes | sizes: edges | virtual "
        "weights | paths | against copies, by sizes: nodes | edges | by paths |",
        "| --- | --- | --: | --: | --- | --: | --: | --: | --: | --: | --: | --: |",
        *(row(folder) for folder in folders),
    ]
    print("\n".join(rows))
    write_text(PAGE, put(PAGE.read_text(), "\n".join(rows), BEGIN))


if __name__ == "__main__":
    main()
