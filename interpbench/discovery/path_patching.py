"""Path patching (Wang et al. 2023, section 3.1; Goldowsky-Dill et al. 2023, section 2)."""

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
import torch
from pydantic.dataclasses import dataclass
from torch import Tensor

from interpbench.circuits.scores import Cost, Scores
from interpbench.core.config import STRICT
from interpbench.discovery.directions import Direction, directed
from interpbench.discovery.method import AblationValue, Runs, chunks, clean_and_patch, edge_by_edge, method
from interpbench.discovery.method_record import MethodRecord
from interpbench.tasks.metrics import MetricName
from interpbench.tasks.problem import Problem
from interpbench.transformer.model import Interventions
from interpbench.transformer.patching import run_circuits


@method("path_patching")
@dataclass(frozen=True, config=STRICT)
class PathPatching:
    """Patches what one sender writes, as one receiver sees it, with the nodes between held at clean.

    First, for every sender, a run with the sender patched and other nodes frozen gives what each receiver
    would see; then, for every edge, a run in which only that receiver sees it and everything after it
    follows.

    Attributes:
        frozen: which nodes between sender and receiver are held at clean: `heads`, as in Wang et al., lets
            MLPs between them pass the change on, so that a direct path includes those through MLPs; `all`
            makes every path a single edge, and the scores those of `exact`.
        metric: what is measured.
        ablation: what the sender is patched with.
        direction: which runs are patched: clean ones (`noising`, as its authors), corrupted ones
            (`denoising`), or both.
    """

    frozen: Literal["heads", "all"] = "heads"
    metric: MetricName = "kl"
    ablation: AblationValue = "resample"
    direction: Direction = "noising"
    record: ClassVar[MethodRecord] = MethodRecord(
        source="Wang et al. 2023, section 3.1; Goldowsky-Dill et al. 2023, section 2",
        code="none compared",
        looks_at="clean and corrupted inputs, patched runs",
        units="the metric: nats of KL, or squared output",
        deviations="all positions at once",
        test="tests/discovery/test_discovery_theory.py against literal runs",
        sign="larger: patching the paths from writer to reader moves the output further",
        cost="two forward passes, one per writer, and one per edge from the edge's layer on",
        granularity="edge",
    )

    @directed
    @torch.no_grad()
    def __call__(self, problem: Problem) -> Scores:
        """Runs many senders, then many edges of a layer, in one call."""
        graph, cost = problem.graph, Cost()
        runs = clean_and_patch(problem, self.metric, self.ablation, cost)
        free = [node.head is None and node.layer >= 0 and self.frozen == "heads" for node in graph.nodes]
        seen = _senders(problem, runs, free, cost)

        def patch(chosen: Sequence[tuple[int, int]], layer: int) -> _Receivers:
            return _Receivers([r for r, _ in chosen], torch.stack([seen[r][..., w, :] for r, w in chosen]))

        edges = [(r, w) for r, w in np.argwhere(graph.legal).tolist()]
        return Scores(graph, edge_by_edge(problem, runs, edges, patch, cost), cost=cost)


def _senders(problem: Problem, runs: Runs, free: Sequence[bool], cost: Cost) -> list[Tensor]:
    """Returns, for each reader, what it sees `[D, T, W, B]` when each writer is the sender."""
    count = len(free)
    found: list[list[Tensor]] = []
    for rows in chunks(len(problem.clean), count):
        patch = _Senders(runs.clean[..., rows], runs.patch[..., rows], free)
        stream = runs.clean[0, ..., rows]
        run_circuits(problem.network, stream, patch, count)
        cost.count(stream.shape[-1] * count)
        found.append([x for place, readers in patch.seen for x in [place] * readers])
    return [torch.cat(pieces, -1) for pieces in zip(*found)]


class _Senders(Interventions):
    """Every writer the sender once, rows sender-major; notes the streams that readers see."""

    def __init__(self, clean: Tensor, patch: Tensor, free: Sequence[bool]):
        self.clean, self.patch, self.free = clean, patch, free
        self.seen: list[tuple[Tensor, int]] = []

    def write(self, writers: Sequence[int], outputs: Tensor) -> Tensor:
        """Holds what is frozen at clean, and patches the sender."""
        chosen = list(writers)
        own = outputs.view(*outputs.shape[:3], len(self.free), -1)
        if not self.free[chosen[0]]:
            own = self.clean[chosen].unsqueeze(3).expand_as(own)
        own = own.clone()
        for place, writer in enumerate(chosen):
            own[place, :, :, writer] = self.patch[writer]
        return own.flatten(3)

    def read(self, readers: Sequence[int], residual: Tensor) -> tuple[Tensor, Tensor | None]:
        """Notes the stream, and for how many readers it is."""
        self.seen.append((residual.view(*residual.shape[:2], len(self.free), -1), len(readers)))
        return residual, None


class _Receivers(Interventions):
    """One receiver for each candidate, rows candidate-major, that sees `received [K, D, T, B]`."""

    def __init__(self, receivers: Sequence[int], received: Tensor):
        self.receivers, self.received = receivers, received

    def read(self, readers: Sequence[int], residual: Tensor) -> tuple[Tensor, Tensor | None]:
        """Replaces what each candidate's receiver sees."""
        place = {reader: index for index, reader in enumerate(readers)}
        hit = [candidate for candidate, reader in enumerate(self.receivers) if reader in place]
        if not hit:
            return residual, None
        shape = *residual.shape[:2], len(self.receivers), -1
        own = residual.view(shape).expand(len(place), *[-1] * 4).clone()
        where = [place[self.receivers[candidate]] for candidate in hit]
        own[where, :, :, hit] = self.received[hit]
        return residual[..., :0], own.flatten(3)
