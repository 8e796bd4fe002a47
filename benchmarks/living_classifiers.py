"""Does a classifier that was trained on living networks find the circuit of one that it has not seen?

A table of `docs/exam.md`. `fitted_features` has learned from networks in which all outside the circuit is
dead. Here classifiers are trained on networks of regime `alive` themselves, without those of the program at
hand: from sizes of weights and activations (those of `interpbench shortcuts`), as ranks within the network,
logistic regression and gradient-boosted trees say how likely a node or an edge is the circuit's. Each
network has the same weight, and in it what is required has the same as what is forbidden. The AUROC is
given of all nodes (the embedding is none) and edges, and against other copies of the circuit, as means over
programs with the interval of a bootstrap of programs.

Run: `python -m benchmarks.living_classifiers`.
"""

from collections.abc import Callable
from dataclasses import dataclass
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
from interpbench.circuits.ground_truth import State
from interpbench.circuits.naming import EMBED
from interpbench.core.files import write_text
from interpbench.core.process import prepare_torch
from interpbench.discovery.fitted_features import NODE_FEATURES, features
from interpbench.reports.models_page import put
from interpbench.scoring.against_copies import auroc_against_copies
from interpbench.scoring.intervals import bootstrap, resampling
from interpbench.tasks.catalogue import get_task, program_of

MODELS = "regime:alive"
PAIRS = 64
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
        truth: 1 for what is required, 0 for what is forbidden, -1 for neither, `[n]`.
        copies: the copies of the circuit, which comes first, bool `[n]` each.
    """

    values: np.ndarray
    truth: np.ndarray
    copies: list[np.ndarray]


@torch.no_grad()
def parts_of(folder: Path) -> tuple[str, dict[str, Part]]:
    """Returns the program of a network, and its nodes and edges."""
    checkpoint = load_checkpoint(folder)
    problem = load_pairs(folder).problem(checkpoint.network, PAIRS)
    found, truth, legal = features(problem), checkpoint.truth, problem.graph.legal
    copies = copies_of_circuit(get_task(checkpoint.task), truth)
    nodes = truth.nodes.copy()
    nodes[problem.graph.node_index[EMBED]] = State.ALLOWED
    edges = found.edge(np.zeros(len(NODE_FEATURES) + 1))
    return program_of(checkpoint.task), {
        "nodes": Part(_ranks(found.node), _labels(nodes), [nodes for nodes, _ in copies]),
        "edges": Part(_ranks(edges), _labels(truth.qkv_edges[legal]), [edges[legal] for _, edges in copies]),
    }


def _ranks(values: np.ndarray) -> np.ndarray:
    return rankdata(values, axis=0) / len(values)


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


def main() -> None:
    """Trains the classifiers, and writes the table."""
    prepare_torch(threads=1)
    found = [parts_of(folder) for folder in find_checkpoints(MODELS)]
    programs = sorted({program for program, _ in found})
    rows = [
        f"| classifier, {len(found)} networks | of | AUROC | against copies |",
        "| --- | --- | --- | --- |",
    ]
    for name, make in CLASSIFIERS.items():
        for kind in ("nodes", "edges"):
            plain: dict[str, list[float]] = {}
            against: dict[str, list[float]] = {}
            for unseen in programs:
                learned = trained(make(), [parts[kind] for program, parts in found if program != unseen])
                for part in (parts[kind] for program, parts in found if program == unseen):
                    scores = learned.predict_proba(part.values)[:, 1]
                    counted = part.truth >= 0
                    plain.setdefault(unseen, []).append(roc_auc_score(part.truth[counted], scores[counted]))
                    told = auroc_against_copies(scores, part.copies)
                    if told is not None:
                        against.setdefault(unseen, []).append(told)
            rows.append(f"| {name} | {kind} | {cell(plain)} | {cell(against)} |")
            print(rows[-1], flush=True)
    write_text(PAGE, put(PAGE.read_text(), "\n".join(rows), BEGIN))


if __name__ == "__main__":
    main()
