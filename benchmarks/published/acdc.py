"""Compares ACDC with the code of Conmy et al., by the circuits at several thresholds.

Both decide in double precision, by the same KL divergence (or squared difference) at the scored positions,
and visit readers and writers in the same order, for which their code is called with `indices_mode="normal"`.
Their graph also has edges within a head, from a query, key or value input to the query, key or value. This
project has no such edges, so they are not tried, and their nodes are passed over.
"""

import copy
from collections.abc import Iterator

import numpy as np

from benchmarks.published.exchange import Published, Row, edges_of
from interpbench.circuits.naming import Hook, acdc_hooks
from interpbench.discovery.acdc import Acdc
from interpbench.tasks.problem import Problem

REPOSITORY, COMMIT = "https://github.com/ArthurConmy/Automatic-Circuit-Discovery", "bc99ace"
PATHS = ("Automatic-Circuit-Discovery",)
WORKER = "acdc_worker.py"
THRESHOLDS = (0.001, 0.01, 0.1)


def compare(problem: Problem, theirs: Published, name: str) -> Iterator[Row]:
    """Yields a row for each threshold: on how many edges the two circuits agree."""
    graph = problem.graph

    def place(hook: Hook) -> tuple[str, int | None]:
        return hook[0], hook[1][-1]

    edges = [[*place(child), *place(parent)] for child, parent in map(acdc_hooks, edges_of(graph))]
    made = Problem(
        copy.deepcopy(problem.network), problem.clean, problem.corrupted, problem.scored, problem.seed
    )
    found = Acdc(thresholds=THRESHOLDS)(made)
    for threshold in THRESHOLDS:
        ours = found.circuits[threshold][graph.legal]
        other = np.array(theirs.ask("acdc", threshold=threshold, edges=edges, numerical=problem.numerical))
        differ = int((ours != other).sum())
        said = f"{ours.sum()} edges kept, theirs {other.sum()}; {differ} decided differently"
        yield Row(f"acdc, threshold {threshold:g}", len(edges), said, differ == 0)
