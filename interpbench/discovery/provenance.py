"""Where a method comes from, and how ours differs: a row of `docs/methods.md`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class About:
    """What a method's class does not say in code; each a phrase.

    Attributes:
        source: paper and section.
        code: the public code that it was compared with, and its commit or version.
        looks_at: what it is given of network and inputs.
        units: of its scores.
        budget: what its authors spend, and what ours does; empty where nothing is chosen.
        deviations: from paper or public code.
        test: what compares it with the public code or with a literal one.
        authors_steps: the steps of training that its authors take, if it trains.
    """

    source: str
    code: str
    looks_at: str
    units: str
    deviations: str
    test: str
    budget: str = ""
    authors_steps: int | None = None
