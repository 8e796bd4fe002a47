"""What a discovery method sees: a network, pairs of inputs, which positions count; never the answer."""

import copy
from dataclasses import dataclass, replace
from typing import Literal

from torch import Tensor
from torch.nn import functional

from interpbench.circuits.graph import Graph
from interpbench.transformer.model import Transformer

MetricName = Literal["kl", "mse", "logit_diff"]
"""The names of `Metric`."""
SlopeName = Literal["logit_diff"]
"""Those that have a gradient at the clean point, where a divergence from the clean output is 0 and flat."""


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
    """A number for each example from its logits, 0 on a clean run unless said otherwise.

    Names:
        kl: Kullback-Leibler divergence from the clean output distribution; of a numerical output `mse`.
        mse: squared difference from the clean output (numerical).
        logit_diff: how far the output has moved from the clean towards the corrupted answer, to first order:
            the logit difference between the corrupted and the clean answer, where these differ, or the
            signed difference for numbers. Its gradient does not vanish at the clean point.
    """

    VANISHING = ("kl", "mse")
    NAMES = (*VANISHING, "logit_diff")

    def __init__(self, name: str, problem: Problem, clean_logits: Tensor, corrupted_logits: Tensor):
        self.name, self.scored = name, problem.scored
        self.numerical = problem.numerical
        self.clean = clean_logits.detach()
        self.count = self.scored.sum(0).clamp(min=1)
        if self.numerical:
            self.direction = (corrupted_logits - clean_logits).detach()[0].sign()
        else:
            self.clean_log = functional.log_softmax(self.clean, 0)
            self.answers = (self.clean.argmax(0), corrupted_logits.detach().argmax(0))

    def __call__(self, logits: Tensor) -> Tensor:
        """Maps logits `[V, T, ..., B]` to `[..., B]`, the mean over an example's scored positions."""
        values = self._positions(logits)
        shape = (values.shape[0], *[1] * (values.ndim - 2), values.shape[-1])
        return (values * self.scored.view(shape)).sum(0) / self.count

    def part(self, rows: slice | Tensor) -> "Metric":
        """Returns the metric of some of the examples: a slice, or their numbers `[B]`."""
        part = copy.copy(self)
        part.scored, part.count, part.clean = self.scored[:, rows], self.count[rows], self.clean[..., rows]
        if self.numerical:
            part.direction = self.direction[..., rows]
        else:
            part.clean_log = self.clean_log[..., rows]
            part.answers = (self.answers[0][..., rows], self.answers[1][..., rows])
        return part

    def at(self, only: Tensor) -> "Metric":
        """Returns the metric of logits `[V, 1, ..., B]` at the only positions `[B]` that count."""

        def narrowed(values: Tensor) -> Tensor:
            return values.gather(-2, only.expand(*values.shape[:-2], 1, -1))

        part = copy.copy(self)
        part.scored, part.clean = narrowed(self.scored), narrowed(self.clean)
        if self.numerical:
            part.direction = narrowed(self.direction)
        else:
            part.clean_log = narrowed(self.clean_log)
            part.answers = narrowed(self.answers[0]), narrowed(self.answers[1])
        return part

    def _positions(self, logits: Tensor) -> Tensor:
        extra = (1,) * (logits.ndim - 3)
        if self.name == "logit_diff":
            return self._logit_diff(logits, extra)
        clean = self.clean.view(*self.clean.shape[:2], *extra, -1)
        if self.numerical:
            return (logits - clean)[0].square()
        clean_log = self.clean_log.view(clean.shape)
        return (clean_log.exp() * (clean_log - functional.log_softmax(logits, 0))).sum(0)

    def _logit_diff(self, logits: Tensor, extra: tuple[int, ...]) -> Tensor:
        if self.numerical:
            direction = self.direction.view(self.direction.shape[0], *extra, -1)
            return logits[0] * direction
        clean, corrupted = (
            answer.view(answer.shape[0], *extra, -1).expand(logits.shape[1:])[None] for answer in self.answers
        )
        return (logits.gather(0, corrupted) - logits.gather(0, clean))[0]
