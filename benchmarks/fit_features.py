"""Fits the coefficients of `fitted_features` on the released models, leaving out one program at a time.

Models of other seeds (`models/<task>/seed1`) are scored, and recognised, but the fit does not use them: it
would weigh their programs more than others.

The fit is a logistic regression of required against forbidden nodes or edges, with an L2 penalty of 1
(scikit-learn's default). All models have the same weight, and in each model required and forbidden ones have
the same weight. The AUROC on the models of the program that is left out is printed.

Run: `python -m benchmarks.fit_features [--write]`.
"""

import argparse
import json
import statistics
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from interpbench.checkpoints.checkpoint_files import released, seeds
from interpbench.checkpoints.load import load_checkpoint, load_pairs
from interpbench.circuits.ground_truth import Level, State
from interpbench.core.process import prepare_torch
from interpbench.discovery.fitted_features import (
    EDGE_FEATURES,
    FILE,
    NODE_FEATURES,
    Features,
    Fit,
    features,
    fingerprint,
    weighed,
)
from interpbench.tasks.catalogue import known_task

PAIRS = 64
LEVELS: tuple[tuple[str, Level], ...] = (("node", "node"), ("edge", "qkv_edge"))


@dataclass(frozen=True)
class Model:
    """A released model: its features, and its truth at nodes and edges as 0, 1, or -1 for neither."""

    name: str
    fitted: bool
    program: str
    features: Features
    fingerprint: str
    truth: dict[str, np.ndarray]


@torch.no_grad()
def models() -> list[Model]:
    """Returns all released models."""
    found: list[Model] = []
    fitted = released()
    for name, folder in sorted({**fitted, **seeds()}.items()):
        checkpoint = load_checkpoint(folder)
        problem = load_pairs(folder).problem(checkpoint.network, PAIRS)
        truth: dict[str, np.ndarray] = {}
        for kind, level in LEVELS:
            states = checkpoint.truth.at(level)
            states = states if level == "node" else states[problem.graph.legal]
            truth[kind] = np.select([states == State.REQUIRED, states == State.FORBIDDEN], [1, 0], -1)
        task = known_task(checkpoint.task)
        program = checkpoint.task if task is None else task.program_name
        found.append(
            Model(name, name in fitted, program, features(problem), fingerprint(problem.network), truth)
        )
    return found


def coefficients(parts: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Returns the fitted coefficients, the intercept last, from features `[n, F]` and labels of models."""
    x, y, weights = [], [], []
    for values, truth in parts:
        counted = truth >= 0
        x.append(values[counted])
        y.append(truth[counted])
        shares = np.bincount(truth[counted], minlength=2)
        weights.append(1 / np.maximum(shares, 1)[truth[counted]])
    weight = np.concatenate(weights)
    fitted = LogisticRegression(C=1.0, max_iter=1000).fit(
        np.concatenate(x), np.concatenate(y), weight * len(weight) / weight.sum()
    )
    return np.array([*fitted.coef_[0], *fitted.intercept_])


def fit(used: list[Model]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the coefficients of nodes and of edges."""
    node = coefficients([(model.features.node, model.truth["node"]) for model in used])
    edge = coefficients([(model.features.edge(node), model.truth["edge"]) for model in used])
    assert len(node) == len(NODE_FEATURES) + 1 and len(edge) == len(EDGE_FEATURES) + 1
    return node, edge


def fit_without(program: str | None, found: list[Model]) -> Fit:
    """Returns the fit on all models but those of a program; on all if it is None."""
    node, edge = fit([model for model in found if model.fitted and model.program != program])
    without = sorted({model.fingerprint for model in found if model.program == program})
    rounded = [[round(float(x), 6) for x in values] for values in (node, edge)]
    return {"program": program, "without": without, "node": rounded[0], "edge": rounded[1]}


def main() -> None:
    """Fits the coefficients and prints them with their AUROC; with `--write`, writes them too."""
    parser = argparse.ArgumentParser(description="Fits the coefficients of fitted_features.")
    parser.add_argument("--write", action="store_true", help="store them")
    options = parser.parse_args()
    prepare_torch(threads=1)
    found = models()
    made = [fit_without(program, found) for program in (None, *sorted({model.program for model in found}))]
    areas: dict[str, list[float]] = {"node": [], "edge": []}
    for model in found:
        one = next(fit for fit in made if fit["program"] == model.program)
        values = {"node": model.features.node, "edge": model.features.edge(np.array(one["node"]))}
        for kind, _ in LEVELS:
            counted = model.truth[kind] >= 0
            scores = weighed(values[kind], np.array(one[kind]))[counted]  # type: ignore[literal-required]
            areas[kind].append(float(roc_auc_score(model.truth[kind][counted], scores)))
        print(f"{model.name:30} nodes {areas['node'][-1]:.3f}  edges {areas['edge'][-1]:.3f}")
    print(
        f"{'mean':30} nodes {statistics.mean(areas['node']):.3f}  edges {statistics.mean(areas['edge']):.3f}"
    )
    if options.write:
        FILE.write_text("[\n" + ",\n".join(json.dumps(fit) for fit in made) + "\n]\n")


if __name__ == "__main__":
    main()
