"""What a discovery method sees: a network, pairs of inputs, which positions count; never the answer."""

import copy
from dataclasses import dataclass, replace

from torch import Tensor

from interpbench.circuits.graph import Graph
from interpbench.tasks.metrics import METRICS, Reference
from interpbench.transformer.model import Transformer


@dataclass(frozen=True)
class Pairs:
    """Inputs for discovery: `clean` and `corrupted [B, T]` token ids; `scored [B, T]` bool.

    For each clean input, the corrupted one is another whose output differs at a scored position.
    """

    clean: Tensor
    corrupted: Tensor
    scored: Tensor

    def problem(self, network: Transformer, examples: int | None = None, seed: int = 0) -> "Problem":
        """Returns the problem of explaining `network` on (the first `examples` of) these pairs."""
        device = network.unembed.W_U.device
        clean, corrupted, scored = (
            x[:examples].to(device) for x in (self.clean, self.corrupted, self.scored)
        )
        return Problem(network, clean, corrupted, scored.T, seed)


@dataclass(frozen=True)
class Problem:
    """A network with clean and corrupted inputs.

    T counts BOS, V outputs, B pairs.

    Attributes:
        network: the network under study.
        clean: `[B, T]` token ids.
        corrupted: `[B, T]`: for each clean input another one, drawn so that the outputs differ.
        scored: `[T, B]` bool: the positions at which the clean output counts; never BOS.
        seed: for methods that draw at random.
    """

    network: Transformer
    clean: Tensor
    corrupted: Tensor
    scored: Tensor
    seed: int = 0

    def __repr__(self) -> str:
        pairs, length = self.clean.shape
        return f"Problem: {len(self.graph.edges):,} q/k/v edges; {pairs:,} pairs of inputs of {length} tokens"

    @property
    def graph(self) -> Graph:
        """The network's nodes, readers and edges."""
        return self.network.cfg.graph

    def exchanged(self) -> "Problem":
        """Returns the problem in which clean and corrupted inputs have changed places."""
        return replace(self, clean=self.corrupted, corrupted=self.clean)

    @property
    def only(self) -> Tensor | None:
        """The position `[B]` that counts, if each example has one; else None."""
        return self.scored.int().argmax(0) if bool((self.scored.sum(0) == 1).all()) else None

    @property
    def numerical(self) -> bool:
        """Whether the output is a number rather than a class."""
        return self.network.cfg.d_out == 1


class Metric:
    """A metric of a problem's runs: a number for each example from its logits.

    Args:
        name: which one, of `metrics.METRICS`.
        problem: whose positions are scored.
        clean_logits: `[V, T, B]`.
        corrupted_logits: `[V, T, B]`.
    """

    def __init__(self, name: str, problem: Problem, clean_logits: Tensor, corrupted_logits: Tensor):
        self._measure = METRICS[name].measure
        self.scored = problem.scored
        self.count = self.scored.sum(0).clamp(min=1)
        self.reference = Reference.of(clean_logits, corrupted_logits, problem.numerical)

    def __call__(self, logits: Tensor) -> Tensor:
        """Maps logits `[V, T, ..., B]` to `[..., B]`, the mean over an example's scored positions."""
        values = self._measure(logits, self.reference)
        shape = (values.shape[0], *[1] * (values.ndim - 2), values.shape[-1])
        return (values * self.scored.view(shape)).sum(0) / self.count

    def part(self, rows: slice | Tensor) -> "Metric":
        """Returns the metric of some of the examples: a slice, or their numbers `[B]`."""
        part = copy.copy(self)
        part.scored, part.count = self.scored[:, rows], self.count[rows]
        part.reference = self.reference.map(lambda values: values[..., rows])
        return part

    def at(self, only: Tensor) -> "Metric":
        """Returns the metric of logits `[V, 1, ..., B]` at the only positions `[B]` that count."""

        def narrowed(values: Tensor) -> Tensor:
            return values.gather(-2, only.expand(*values.shape[:-2], 1, -1))

        part = copy.copy(self)
        part.scored, part.reference = narrowed(self.scored), self.reference.map(narrowed)
        return part
