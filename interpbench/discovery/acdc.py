"""Automatic circuit discovery, ACDC (Conmy et al. 2023): the decisions of the sequential algorithm, batched.

Readers are visited from the last to the first in the graph's order, and for each reader its writers from
the last to the first. An edge is removed for good if patching it, in addition to all edges removed so far,
raises the metric by less than the threshold. A reader whose node no longer reaches the output loses all its
edges.

The same decisions are taken in far fewer, larger calls of the network:

* all activations below the current reader's layer are still clean, so runs start at that layer;
* for one reader the runs "first edge removed", "first two removed", … are evaluated together and
  accepted up to the first that is rejected; the number of runs doubles if all are accepted and else halves;
* all thresholds advance together, and runs that several of them need are evaluated once;
* heads and MLPs without a kept edge to later readers, and those before the reader, are not computed;
* an edge whose writer has equal clean and patched outputs needs no run: patching it changes nothing.

Decisions are taken in float64, in which batching changes a metric by about 1e-15.
"""

import copy
from collections.abc import Sequence
from typing import Annotated, ClassVar

import numpy as np
import torch
from pydantic import Field
from pydantic.dataclasses import dataclass

from interpbench.circuits.naming import Node
from interpbench.circuits.scores import Cost, Scores
from interpbench.core.config import STRICT, Count
from interpbench.discovery.directions import Direction, directed
from interpbench.discovery.method import AblationValue, Runs, clean_and_patch, measured, method
from interpbench.discovery.method_record import MethodRecord
from interpbench.tasks.metrics import MetricName
from interpbench.tasks.problem import Problem

FIRST_WIDTH = 8
"""The number of removals that are tried in the first call."""
GRID = (*(float(f"{lead}e{power}") for power in range(-6, 0) for lead in (1, 3)), 1.0)
"""The default thresholds τ: 1e-6, 3e-6, 1e-5, … 1."""


@method("acdc")
@dataclass(frozen=True, config=STRICT)
class Acdc:
    """Greedily removes every edge whose patching raises the metric by less than a threshold τ.

    With H the circuit so far, the edge e is removed if M(H without e) − M(H) < τ (algorithm 1 of the paper).
    The change is signed, so an edge whose removal lowers the metric always goes. Each threshold gives a
    circuit; an edge's score is the smallest threshold at which it is removed.

    Attributes:
        thresholds: thresholds τ of the metric, one circuit each.
        metric: the metric M, which rises as the output moves away from the clean one.
        ablation: what replaces the writer's output in a removed edge.
        max_width: the most removals that are tried in one call.
        direction: which runs are patched: clean ones (`noising`, as its authors), corrupted ones
            (`denoising`), or both.
    """

    thresholds: Annotated[tuple[Annotated[float, Field(gt=0)], ...], Field(min_length=1)] = GRID
    metric: MetricName = "kl"
    ablation: AblationValue = "resample"
    max_width: Count = 32
    direction: Direction = "noising"
    record: ClassVar[MethodRecord] = MethodRecord(
        source="Conmy et al. 2023, section 3 and algorithm 1",
        code="ArthurConmy/Automatic-Circuit-Discovery at bc99ace; auto-circuit 1.0.1",
        looks_at="clean and corrupted inputs, patched runs",
        units="threshold on the metric (nats of KL)",
        deviations=(
            "readers and their writers from the last to "
            "the first in one fixed order; decisions in double precision; token and position "
            "embedding are one writer"
        ),
        test=(
            "tests/discovery/test_discovery.py against literal ACDC; compare_published --tools acdc; "
            "benchmarks.discovery"
        ),
        budget="21 thresholds in the paper, 13 here",
        sign="the smallest threshold at which the edge is removed; ten times the largest if never",
        cost="about one call per reader and kept edge, from the reader's layer on",
        granularity="edge",
    )

    @directed
    @torch.no_grad()
    def __call__(self, problem: Problem) -> Scores:
        """Finds a circuit for each threshold."""
        cost = Cost()
        precise = Problem(
            copy.deepcopy(problem.network).double(),
            problem.clean,
            problem.corrupted,
            problem.scored,
            problem.seed,
        )
        runs = clean_and_patch(precise, self.metric, self.ablation, cost)
        search = _Search(precise, runs, self.thresholds, self.max_width, cost)
        search.run()
        graph = problem.graph
        removed_at = np.where(
            search.removed, np.array(self.thresholds)[:, None, None], 10 * max(self.thresholds)
        )
        scores = np.where(graph.legal, removed_at.min(0), np.nan)
        circuits = {tau: graph.legal & ~search.removed[i] for i, tau in enumerate(self.thresholds)}
        return Scores(graph, scores, cost=cost, circuits=circuits)


class _Search:
    """The searches of all thresholds: which edges each has removed, and the metric of its circuit."""

    def __init__(self, problem: Problem, runs: Runs, thresholds: Sequence[float], max_width: int, cost: Cost):
        self.problem, self.runs, self.thresholds, self.cost = problem, runs, thresholds, cost
        self.graph, self.max_width = problem.graph, max_width
        self.removed = np.zeros((len(thresholds), *self.graph.legal.shape), bool)
        self.current = [float(runs.metric(runs.logits).mean())] * len(thresholds)
        self.differs = (runs.patch - runs.clean).flatten(1).ne(0).any(1).cpu().numpy()
        self.width = [min(FIRST_WIDTH, max_width)] * len(thresholds)

    def run(self) -> None:
        """Visits every reader, from the last to the first."""
        for reader in reversed(range(len(self.graph.readers))):
            writers = np.flatnonzero(self.graph.legal[reader])[::-1]
            active: list[int] = []
            for search in range(len(self.thresholds)):
                if self._connected(search, reader):
                    self.removed[search, reader, writers[~self.differs[writers]]] = True
                    active.append(search)
                else:
                    self.removed[search, reader, writers] = True
            self._prune(reader, writers[self.differs[writers]].tolist(), active)

    def _connected(self, search: int, reader: int) -> bool:
        """Returns whether the node that `reader` belongs to still has an edge to a later reader."""
        place = self.graph.readers[reader]
        if place.slot == "logits":
            return True
        column = self.graph.node_index[Node(place.layer, place.head)]
        return bool((self.graph.legal[:, column] & ~self.removed[search, :, column]).any())

    def _prune(self, reader: int, writers: list[int], active: list[int]) -> None:
        """Tries to remove a reader's edges from these writers, several at a time, in all active searches."""
        done = dict.fromkeys(active, 0)
        while waiting := [search for search in active if done[search] < len(writers)]:
            states: dict[bytes, np.ndarray] = {}
            tried: dict[int, list[bytes]] = {}
            for search in waiting:
                state = self.removed[search].copy()
                keys: list[bytes] = []
                for writer in writers[done[search] : done[search] + self.width[search]]:
                    state[reader, writer] = True
                    key = state.tobytes()
                    states.setdefault(key, state.copy())
                    keys.append(key)
                tried[search] = keys
            every = np.stack(list(states.values()))
            values = dict(zip(states, measured(self.problem, self.runs, every, self.cost).tolist()))
            for search, keys in tried.items():
                accepted = 0
                for key in keys:
                    if values[key] - self.current[search] >= self.thresholds[search]:
                        break
                    self.current[search] = values[key]
                    self.removed[search] = states[key]
                    accepted += 1
                full = accepted == len(keys)
                done[search] += accepted + (not full)
                width = self.width[search]
                self.width[search] = min(2 * width, self.max_width) if full else max(1, width // 2)
