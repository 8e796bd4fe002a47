"""A number with its 95 % interval: what every result that is measured, rather than counted, is made of."""

from typing import Literal, Self

from pydantic import model_serializer, model_validator
from pydantic.dataclasses import dataclass

from interpbench.core.config import STRICT, Finite

MISS = 0.05
"""Probability with which an interval may miss the number that is estimated."""
IntervalKind = Literal["none", "exact", "score", "bootstrap", "null"]
"""Where an interval comes from: there is none; exact (Clopper and Pearson); a score interval (Newcombe); the
percentiles of a bootstrap; the middle of what random scores get."""
PARTS = ("value", "low", "high", "kind")


@dataclass(frozen=True, config=STRICT)
class Estimate:
    """A finite number and the ends of its 95 % interval; as JSON `[value, low, high, kind]`, or `[value]`.

    The percentiles of a bootstrap may leave out the number itself, where its draws are biased; an interval of
    any other kind contains it.

    Attributes:
        value: the number.
        low: the low end; None if there is no interval.
        high: the high end.
        kind: where the interval comes from.

    Raises:
        ValueError: if an end is missing, or the numbers are out of order.
    """

    value: Finite
    low: Finite | None = None
    high: Finite | None = None
    kind: IntervalKind = "none"

    def __post_init__(self) -> None:
        if self.low is None or self.high is None:
            if self.low is not self.high or self.kind != "none":
                ends = f"{self.low} and {self.high}"
                raise ValueError(f"an interval of kind {self.kind} needs two ends, not {ends}")
            return
        if self.kind == "none":
            raise ValueError(f"the interval from {self.low} to {self.high} has no kind")
        inside = self.kind == "bootstrap" or self.low <= self.value <= self.high
        if self.low > self.high or not inside:
            raise ValueError(f"{self.value} with the interval from {self.low} to {self.high} is out of order")

    @model_validator(mode="before")
    @classmethod
    def _from_list(cls, data: object) -> object:
        if isinstance(data, list) and len(data) <= len(PARTS):  # pyright: ignore[reportUnknownArgumentType]
            return dict(zip(PARTS, data))  # pyright: ignore[reportUnknownArgumentType]
        return data

    @model_serializer
    def _to_list(self) -> list[float | str | None]:
        return [self.value] if self.kind == "none" else [self.value, self.low, self.high, self.kind]

    @property
    def ends(self) -> tuple[float, float]:
        """The low and the high end; the number itself, twice, where there is no interval."""
        if self.low is None or self.high is None:
            return self.value, self.value
        return self.low, self.high

    @classmethod
    def share(cls, hits: float, tries: int) -> Self:
        """Returns a share with its exact interval; `hits` may be a mean over the orders of ties."""
        from interpbench.core.clopper_pearson import lower_bound, upper_bound

        low, high = lower_bound(hits, tries, MISS / 2), upper_bound(hits, tries, MISS / 2)
        return cls(float(hits / tries), low, high, "exact")
