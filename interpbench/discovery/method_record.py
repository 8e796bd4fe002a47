"""The record of a discovery method: its source, cost, units, and how it differs from published code."""

from typing import Annotated, Literal

from pydantic import StringConstraints
from pydantic.dataclasses import dataclass

from interpbench.core.config import STRICT, Count
from interpbench.transformer.config import Feature

Phrase = Annotated[str, StringConstraints(min_length=1)]


@dataclass(frozen=True, config=STRICT)
class MethodRecord:
    """What a reader should know of a discovery method besides its settings; `docs/methods.md` is made of it.

    Attributes:
        sign: the meaning of a large score.
        cost: the forward and backward passes that the method takes, as a formula in words.
        granularity: what the method scores itself; the scores of `node` methods are carried over to edges.
        stochastic: whether scores depend on the problem's seed.
        first_order: whether scores are a first-order estimate of the effect of patching, so that they equal
            exact patching in a linear network.
        baseline: whether the method uses neither answers nor gradients; other methods are compared with it.
        unsupported: the features of architectures that the method has no rule for; such networks are refused.
        most_examples: the most pairs of inputs that an evaluation gives the method by default.
        authors_steps: the number of training steps that the authors take, if the method trains anything.
        source: the paper and its section.
        code: the public code that the method was compared with, and its commit or version.
        looks_at: what the method uses of the network and the inputs.
        units: the units of scores.
        budget: the authors' number of steps or points, and the default here; empty if there is no choice.
        deviations: the differences from the paper or the public code.
        test: the test that compares the method with public code or with a slow, literal implementation.
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
