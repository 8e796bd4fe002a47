"""Gradients of the metric at every reader and writer: what all first-order methods share.

The metric's derivative by an edge's mask is ⟨ã_u − a_u, ∂M/∂in_v⟩, so one backward pass gives all edges.
The points at which a method takes the gradient are rows of one batch.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from interpbench.circuits.graph import Graph
from interpbench.circuits.scores import Cost
from interpbench.discovery.method import AblationValue, Runs, ablation_values, chunks, known_metric
from interpbench.tasks.problem import Metric, Problem
from interpbench.transformer.model import Transformer
from interpbench.transformer.recording import record
from interpbench.transformer.taps import Taps


@dataclass(frozen=True)
class Slopes:
    """The metric's gradients for some examples, one for each point and example.

    Attributes:
        rows: which examples.
        delta: `[W, D, T, B]` patch minus clean.
        readers: `[some readers, D, T, point, B]` each, in the readers' order: by what is read.
        writers: `[W, D, T, point, B]`: by what is written.
    """

    rows: slice
    delta: Tensor
    readers: list[Tensor]
    writers: Tensor

    def node_effects(self) -> Tensor:
        """Returns `[W, B]`: the first-order effect of patching each node, averaged over points."""
        return (self.writers.mean(3) * self.delta).sum((1, 2))

    def edge_effects(self, graph: Graph) -> Tensor:
        """Returns `[R, W, B]`: the same of patching each edge; 0 where there is none."""
        effects = self.delta.new_zeros(*graph.legal.shape, self.delta.shape[-1])
        for readers, before, grad in self.by_reader(graph):
            effects[readers, :before] = torch.einsum("rdtb,wdtb->rwb", grad.mean(3), self.delta[:before])
        return effects

    def by_mask(self, graph: Graph) -> Tensor:
        """Returns `[point, R, W]`: the metric's derivative by every edge's mask, summed over examples."""
        points = self.writers.shape[3]
        total = self.delta.new_zeros(points, *graph.legal.shape, dtype=torch.float64)
        for readers, before, grad in self.by_reader(graph):
            total[:, readers, :before] += torch.einsum("rdtkb,wdtb->krw", grad, self.delta[:before])
        return total

    def by_reader(self, graph: Graph) -> Iterator[tuple[slice, int, Tensor]]:
        """Yields the readers that read at one place, how many writers they see, and their gradients."""
        first = 0
        for grad in self.readers:
            last = first + len(grad)
            yield slice(first, last), graph.writers_before(graph.readers[first]), grad
            first = last


def slopes(
    problem: Problem,
    runs: Runs,
    moved: Tensor,
    cost: Cost,
    network: Transformer | None = None,
    blocked: int | None = None,
) -> Iterator[Slopes]:
    """Yields the gradients, for as many examples at a time as go into one call.

    Args:
        problem: the problem.
        runs: its clean and patched activations.
        moved: `[point, W]`: how far each point's writers are moved from clean (0) to patched (1).
        cost: gets the passes added.
        network: the problem's, or one that differs from it in its backward pass.
        blocked: a layer whose outputs pass no gradient on.
    """
    network, points = network or problem.network, len(moved)
    for rows in chunks(problem, len(problem.clean), points):
        delta = (runs.patch - runs.clean)[..., rows]
        stream, taps = runs.clean[0, ..., rows].detach().requires_grad_(), Taps(delta, moved, blocked)
        logits = network.run_groups(stream, taps, points)
        value = runs.metric.part(rows)(logits).sum()
        cost.count(stream.shape[-1] * points, backward=True)
        yield Slopes(rows, delta, *_gradients(value, taps, points))


def clean_slopes(
    problem: Problem, metric: str, ablation: AblationValue, cost: Cost, network: Transformer | None = None
) -> Iterator[Slopes]:
    """Yields the gradients at the clean point; their forward pass is the clean run, so there is no other.

    Args:
        problem: the problem.
        metric: the name of a metric.
        ablation: what takes the place of clean activations.
        cost: gets the passes added: two forward, one backward.
        network: the problem's, or one that differs from it in its backward pass.

    Raises:
        DiscoveryError: if the metric has no such name.
    """
    known_metric(metric, problem)
    network = network or problem.network
    with torch.no_grad():
        corrupted_logits, corrupted = record(problem.network, problem.corrupted)
    cost.count(len(problem.corrupted))
    patch = ablation_values(corrupted.stack, ablation)
    for rows in chunks(problem, len(problem.clean), 1):
        some = replace(problem, clean=problem.clean[rows], scored=problem.scored[:, rows])
        embedding = network.embedding(some.clean).detach()
        taps = Taps()
        logits = network.run(embedding.requires_grad_(), taps)
        measured = Metric(metric, some, logits, corrupted_logits[..., rows])
        cost.count(len(some.clean), backward=True)
        delta = patch[..., rows] - torch.cat(taps.outputs).detach()
        yield Slopes(rows, delta, *_gradients(measured(logits).sum(), taps, 1))


def _gradients(value: Tensor, taps: Taps, points: int) -> tuple[list[Tensor], Tensor]:
    """Returns a value's gradients `[..., point, B]` at the readers and at the writers."""
    taken = [*taps.inputs, *taps.outputs]
    grads = torch.autograd.grad(value, taken, allow_unused=True, materialize_grads=True)
    grads = [grad.unflatten(-1, (points, -1)) for grad in grads]
    readers = len(taps.inputs)
    return list(grads[:readers]), torch.cat(grads[readers:])


def attribute(problem: Problem, found: Iterable[Slopes]) -> Tensor:
    """Returns `[point, R, W]`: the metric's derivative by every edge's mask, averaged over examples.

    Where there is no edge it is 0.
    """
    return torch.stack([some.by_mask(problem.graph) for some in found]).sum(0) / len(problem.clean)


def along_inputs(problem: Problem, points: Sequence[float]) -> Tensor:
    """Returns `[point, W]`: the embedding moved to these points of the path from clean (0) to patched (1)."""
    moved = torch.zeros(len(points), len(problem.graph.nodes))
    moved[:, 0] = torch.tensor(points)
    return moved


def midpoints(steps: int) -> list[float]:
    """Returns the middles of `steps` equal parts of the path from 0 to 1."""
    return [(step + 0.5) / steps for step in range(steps)]
