"""Measures how well circuits can be guessed without interventions or gradients: the shortcuts of models.

A shortcut is a size of weights or activations that tells a circuit's nodes or edges from the others. Its
AUROC is 0.5 where it says nothing; an AUROC below that is a shortcut, too, with its sign inverted.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from scipy.stats import mannwhitneyu

from interpbench.alignment.peers import copies_of_circuit
from interpbench.checkpoints.load import load_checkpoint, load_pairs
from interpbench.circuits.ground_truth import State
from interpbench.circuits.naming import EMBED
from interpbench.circuits.order_arrays import states_of_any_order
from interpbench.core.errors import InterpBenchError
from interpbench.discovery.fitted_features import (
    EDGE_FEATURES,
    NODE_FEATURES,
    features,
    fit_without,
    scores_by,
)
from interpbench.discovery.readings import readings
from interpbench.reports.tables import rows_table
from interpbench.scoring.against_copies import auroc_against_copies
from interpbench.scoring.intervals import bootstrap, resampling
from interpbench.tasks.catalogue import get_task, program_of

PAIRS = 64
"""The number of inputs on which sizes of activations are measured."""
PROBED = 256
"""The number of inputs on which nodes are read: probes are fitted to half of them."""
ALL = "all of these at once (fitted_features)"
"""The name of the baseline that was fitted to the released models without the program at hand."""
SAID = ("is the embedding", "writer's score as a node", "reader's score as a node")
"""Features that are no shortcuts: the embedding is not counted, and scores of nodes are measured as such."""
Ranked = tuple[str, str]
"""What a shortcut ranks, `nodes` or `edges`, and its name."""


@dataclass(frozen=True)
class Shortcuts:
    """The AUROC of each shortcut on one model.

    Attributes:
        program: the program of the model; models of one program are not independent.
        auroc: the AUROC of each shortcut, and how far from 0.5 it would be on average by chance.
        model: the name of the model's task.
    """

    program: str
    auroc: Mapping[Ranked, tuple[float, float]]
    model: str = ""


@torch.no_grad()
def shortcuts_of(folder: Path, among_peers: bool = False) -> Shortcuts:
    """Measures the shortcuts of a checkpoint, from what is required of any order and what is forbidden.

    The embedding, which is always required, is not counted as a node.

    Args:
        folder: the checkpoint.
        among_peers: whether the circuit is compared with other copies of it alone.

    Raises:
        TaskError: if it has no copies.
    """
    checkpoint = load_checkpoint(folder)
    pairs = load_pairs(folder)
    problem = pairs.problem(checkpoint.network, PAIRS)
    found, truth, legal = features(problem), checkpoint.truth, problem.graph.legal
    program = program_of(checkpoint.task)
    fitted = scores_by(fit_without(program), problem)
    assert fitted.own_nodes is not None
    nodes = states_of_any_order(truth, "node")
    nodes[problem.graph.node_index[EMBED]] = State.ALLOWED
    edges = states_of_any_order(truth, "qkv_edge")[legal]
    columns: dict[Ranked, tuple[np.ndarray, np.ndarray]] = {
        ("nodes", ALL): (nodes, fitted.own_nodes),
        ("edges", ALL): (edges, fitted.edges[legal]),
    }
    for name, values in zip(NODE_FEATURES, found.node.T):
        if name not in SAID:
            columns["nodes", name] = nodes, values
    for name, values in zip(EDGE_FEATURES, found.edge(np.zeros(len(NODE_FEATURES) + 1)).T):
        if name not in SAID:
            columns["edges", name] = edges, values
    if strange := next((key for key, (_, values) in columns.items() if not np.isfinite(values).all()), None):
        raise InterpBenchError(f"{folder}: {strange[1]} of {strange[0]} is not a finite number everywhere")
    probed = pairs.problem(checkpoint.network, min(PROBED, len(pairs.clean)))
    for name, values in readings(probed).items():
        columns["nodes", name] = np.where(np.isnan(values), State.ALLOWED, nodes), values
    if among_peers:
        copies = copies_of_circuit(get_task(checkpoint.record.task), truth)
        masks = {"nodes": [nodes for nodes, _ in copies], "edges": [edges[legal] for _, edges in copies]}
        measured = {
            key: _against(values, [mask & ~np.isnan(values) for mask in masks[key[0]]])
            for key, (_, values) in columns.items()
        }
    else:
        measured = {key: _auroc(*column) for key, column in columns.items()}
    auroc = {key: x for key, x in measured.items() if x is not None}
    return Shortcuts(program, auroc, checkpoint.record.task)


def _auroc(states: np.ndarray, values: np.ndarray) -> tuple[float, float] | None:
    """Returns the AUROC of values for required against forbidden ones; None if there are none of either.

    The second number is how far from 0.5 it would be on average by chance (normal approximation of the
    Mann-Whitney statistic).
    """
    required, forbidden = values[states == State.REQUIRED], values[states == State.FORBIDDEN]
    if not len(required) or not len(forbidden):
        return None
    wins = mannwhitneyu(required, forbidden, method="asymptotic").statistic
    pairs = len(required) * len(forbidden)
    deviation = math.sqrt((len(required) + len(forbidden) + 1) / (12 * pairs))
    return float(wins) / pairs, math.sqrt(2 / math.pi) * deviation


def _against(values: np.ndarray, copies: Sequence[np.ndarray]) -> tuple[float, float] | None:
    """Returns the same against other copies of the circuit, and the largest distance by chance."""
    found = auroc_against_copies(values, copies)
    if found is None:
        return None
    circuit, *others = copies
    chances = [
        _auroc(
            np.where(circuit & ~other, State.REQUIRED, np.where(other & ~circuit, 0, State.ALLOWED)), values
        )
        for other in others
    ]
    return found, max(chance for _, chance in filter(None, chances))


def summary(models: Sequence[Shortcuts]) -> list[dict[str, str | float | int]]:
    """Returns a row for each shortcut, those that tell most first.

    Means are over programs, each the mean of its models; intervals resample programs. A shortcut may be above
    0.5 on some models and below on others: so the mean distance from 0.5 is given, too, and that by chance.
    """
    rows: list[dict[str, str | float | int]] = []
    for key in dict.fromkeys(key for model in models for key in model.auroc):
        programs: dict[str, list[tuple[float, float, float]]] = {}
        for model in models:
            if key in model.auroc:
                value, chance = model.auroc[key]
                programs.setdefault(model.program, []).append((value, abs(value - 0.5), chance))
        values, distances, chances = np.array([np.mean(some, axis=0) for some in programs.values()]).T
        weights = resampling(len(values), "shortcuts")
        estimate = bootstrap(float(values.mean()), weights @ values / weights.sum(1))
        several = len(values) > 1
        rows.append(
            {
                "of": key[0],
                "shortcut": key[1],
                "AUROC": round(estimate.value, 3),
                "interval": f"{estimate.low:.3f} to {estimate.high:.3f}" if several else "–",
                "from 0.5": round(float(distances.mean()), 3),
                "by chance": round(float(chances.mean()), 3),
                "programs": len(values),
            }
        )
    return sorted(rows, key=lambda row: (row["of"] == "edges", -abs(float(row["AUROC"]) - 0.5)))


def by_model(models: Sequence[Shortcuts]) -> list[dict[str, str | float]]:
    """Returns a row for each model: of nodes and edges, the AUROC of the regression and of the best one."""
    rows: list[dict[str, str | float]] = []
    for model in models:
        row: dict[str, str | float] = {"model": model.model}
        for of in ("nodes", "edges"):
            single = {name: x for (what, name), (x, _) in model.auroc.items() if what == of and name != ALL}
            if not single:
                continue
            best = max(single, key=lambda name: abs(single[name] - 0.5))
            row[f"{of}: regression"] = round(model.auroc[of, ALL][0], 3)
            row[f"{of}: the best one"] = f"{single[best]:.3f} {best}"
        rows.append(row)
    return rows


def show_shortcuts(
    console: Console,
    folders: Sequence[Path],
    within: float | None,
    among_peers: bool = False,
    each: bool = False,
) -> bool:
    """Prints a table of shortcuts.

    Args:
        console: where to print.
        folders: the checkpoints.
        within: how far a mean AUROC may be from 0.5, and by how much the mean distance from 0.5 may exceed
            that by chance; None for any distance.
        among_peers: whether circuits are compared with other copies of them alone.
        each: whether a table of models comes first.

    Returns:
        Whether all shortcuts are that near.

    Raises:
        InterpBenchError: if a network has a part that these features do not support.
    """
    models = [shortcuts_of(folder, among_peers) for folder in folders]
    rows = summary(models)
    if not rows:
        raise InterpBenchError("these models have no required or no forbidden nodes and edges")
    if each:
        console.print(rows_table(by_model(models)))
    console.print(rows_table(rows))
    telling = [row for row in rows if within is not None and _tells(row) > within]
    for row in telling:
        said = f"{row['AUROC']}, {row['from 0.5']} from 0.5 on average ({row['by chance']} by chance)"
        console.print(f"a shortcut: {row['shortcut']} of {row['of']}: {said}", highlight=False, markup=False)
    return not telling


def _tells(row: dict[str, str | float | int]) -> float:
    """Returns how far a shortcut's mean is from 0.5, or its distance from that by chance, the larger one."""
    mean, distance, chance = (float(row[name]) for name in ("AUROC", "from 0.5", "by chance"))
    return max(abs(mean - 0.5), distance - chance)
