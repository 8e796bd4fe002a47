"""Compares CPR, CMD and the AUROC of a known circuit with MIB's own evaluation (Mueller et al. 2025).

Both are given the same ranking of all edges, in double precision. MIB ranks by absolute values for the AUROC,
by default by signed values for CPR, and breaks ties arbitrarily. The scores that both are given are therefore
the ranks of the signed scores, from 1, with ties in the order of the edges.
"""

from collections.abc import Iterator

import numpy as np

from benchmarks.published.eap_ig import direction_of_numbers, doubled
from benchmarks.published.exchange import Published, Row, close, edges_of
from interpbench.checkpoints.checkpoint_files import released
from interpbench.checkpoints.load import load_checkpoint
from interpbench.circuits.naming import eap_name
from interpbench.circuits.scores import Scores
from interpbench.discovery.method import get_method
from interpbench.scoring.behaviour import Behaviour
from interpbench.scoring.faithfulness import faithfulness
from interpbench.scoring.mib import mib_auroc
from interpbench.tasks.problem import Problem

REPOSITORY = "https://github.com/hannamw/MIB-circuit-track"  # with its submodule EAP-IG
COMMIT = "b759df3"
PATHS = ("MIB-circuit-track", "MIB-circuit-track/EAP-IG/src")
WORKER = "mib_worker.py"
METHODS = ("eap", "eap_ig", "exact", "random")


def compare(problem: Problem, theirs: Published, name: str) -> Iterator[Row]:
    """Yields two rows for the ranking of each method: on CPR and CMD, and on the AUROC."""
    circuit, graph = load_checkpoint(released()[name]).truth.circuit, problem.graph
    problem = doubled(problem)
    behaviour, direction = Behaviour(problem), direction_of_numbers(problem)
    names = [eap_name(edge) for edge in edges_of(graph)]
    inside = [edge for edge, kept in zip(names, circuit[graph.legal].tolist()) if kept]
    for method in METHODS:
        ranks = untied(get_method(method)(problem))
        scores = dict(zip(names, ranks.edges[graph.legal].tolist()))
        found = faithfulness(behaviour, ranks)
        ours = np.array([found[area]["value"] for area in ("cpr", "cmd")])
        areas = np.array(theirs.ask("areas", scores=scores, direction=direction))
        yield close(f"CPR and CMD of {method}", ours, areas, 1e-9)
        auroc = np.array([theirs.ask("auroc", scores=scores, circuit=inside)])
        yield close(f"AUROC of {method}", np.array([mib_auroc(graph, circuit, ranks.edges)]), auroc, 1e-9)


def untied(scores: Scores) -> Scores:
    """Returns the ranks of scores, with 1 for the lowest."""
    legal, ranks = scores.graph.legal, scores.edges.copy()
    ranks[legal] = 1 + np.argsort(np.argsort(scores.edges[legal], kind="stable"), kind="stable")
    return Scores(scores.graph, ranks)
