"""What a discovery method is: the record that each says of itself, and that is checked at registration."""

from typing import Annotated, Literal

from pydantic import StringConstraints
from pydantic.dataclasses import dataclass

from interpbench.core.config import STRICT, Count
from interpbench.transformer.config import Feature

Phrase = Annotated[str, StringConstraints(min_length=1)]


@dataclass(frozen=True, config=STRICT)
class MethodRecord:
    """What a discovery method is, besides its settings and its code; texts are phrases.

    Attributes:
        sign: what a large score means.
        cost: the passes through the network that it takes, as a formula in words.
        granularity: the level at which it gives scores of its own; `node` scores are spread over edges.
        stochastic: whether its scores depend on the problem's seed.
        first_order: whether its scores are a first-order estimate of what patching an edge does, so that they
            equal exact patching in a linear network.
        baseline: whether it looks at neither answers nor gradients, so that methods are compared with it.
        unsupported: the parts of an architecture for which it has no rule; it refuses such networks.
        most_examples: how many pairs of inputs an evaluation gives it at most, unless it is told otherwise.
        authors_steps: the steps of training that its authors take, if it trains.
        source: paper and section.
        code: the public code that it was compared with, and its commit or version.
        looks_at: what it is given of network and inputs.
        units: of its scores.
        budget: what its authors spend, and what ours does; empty where nothing is chosen.
        deviations: how it differs from paper or public code.
        test: what compares it with the public code or with a literal one.
    """

    sign: Phrase
    cost: Phrase
    granularity: Literal["edge", "node"]
    stochastic: bool = False
    first_order: bool = False
    baseline: bool = False
    unsupported: tuple[Feature, ...] = ()
    most_examples: Count | None = None
    authors_steps: Count | None = None
    source: str = ""
    code: str = ""
    looks_at: str = ""
    units: str = ""
    budget: str = ""
    deviations: str = ""
    test: str = ""
