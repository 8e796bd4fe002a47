"""Gradients of the metric at every reader and writer, which all first-order methods share.

The first-order effect of patching the edge u→v is ⟨ã_u − a_u, ∂M/∂in_v⟩: a_u is the clean output of writer u,
ã_u its ablation value, in_v the input of reader v and M the metric. So one backward pass scores all edges.
Methods that average gradients over several points of a path run all points in one batch.

Letters of shapes: W writers, R readers, D features of the residual stream, T positions, B examples, P points.
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
class Gradients:
    """The metric's gradients for some of the examples, at each point.

    Attributes:
        rows: which examples.
        delta: ablation values minus clean activations, `[W, D, T, B]`.
        readers: the gradients with respect to readers' inputs, in the graph's order; one tensor
            `[some readers, D, T, P, B]` for the readers of one place (q, k and v of a layer, an MLP, logits).
        writers: the gradients with respect to writers' outputs, `[W, D, T, P, B]`.
    """

    rows: slice
    delta: Tensor
    readers: list[Tensor]
    writers: Tensor

    def node_effects(self) -> Tensor:
        """Returns the first-order effect of patching each node, averaged over points, `[W, B]`."""
        return (self.writers.mean(3) * self.delta).sum((1, 2))

    def edge_effects(self, graph: Graph) -> Tensor:
        """Returns the first-order effect of patching each edge, averaged over points, `[R, W, B]`.

        It is 0 where `graph` has no edge.
        """
        effects = self.delta.new_zeros(*graph.legal.shape, self.delta.shape[-1])
        for readers, before, grad in self.by_reader(graph):
            effects[readers, :before] = torch.einsum("rdtb,wdtb->rwb", grad.mean(3), self.delta[:before])
        return effects

    def by_mask(self, graph: Graph) -> Tensor:
        """Returns the first-order effect of patching each edge, summed over examples, `[P, R, W]`.

        It is 0 where `graph` has no edge.
        """
        points = self.writers.shape[3]
        total = self.delta.new_zeros(points, *graph.legal.shape, dtype=torch.float64)
        for readers, before, grad in self.by_reader(graph):
            total[:, readers, :before] += torch.einsum("rdtkb,wdtb->krw", grad, self.delta[:before])
        return total

    def by_reader(self, graph: Graph) -> Iterator[tuple[slice, int, Tensor]]:
        """Yields, for each tensor of `readers`: whose it is, how many writers these see, and the tensor."""
        first = 0
        for grad in self.readers:
            last = first + len(grad)
            yield slice(first, last), graph.writers_before(graph.readers[first]), grad
            first = last


def gradients(
    problem: Problem,
    runs: Runs,
    moved: Tensor,
    cost: Cost,
    network: Transformer | None = None,
    blocked: int | None = None,
) -> Iterator[Gradients]:
    """Yields the metric's gradients at points between the clean and the patched activations.

    Args:
        problem: the network and its inputs.
        runs: the clean activations and the ablation values.
        moved: how far each writer is moved at each point, from clean (0) to patched (1), `[P, W]`.
        cost: the passes are added to it.
        network: the network to run, if its backward pass is to differ from that of the problem's network.
        blocked: a layer through whose heads and MLP no gradient flows.

    Yields:
        The gradients for as many examples as fit into one call.
    """
    network, points = network or problem.network, len(moved)
    for rows in chunks(problem, len(problem.clean), points):
        delta = (runs.patch - runs.clean)[..., rows]
        stream, taps = runs.clean[0, ..., rows].detach().requires_grad_(), Taps(delta, moved, blocked)
        logits = network.run_groups(stream, taps, points)
        value = runs.metric.part(rows)(logits).sum()
        cost.count(stream.shape[-1] * points, backward=True)
        yield Gradients(rows, delta, *_gradients(value, taps, points))


def clean_gradients(
    problem: Problem, metric: str, ablation: AblationValue, cost: Cost, network: Transformer | None = None
) -> Iterator[Gradients]:
    """Yields the metric's gradients at the clean point.

    Their forward pass is the clean run itself, so two forward passes and one backward pass are enough.

    Args:
        problem: the network and its inputs.
        metric: the name of a metric.
        ablation: what replaces clean activations.
        cost: the passes are added to it.
        network: the network to run, if its backward pass is to differ from that of the problem's network.

    Yields:
        The gradients for as many examples as fit into one call.

    Raises:
        UnknownNameError: if there is no such metric.
        DiscoveryError: if the metric is for numerical outputs and the network's outputs are classes.
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
        yield Gradients(rows, delta, *_gradients(measured(logits).sum(), taps, 1))


def _gradients(value: Tensor, taps: Taps, points: int) -> tuple[list[Tensor], Tensor]:
    """Returns the gradients of `value` with respect to readers' inputs and to writers' outputs."""
    taken = [*taps.inputs, *taps.outputs]
    grads = torch.autograd.grad(value, taken, allow_unused=True, materialize_grads=True)
    grads = [grad.unflatten(-1, (points, -1)) for grad in grads]
    readers = len(taps.inputs)
    return list(grads[:readers]), torch.cat(grads[readers:])


def attribute(problem: Problem, found: Iterable[Gradients]) -> Tensor:
    """Returns the first-order effect of patching each edge, averaged over examples, `[P, R, W]`.

    It is 0 where the network has no edge.
    """
    return torch.stack([some.by_mask(problem.graph) for some in found]).sum(0) / len(problem.clean)


def along_inputs(problem: Problem, points: Sequence[float]) -> Tensor:
    """Returns how far writers are moved, `[P, W]`: the embedding to each of `points`, others not at all."""
    moved = torch.zeros(len(points), len(problem.graph.nodes))
    moved[:, 0] = torch.tensor(points)
    return moved


def midpoints(steps: int) -> list[float]:
    """Returns the midpoints of `steps` equal intervals between 0 and 1."""
    return [(step + 0.5) / steps for step in range(steps)]
