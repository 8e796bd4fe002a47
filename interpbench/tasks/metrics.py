"""Metrics: how far the logits of a run have moved from those of the clean run.

A new metric is a function here, decorated with `@metric`.

Shapes: V outputs, T positions, B examples; `...` stands for further axes, such as one of circuits.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, WithJsonSchema
from torch import Tensor
from torch.nn import functional

from interpbench.core.errors import UnknownNameError
from interpbench.core.registry import Registry
from interpbench.transformer.tensors import (
    AnswerCodes,
    AnswerSigns,
    CircuitsLogits,
    PositionMetrics,
    ReferenceLogits,
)


@dataclass(frozen=True)
class Reference:
    """What metrics compare logits with: the clean and the corrupted run.

    Attributes:
        clean: the clean logits `[V, T, B]`.
        clean_log: the clean log-probabilities `[V, T, B]`; None for a numerical output.
        answers: the clean and the corrupted answer, class codes `[T, B]`; None for a numerical output.
        direction: `[T, B]`, the sign of the corrupted minus the clean output; None for classes.
    """

    clean: ReferenceLogits
    clean_log: ReferenceLogits | None
    answers: tuple[AnswerCodes, AnswerCodes] | None
    direction: AnswerSigns | None

    @classmethod
    def of(cls, clean: ReferenceLogits, corrupted: ReferenceLogits, numerical: bool) -> "Reference":
        """Returns the reference of two runs.

        Args:
            clean: the clean logits `[V, T, B]`.
            corrupted: the corrupted logits `[V, T, B]`.
            numerical: whether the output is a number rather than a class.
        """
        clean, corrupted = clean.detach(), corrupted.detach()
        if numerical:
            return cls(clean, None, None, (corrupted - clean)[0].sign())
        return cls(clean, functional.log_softmax(clean, 0), (clean.argmax(0), corrupted.argmax(0)), None)

    def map(self, change: Callable[[Tensor], Tensor]) -> "Reference":
        """Returns a reference with `change` applied to every tensor, such as a choice of examples."""
        return replace(
            self,
            clean=change(self.clean),
            clean_log=None if self.clean_log is None else change(self.clean_log),
            answers=None if self.answers is None else (change(self.answers[0]), change(self.answers[1])),
            direction=None if self.direction is None else change(self.direction),
        )


Measure = Callable[[CircuitsLogits, Reference], PositionMetrics]


class MetricKind(NamedTuple):
    """A metric as registered.

    Attributes:
        measure: maps logits `[V, T, ..., B]` and a reference to the metric at each position, `[T, ..., B]`.
        flat: whether its gradient vanishes on the clean run, so that first-order methods cannot use it.
        numbers_only: whether it is for numerical outputs only.
    """

    measure: Measure
    flat: bool
    numbers_only: bool


METRICS: Registry[MetricKind] = Registry("metric")


def metric(name: str, flat: bool = False, numbers_only: bool = False) -> Callable[[Measure], Measure]:
    """Returns a decorator that registers a function as a metric.

    Args:
        name: the metric's name in configurations and records.
        flat: whether its gradient vanishes on the clean run, so that first-order methods cannot use it.
        numbers_only: whether it is for numerical outputs only.
    """

    def register(measure: Measure) -> Measure:
        METRICS.add(name, MetricKind(measure, flat, numbers_only))
        return measure

    return register


@metric("kl", flat=True)
def kl(logits: CircuitsLogits, reference: Reference) -> PositionMetrics:
    """Returns the Kullback-Leibler divergence from the clean output distribution; `mse` for numbers."""
    if reference.clean_log is None:
        return mse(logits, reference)
    clean_log = _beside(reference.clean_log, logits, 2)
    return (clean_log.exp() * (clean_log - functional.log_softmax(logits, 0))).sum(0)


@metric("mse", flat=True, numbers_only=True)
def mse(logits: CircuitsLogits, reference: Reference) -> PositionMetrics:
    """Returns the squared difference of a numerical output from the clean one."""
    return (logits - _beside(reference.clean, logits, 2))[0].square()


@metric("logit_diff")
def logit_diff(logits: CircuitsLogits, reference: Reference) -> PositionMetrics:
    """Returns the logit difference of the corrupted answer minus the clean one.

    For a numerical output, it is the output times the sign of the corrupted minus the clean output. It grows
    as the output moves from the clean to the corrupted answer, and its gradient does not vanish on the clean
    run.
    """
    if reference.answers is None:
        assert reference.direction is not None
        return logits[0] * _beside(reference.direction, logits, 1)
    clean, corrupted = (
        _beside(answer, logits, 1).expand(logits.shape[1:])[None] for answer in reference.answers
    )
    return (logits.gather(0, corrupted) - logits.gather(0, clean))[0]


def _beside(values: Tensor, logits: Tensor, leading: int) -> Tensor:
    """Returns a view `[..., T, 1, ..., B]` of `values [..., T, B]` that broadcasts against logits' axes."""
    return values.view(*values.shape[:leading], *(1,) * (logits.ndim - 3), -1)


def _known(name: str) -> str:
    """Returns the name of a metric; refuses an unknown one, with the nearest names."""
    try:
        METRICS[name]
    except UnknownNameError as error:
        raise ValueError(str(error)) from None
    return name


def _sloped(name: str) -> str:
    """Returns the name of a metric; refuses one whose gradient vanishes on the clean run."""
    if METRICS[_known(name)].flat:
        sloped = [known for known, kind in METRICS.items() if not kind.flat]
        raise ValueError(f"the gradient of {name} vanishes on the clean run; choose from {', '.join(sloped)}")
    return name


MetricName = Annotated[str, AfterValidator(_known), WithJsonSchema({"enum": list(METRICS), "type": "string"})]
"""The name of a registered metric."""
SlopeName = Annotated[
    str,
    AfterValidator(_sloped),
    WithJsonSchema({"enum": [name for name, kind in METRICS.items() if not kind.flat], "type": "string"}),
]
"""The name of a metric whose gradient does not vanish on the clean run."""
