"""Metrics: how far a run has moved from the clean one. Adding one is a function here, under `@metric`.

Shapes: V outputs, T positions, B examples; `...` stands for further axes, such as one of candidate circuits.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, WithJsonSchema
from torch import Tensor
from torch.nn import functional

from interpbench.core.errors import UnknownNameError
from interpbench.core.registry import Registry


@dataclass(frozen=True)
class Reference:
    """The runs with which metrics compare logits.

    Attributes:
        clean: clean logits `[V, T, B]`.
        clean_log: their log-probabilities `[V, T, B]`; None for numbers.
        answers: the clean and the corrupted answer, class codes `[T, B]`; None for numbers.
        direction: `[T, B]`: the sign of the corrupted output minus the clean one; None for classes.
    """

    clean: Tensor
    clean_log: Tensor | None
    answers: tuple[Tensor, Tensor] | None
    direction: Tensor | None

    @classmethod
    def of(cls, clean: Tensor, corrupted: Tensor, numerical: bool) -> "Reference":
        """Makes it from clean and corrupted logits `[V, T, B]`."""
        clean, corrupted = clean.detach(), corrupted.detach()
        if numerical:
            return cls(clean, None, None, (corrupted - clean)[0].sign())
        return cls(clean, functional.log_softmax(clean, 0), (clean.argmax(0), corrupted.argmax(0)), None)

    def map(self, change: Callable[[Tensor], Tensor]) -> "Reference":
        """Returns it with every tensor changed, as for some of the positions or examples."""
        return replace(
            self,
            clean=change(self.clean),
            clean_log=None if self.clean_log is None else change(self.clean_log),
            answers=None if self.answers is None else (change(self.answers[0]), change(self.answers[1])),
            direction=None if self.direction is None else change(self.direction),
        )


Measure = Callable[[Tensor, Reference], Tensor]


class MetricKind(NamedTuple):
    """A metric as registered.

    Attributes:
        measure: maps logits `[V, T, ..., B]` and the reference to numbers `[T, ..., B]`.
        flat: whether its gradient vanishes at the clean point, so that first-order methods cannot take it.
        numbers_only: whether it is of numerical outputs alone.
    """

    measure: Measure
    flat: bool
    numbers_only: bool


METRICS: Registry[MetricKind] = Registry("metric")


def metric(name: str, flat: bool = False, numbers_only: bool = False) -> Callable[[Measure], Measure]:
    """Registers a metric; see `MetricKind`."""

    def register(measure: Measure) -> Measure:
        METRICS.add(name, MetricKind(measure, flat, numbers_only))
        return measure

    return register


@metric("kl", flat=True)
def kl(logits: Tensor, reference: Reference) -> Tensor:
    """Kullback-Leibler divergence from the clean output distribution; of a numerical output `mse`."""
    if reference.clean_log is None:
        return mse(logits, reference)
    clean_log = _beside(reference.clean_log, logits, 2)
    return (clean_log.exp() * (clean_log - functional.log_softmax(logits, 0))).sum(0)


@metric("mse", flat=True, numbers_only=True)
def mse(logits: Tensor, reference: Reference) -> Tensor:
    """Squared difference from the clean output, a number."""
    return (logits - _beside(reference.clean, logits, 2))[0].square()


@metric("logit_diff")
def logit_diff(logits: Tensor, reference: Reference) -> Tensor:
    """How far the output has moved from the clean towards the corrupted answer, to first order.

    The logit difference between the corrupted and the clean answer, where these differ, or the signed
    difference for numbers. Its gradient does not vanish at the clean point.
    """
    if reference.answers is None:
        assert reference.direction is not None
        return logits[0] * _beside(reference.direction, logits, 1)
    clean, corrupted = (
        _beside(answer, logits, 1).expand(logits.shape[1:])[None] for answer in reference.answers
    )
    return (logits.gather(0, corrupted) - logits.gather(0, clean))[0]


def _beside(values: Tensor, logits: Tensor, leading: int) -> Tensor:
    """Views `values [..., T, B]`, of so many leading axes, as `[..., T, 1, ..., B]`, as logits have axes."""
    return values.view(*values.shape[:leading], *(1,) * (logits.ndim - 3), -1)


def _known(name: str) -> str:
    """Refuses a metric that there is not, with the nearest names."""
    try:
        METRICS[name]
    except UnknownNameError as error:
        raise ValueError(str(error)) from None
    return name


def _sloped(name: str) -> str:
    """Refuses a metric whose gradient vanishes at the clean point."""
    if METRICS[_known(name)].flat:
        sloped = [known for known, kind in METRICS.items() if not kind.flat]
        raise ValueError(f"{name} is flat at the clean point; choose from {', '.join(sloped)}")
    return name


MetricName = Annotated[str, AfterValidator(_known), WithJsonSchema({"enum": list(METRICS), "type": "string"})]
"""The name of a metric."""
SlopeName = Annotated[
    str,
    AfterValidator(_sloped),
    WithJsonSchema({"enum": [name for name, kind in METRICS.items() if not kind.flat], "type": "string"}),
]
"""The name of one that has a gradient at the clean point."""
