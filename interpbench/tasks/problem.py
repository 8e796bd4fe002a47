"""What a discovery method sees: a network, clean and corrupted inputs, scored positions; never the truth.

Shapes: V outputs, T positions with BOS, B pairs of inputs; `...` stands for further axes, such as one of
circuits.
"""

import copy
import logging
from dataclasses import dataclass, replace

from torch import Tensor

from interpbench.circuits.graph import Graph
from interpbench.core.errors import ConfigError
from interpbench.tasks.metrics import METRICS, Reference
from interpbench.transformer.model import Transformer
from interpbench.transformer.tensors import (
    CircuitsLogits,
    ExampleMetrics,
    PairMask,
    PairTokens,
    ReferenceLogits,
    ScoredPositions,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Pairs:
    """Pairs of a clean and a corrupted input, for discovery.

    Attributes:
        clean: `[B, T]` token ids.
        corrupted: `[B, T]` token ids of inputs whose output differs from the clean one's at a scored
            position.
        scored: `[B, T]` bool, the positions at which the clean input has an output; never BOS.
    """

    clean: PairTokens
    corrupted: PairTokens
    scored: PairMask

    def problem(self, network: Transformer, examples: int | None = None, seed: int = 0) -> "Problem":
        """Returns the problem of finding a network's circuit with these pairs.

        Args:
            network: the network under study.
            examples: how many of the pairs are used, the first ones; None for all. If there are fewer,
                all are used, and a warning says so.
            seed: the seed for methods that draw at random.

        Raises:
            ConfigError: if not even one pair is to be used.
        """
        if examples is not None and examples < 1:
            raise ConfigError(f"examples={examples}: a method needs one pair of inputs at least")
        if examples is not None and examples > len(self.clean):
            log.warning(
                "examples=%d, but there are %d pairs of inputs: all are used", examples, len(self.clean)
            )
        device = network.unembed.W_U.device
        clean, corrupted, scored = (
            x[:examples].to(device) for x in (self.clean, self.corrupted, self.scored)
        )
        return Problem(network, clean, corrupted, scored.T, seed)


@dataclass(frozen=True)
class Problem:
    """A network whose circuit is to be found, with clean and corrupted inputs.

    Attributes:
        network: the network under study.
        clean: `[B, T]` token ids.
        corrupted: `[B, T]` token ids of inputs, drawn so that their outputs differ from the clean ones'.
        scored: `[T, B]` bool, the positions at which the clean output counts; never BOS.
        seed: the seed for methods that draw at random.
    """

    network: Transformer
    clean: PairTokens
    corrupted: PairTokens
    scored: ScoredPositions
    seed: int = 0

    def __repr__(self) -> str:
        pairs, length = self.clean.shape
        return f"Problem: {len(self.graph.edges):,} q/k/v edges; {pairs:,} pairs of inputs of {length} tokens"

    @property
    def graph(self) -> Graph:
        """The network's graph: its nodes, readers and edges."""
        return self.network.cfg.graph

    def exchanged(self) -> "Problem":
        """Returns the problem with clean and corrupted inputs exchanged."""
        return replace(self, clean=self.corrupted, corrupted=self.clean)

    @property
    def only(self) -> Tensor | None:
        """The scored position `[B]` of each example, if each has exactly one; else None."""
        return self.scored.int().argmax(0) if bool((self.scored.sum(0) == 1).all()) else None

    @property
    def numerical(self) -> bool:
        """Whether the output is a number rather than a class."""
        return self.network.cfg.d_out == 1


class Metric:
    """A metric on the inputs of a problem: it maps the logits of a run to a number for each example.

    Args:
        name: the name of the metric (`metrics.METRICS`).
        problem: the problem, which says what positions are scored.
        clean_logits: the logits `[V, T, B]` of the clean run.
        corrupted_logits: the logits `[V, T, B]` of the corrupted run.
    """

    def __init__(
        self, name: str, problem: Problem, clean_logits: ReferenceLogits, corrupted_logits: ReferenceLogits
    ):
        self._measure = METRICS[name].measure
        self.scored = problem.scored
        self.count = self.scored.sum(0).clamp(min=1)
        self.reference = Reference.of(clean_logits, corrupted_logits, problem.numerical)

    def __call__(self, logits: CircuitsLogits) -> ExampleMetrics:
        """Returns the metric `[..., B]` of logits `[V, T, ..., B]`, the mean over scored positions."""
        values = self._measure(logits, self.reference)
        shape = (values.shape[0], *[1] * (values.ndim - 2), values.shape[-1])
        return (values * self.scored.view(shape)).sum(0) / self.count

    def part(self, rows: slice | Tensor) -> "Metric":
        """Returns the metric on some of the examples, given as a slice or as their indices."""
        part = copy.copy(self)
        part.scored, part.count = self.scored[:, rows], self.count[rows]
        part.reference = self.reference.map(lambda values: values[..., rows])
        return part

    def at(self, only: Tensor) -> "Metric":
        """Returns the metric on logits `[V, 1, ..., B]` of the scored positions `only [B]` alone."""

        def narrowed(values: Tensor) -> Tensor:
            return values.gather(-2, only.expand(*values.shape[:-2], 1, -1))

        part = copy.copy(self)
        part.scored, part.reference = narrowed(self.scored), self.reference.map(narrowed)
        return part
