"""Which inputs and interventions training draws."""

from typing import Literal

from pydantic.dataclasses import dataclass

from interpbench.core.config import STRICT, Share

Targets = Literal["mixed", "thirds", "individual", "subsets", "all"]
Swaps = Literal["even", "deep"]


@dataclass(frozen=True, config=STRICT)
class Draws:
    """Shares and kinds of what is drawn for the worlds of a step.

    Attributes:
        swaps: which aligned nodes IIT swaps: `even` (half the rows any one, half a random subset; half of the
            swaps effective on purpose) or `deep` (three quarters one node, likelier if more of the circuit
            comes after it; a quarter effective on purpose; required edges are likelier, too, if more of it
            comes before them, and if they reach over more of it).
        targets: what one strict row patches: one forbidden node or edge (`individual`), a random subset
            of random density (`subsets`), every one (`all`), half the rows each of the first two (`mixed`),
            or a third of the rows each (`thirds`).
        strata: the share of bases drawn evenly from the task's strata, and half as many of the sources: the
            others are drawn from its distribution.
        own_sources: the share of strict rows that take what they patch from two sources: each writer's from
            one of them, instead of all from one.
        required: the share of rows of the edge term that patch one required edge, alone in half of them: the
            program's own edge is patched, too.
        positions: the share of IIT rows that swap at one random position only. Certificates then ask for it.
    """

    swaps: Swaps = "even"
    targets: Targets = "mixed"
    strata: Share = 0.25
    own_sources: Share = 0.5
    required: Share = 0.25
    positions: Share = 0.0
