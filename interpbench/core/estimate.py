"""The type of all measured results: a number with its 95 % interval."""

from typing import Literal, Self

from pydantic import model_serializer, model_validator
from pydantic.dataclasses import dataclass

from interpbench.core.config import STRICT, Finite

MISS = 0.05
"""The probability with which an interval may not contain the true number."""
IntervalKind = Literal["none", "exact", "score", "bootstrap", "null"]
"""The kind of an interval: `none`, no interval; `exact`, Clopper and Pearson's; `score`, Newcombe's score
interval; `bootstrap`, percentiles of a bootstrap; `null`, the middle 95 % of a metric of random scores."""
PARTS = ("value", "low", "high", "kind")
"""The parts of an estimate, in the order in which JSON lists them."""


@dataclass(frozen=True, config=STRICT)
class Estimate:
    """A finite number with its 95 % interval; in JSON `[value, low, high, kind]`, or `[value]`.

    An interval contains the number, except that of a bootstrap: the percentiles of biased samples may not.

    Attributes:
        value: the number.
        low: the low end of the interval; None if there is no interval.
        high: the high end of the interval; None if there is no interval.
        kind: the kind of the interval.

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
        """The low and the high end of the interval; if there is none, both are the number itself."""
        if self.low is None or self.high is None:
            return self.value, self.value
        return self.low, self.high

    @classmethod
    def share(cls, hits: float, tries: int) -> Self:
        """Returns hits / tries with its exact interval; `hits` may be a fraction, as a mean over ties."""
        from interpbench.core.clopper_pearson import lower_bound, upper_bound

        low, high = lower_bound(hits, tries, MISS / 2), upper_bound(hits, tries, MISS / 2)
        return cls(float(hits / tries), low, high, "exact")
