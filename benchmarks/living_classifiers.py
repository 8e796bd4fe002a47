"""Does a classifier that was trained on networks in regimes find the circuit of one that it has not seen?

A table of `docs/exam.md`. `fitted_features` has learned from networks in which all outside the circuit is
dead. Here classifiers are trained on networks of regime `alive` themselves, and on those of the whole exam,
without those of the program at hand: from sizes of weights and activations and what can be read of nodes
(as in `interpbench shortcuts`), as ranks within the network, logistic regression and gradient-boosted trees
say how likely a node or an edge is the circuit's. An edge also has what can be read of its writer. Other
classifiers are told nothing but the place in the network: how deep writer and reader are, and of which kind.
What those find no training of weights can take away. Each network has the same weight, and in it what is
required has the same as what is forbidden. The AUROC is given of all nodes (the embedding is none) and edges,
and of living networks against other copies of the circuit, as means over programs with the interval of a
bootstrap of programs.

Run: `python -m benchmarks.living_classifiers`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import rankdata
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from interpbench.alignment.peers import copies_of_circuit
from interpbench.checkpoints.find import find_checkpoints
from interpbench.checkpoints.load import load_checkpoint, load_pairs
from interpbench.circuits.graph import Graph
from interpbench.circuits.ground_truth import State
from interpbench.circuits.naming import EMBED, Node, Reader
from interpbench.circuits.order_arrays import states_of_any_order
from interpbench.core.files import write_text
from interpbench.core.process import prepare_torch
from interpbench.discovery.fitted_features import NODE_FEATURES, features
from interpbench.discovery.readings import readings
from interpbench.reports.models_page import put
from interpbench.runs.shortcuts import PAIRS, PROBED
from interpbench.scoring.against_copies import auroc_against_copies
from interpbench.scoring.intervals import bootstrap, resampling
from interpbench.tasks.catalogue import get_task, program_of

LIVING = "regime:alive"
GROUPS = {LIVING: "living networks", "regimes": "the whole exam"}
"""The groups of networks, and what the table calls them."""
PAGE = Path("docs/exam.md")
BEGIN = "<!-- made by `python -m benchmarks.living_classifiers` -->"
CLASSIFIERS: dict[str, Callable[[], Any]] = {
    "logistic regression": lambda: LogisticRegression(max_iter=1000),
    "gradient-boosted trees": lambda: HistGradientBoostingClassifier(max_iter=100, random_state=0),
}


@dataclass(frozen=True)
class Part:
    """The nodes or the edges of a network.

    Attributes:
        values: their sizes, as ranks within the network from 0 to 1, `[n, F]`.
        places: where they are, `[n, G]`.
        truth: 1 for what is required, 0 for what is forbidden, -1 for neither, `[n]`.
        copies: the copies of the circuit, which comes first, bool `[n]` each.
    """

    values: np.ndarray
    places: np.ndarray
    truth: np.ndarray
    copies: list[np.ndarray]


@torch.no_grad()
def parts_of(folder: Path) -> tuple[str, dict[str, Part]]:
    """Returns the program of a network, and its nodes and edges."""
    checkpoint, pairs = load_checkpoint(folder), load_pairs(folder)
    problem = pairs.problem(checkpoint.network, PAIRS)
    found, truth, legal = features(problem), checkpoint.truth, problem.graph.legal
    probed = pairs.problem(checkpoint.network, min(PROBED, len(pairs.clean)))
    read = np.stack(list(readings(probed).values()), 1)
    task = get_task(checkpoint.task)
    copies = [] if task.crowd is None else copies_of_circuit(task, truth)
    nodes = states_of_any_order(truth, "node")
    nodes[problem.graph.node_index[EMBED]] = State.ALLOWED
    edges = np.concatenate([found.edge(np.zeros(len(NODE_FEATURES) + 1)), read[found.writer]], 1)
    of_nodes = np.concatenate([found.node, read], 1)
    in_nodes, in_edges = [nodes for nodes, _ in copies], [edges[legal] for _, edges in copies]
    of_node, of_edge = places(problem.graph)
    return program_of(checkpoint.task), {
        "nodes": Part(_ranks(of_nodes), of_node, _labels(nodes), in_nodes),
        "edges": Part(
            _ranks(edges), of_edge, _labels(states_of_any_order(truth, "qkv_edge")[legal]), in_edges
        ),
    }


def places(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """Returns where nodes and edges are, `[W, G]` and `[E, G]`: depths, also as shares, and kinds."""
    depth = 2 * graph.n_layers

    def place(at: Node | Reader) -> list[float]:
        half = 2 * at.layer + (at.head is None) if at.layer >= 0 else -1
        kinds = (
            [at.slot == kind for kind in ("q", "k", "v", "mlp", "logits")] if isinstance(at, Reader) else []
        )
        return [half, half / depth, at == EMBED, at.head is None, depth, *kinds]

    rows = [[*place(edge.source), *place(edge.target)] for edge in graph.edges]
    nodes, edges = np.array([place(node) for node in graph.nodes], float), np.array(rows, float)
    apart = edges[:, [5]] - edges[:, [0]]
    return nodes, np.concatenate([edges, apart, apart / depth], 1)


def _ranks(values: np.ndarray) -> np.ndarray:
    """Returns ranks among the values of each column that are there; the middle where there is none."""
    ranks = rankdata(values, axis=0, nan_policy="omit") / (~np.isnan(values)).sum(0).clip(1)
    return np.nan_to_num(ranks, nan=0.5)


def _labels(states: np.ndarray) -> np.ndarray:
    return np.select([states == State.REQUIRED, states == State.FORBIDDEN], [1, 0], -1)


def trained(made: Any, parts: list[Part]) -> Any:
    """Trains a classifier on the nodes or the edges of networks, and returns it."""
    kept = [part.truth >= 0 for part in parts]
    labels = [part.truth[of] for part, of in zip(parts, kept)]
    weights = [0.5 / np.bincount(label, minlength=2)[label] for label in labels]
    weight = np.concatenate(weights)
    values = np.concatenate([part.values[of] for part, of in zip(parts, kept)])
    return made.fit(values, np.concatenate(labels), sample_weight=weight * len(weight) / weight.sum())


def cell(values: dict[str, list[float]]) -> str:
    """Returns the mean over programs, with its interval."""
    means = np.array([np.mean(some) for some in values.values()])
    found = bootstrap(means.mean(), resampling(len(means)) @ means / len(means))
    return f"{found.value:.2f} ({found.low:.2f} to {found.high:.2f})"


def tested(found: list[tuple[str, dict[str, Part]]], kind: str, make: Callable[[], Any]) -> tuple[str, str]:
    """Returns the AUROC on networks of unseen programs, of all nodes or edges and against copies."""
    plain: dict[str, list[float]] = {}
    against: dict[str, list[float]] = {}
    for unseen in sorted({program for program, _ in found}):
        learned = trained(make(), [parts[kind] for program, parts in found if program != unseen])
        for part in (parts[kind] for program, parts in found if program == unseen):
            scores, counted = learned.predict_proba(part.values)[:, 1], part.truth >= 0
            if len(np.unique(part.truth[counted])) > 1:
                plain.setdefault(unseen, []).append(roc_auc_score(part.truth[counted], scores[counted]))
            told = auroc_against_copies(scores, part.copies) if part.copies else None
            if told is not None:
                against.setdefault(unseen, []).append(told)
    return cell(plain), cell(against) if against else "–"


def main() -> None:
    """Trains the classifiers, and writes the table."""
    prepare_torch(threads=1)
    rows = [
        "| classifier | is told | trained and tested on | of | AUROC | against copies |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for group, called in GROUPS.items():
        found = [parts_of(folder) for folder in find_checkpoints(group)]
        told = {"sizes": found, "places alone": [(program, _where(parts)) for program, parts in found]}
        for name, make in CLASSIFIERS.items():
            for what, kind in product(told, ("nodes", "edges")):
                here, against = tested(told[what], kind, make)
                against = against if group == LIVING else "–"
                rows.append(f"| {name} | {what} | {called} ({len(found)}) | {kind} | {here} | {against} |")
                print(rows[-1], flush=True)
    write_text(PAGE, put(PAGE.read_text(), "\n".join(rows), BEGIN))


def _where(parts: dict[str, Part]) -> dict[str, Part]:
    """Returns nodes and edges with their places instead of their sizes."""
    return {kind: replace(part, values=part.places) for kind, part in parts.items()}


if __name__ == "__main__":
    main()
