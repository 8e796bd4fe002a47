"""What a network still does wrong, which the next draws of training follow."""

from collections.abc import Iterable, Sequence
from dataclasses import field

import numpy as np
from pydantic.dataclasses import dataclass

from interpbench.circuits.certificate import Certificate, Kind
from interpbench.core.config import STRICT, Share

KEPT = 0.5
"""What is left of a share of failures after the next validation, whose rows are few."""
LEAST = 1e-5
"""The share of wrong rows below which a failure is forgotten."""
FAR = 4
"""How many times as large the largest share of one group has to be for draws to follow this group alone."""
EVEN = 1e-3
"""The weight of rows whose strata had no failures, beside shares of wrong rows."""


@dataclass(frozen=True, config=STRICT)
class Failures:
    """The shares of rows that were wrong in the last validations; what was right throughout has none.

    Attributes:
        targets: the shares by target, the kind and the place of an intervention, as in `variables a0.h1`.
        bases: the shares by stratum of the bases, over all interventions.
        sources: the shares by stratum of the first sources, over all interventions.
    """

    targets: dict[str, Share] = field(default_factory=dict[str, float])
    bases: dict[str, Share] = field(default_factory=dict[str, float])
    sources: dict[str, Share] = field(default_factory=dict[str, float])

    def then(self, later: "Failures") -> "Failures":
        """Returns the failures after a later validation: its own, and a part of what was wrong before."""
        return Failures(
            _decayed(self.targets, later.targets),
            _decayed(self.bases, later.bases),
            _decayed(self.sources, later.sources),
        )

    def besides(self, others: "Failures") -> "Failures":
        """Returns these failures together with others, each by the larger of its shares."""
        return Failures(
            _larger(self.targets, others.targets),
            _larger(self.bases, others.bases),
            _larger(self.sources, others.sources),
        )

    def shares(self, kind: Kind, places: Iterable[str]) -> np.ndarray:
        """Returns the share of wrong rows of each place, float64 `[place]`."""
        return np.array([self.targets.get(target(kind, place), 0.0) for place in places])

    def are_of(self, *kinds: Kind) -> bool:
        """Returns whether interventions of these kinds were wrong far more often than all others."""
        worst = {True: 0.0, False: 0.0}
        for name, share in self.targets.items():
            among = name.partition(" ")[0] in kinds
            worst[among] = max(worst[among], share)
        return worst[True] > FAR * worst[False]


NO_FAILURES = Failures()


def missed_by(certificate: Certificate) -> Failures:
    """Returns what a certificate found wrong, by target: it has more rows than validations."""
    shares = {
        target(kind, place): max((1 - rate.share for rate in draws.values()), default=0.0)
        for kind, places in certificate.rates.items()
        for place, draws in places.items()
    }
    return Failures({name: round(share, 6) for name, share in sorted(shares.items()) if share > 0})


def target(kind: Kind, place: str) -> str:
    """Returns the name of a target."""
    return f"{kind} {place}"


def pick(rng: np.random.Generator, failed: np.ndarray, rows: int, follow: float) -> np.ndarray:
    """Draws a target for each row, by index: evenly, or in a share of the rows in proportion to failures.

    Args:
        rng: the random generator.
        failed: the share of wrong rows of each target.
        rows: the number of rows.
        follow: the share of the rows that follow failures, if there are any.
    """
    even = rng.integers(len(failed), size=rows)
    if not follow or not failed.any():
        return even
    likely = rng.choice(len(failed), size=rows, p=failed / failed.sum())
    return np.where(rng.random(rows) < follow, likely, even)


def prefer(rng: np.random.Generator, labels: np.ndarray, failed: np.ndarray, count: int) -> np.ndarray:
    """Draws rows, by index and without repetition, in proportion to the failures of their strata.

    Args:
        rng: the random generator.
        labels: bool `[row, stratum]`, the strata of each row.
        failed: the share of wrong rows of each stratum.
        count: the number of rows to draw.
    """
    weights = (labels * failed).max(1) + EVEN
    return np.argsort(rng.exponential(size=len(weights)) / weights, kind="stable")[:count]


def _larger(one: dict[str, float], other: dict[str, float]) -> dict[str, float]:
    return {name: max(one.get(name, 0.0), other.get(name, 0.0)) for name in sorted({*one, *other})}


def _decayed(before: dict[str, float], now: dict[str, float]) -> dict[str, float]:
    names: Sequence[str] = sorted({*before, *now})
    shares = {name: min(1.0, now.get(name, 0.0) + KEPT * before.get(name, 0.0)) for name in names}
    return {name: round(share, 6) for name, share in shares.items() if share >= LEAST}
