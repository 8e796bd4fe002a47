"""Path patching (Wang et al. 2023, section 3.1; Goldowsky-Dill et al. 2023, section 2)."""

from collections.abc import Iterator
from typing import ClassVar, Literal

import numpy as np
import torch
from pydantic.dataclasses import dataclass
from torch import Tensor

from interpbench.circuits.scores import Cost, Scores
from interpbench.core.config import STRICT
from interpbench.discovery.directions import Direction, directed
from interpbench.discovery.method import AblationValue, Runs, chunks, clean_and_patch, measured, method
from interpbench.discovery.method_record import MethodRecord
from interpbench.tasks.metrics import MetricName
from interpbench.tasks.problem import Problem
from interpbench.transformer.interventions import Together
from interpbench.transformer.recording import Recording
from interpbench.transformer.routes import RoutedWriters


@method("path_patching")
@dataclass(frozen=True, config=STRICT)
class PathPatching:
    """Patches the direct paths from a sender (writer) to a receiver (reader), with nodes between them frozen.

    First, for every sender, the network is run with the sender patched and other nodes frozen at their clean
    outputs; this gives what each receiver would read. Then, for every edge, the network is run with that
    receiver's input patched and everything after it recomputed. The score is M(patched) − M(clean), averaged
    over pairs of inputs.

    Attributes:
        frozen: which nodes between sender and receiver are frozen: with `heads`, as in Wang et al., MLPs
            between them are recomputed, so direct paths include those through MLPs; with `all` every path
            is a single edge, and the scores are those of `exact`.
        metric: the metric M.
        ablation: what replaces the sender's output.
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
        deviations="all positions are patched at once",
        test="tests/discovery/test_discovery_theory.py against literal runs",
        sign="larger: patching the paths from writer to reader moves the output further",
        cost="two forward passes, one per writer, and one per edge from the edge's layer on",
        granularity="edge",
    )

    @directed
    @torch.no_grad()
    def __call__(self, problem: Problem) -> Scores:
        """Patches many senders in one call; then, for each sender, all its receivers."""
        graph, cost = problem.graph, Cost()
        runs = clean_and_patch(problem, self.metric, self.ablation, cost)
        scores = np.full(graph.legal.shape, np.nan)
        clean = float(runs.metric(runs.logits).mean())
        for sender, written in enumerate(_senders(problem, runs, self.frozen == "heads", cost)):
            receivers = np.flatnonzero(graph.legal[:, sender])
            edges = np.eye(len(graph.readers), dtype=bool)[receivers, :, None] & graph.legal
            scores[receivers, sender] = measured(problem, runs, edges, cost, written) - clean
        return Scores(graph, scores, cost=cost)


def _senders(problem: Problem, runs: Runs, free_mlps: bool, cost: Cost) -> Iterator[Tensor]:
    """Yields, for each sender, the outputs of all W writers with it patched and other nodes frozen.

    Args:
        problem: the network and its inputs.
        runs: the clean run and the ablation values.
        free_mlps: whether MLPs are recomputed instead of frozen.
        cost: the runs are added to it.

    Yields:
        The outputs `[W, D, T, B]`: D features of the residual stream, T positions, B examples.
    """
    network, nodes, examples = problem.network, problem.graph.nodes, len(problem.clean)
    free = torch.tensor([free_mlps and node.head is None and node.layer >= 0 for node in nodes])
    sources = torch.stack([runs.patch, runs.clean], 1)
    senders = torch.eye(len(nodes), dtype=torch.bool)
    chosen = torch.stack([senders, ~senders & ~free], 2).to(sources)
    for some in chunks(problem, len(nodes), examples):
        recording, routed = Recording(), RoutedWriters(chosen[some], sources)
        count = some.stop - some.start
        network.run_groups(runs.clean[0], Together(routed, recording), count)
        cost.count(count * examples)
        yield from recording.cache.stack.unflatten(3, (count, examples)).unbind(3)
