"""The inputs and interventions that training draws."""

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from pydantic.dataclasses import dataclass

from interpbench.causal.model import MANY
from interpbench.core.config import STRICT, Share

if TYPE_CHECKING:
    from interpbench.tasks.task import Task

Targets = Literal["mixed", "thirds", "individual", "subsets", "all"]
"""The ways to choose the forbidden nodes or edges that a row patches."""
Swaps = Literal["even", "deep"]
"""The ways to choose the aligned nodes that a row swaps."""
FOR_MANY = 0.75
"""Where a head compares many keys: the least share of rows of the edge term that patch a required edge, and
the share of pools that are of this term alone."""


@dataclass(frozen=True, config=STRICT)
class Draws:
    """The kinds of rows that a step draws, and their shares.

    Attributes:
        swaps: the aligned nodes that IIT swaps: with `even`, any one node in half of the rows, a random
            subset in the others, and in half of the rows a source that changes the output; with `deep`, one
            node in three quarters of the rows, likelier the more of the circuit comes after it, and in a
            quarter of the rows a source that changes the output. With `deep`, required edges are likelier the
            more of the circuit comes before them, and the more of it they skip.
        targets: the forbidden nodes or edges that a strict row patches: one (`individual`), a random subset
            of random density (`subsets`), every one (`all`), one or a subset in half of the rows each
            (`mixed`), or all three ways in a third of the rows each (`thirds`).
        strata: the share of bases that are drawn from the task's strata, equally from each. Half this share
            of the sources is, too. The others are drawn from the task's distribution.
        own_sources: the share of strict rows whose patched nodes or edges take different sources: each takes
            one of two at random. In the other rows, all take the same source.
        required: the share of rows of the edge term that patch one required edge: in half of them no other
            edge is patched. The target is the program's output with this edge patched. It is 0.75 at least
            where a head compares many keys, which patched edges take from two inputs; among bystanders; and
            where edges are required of a higher order.
        together: in the last two cases, the share of rows with a required edge that patch random sets of
            edges. They swap random nodes, too.
        positions: the share of IIT rows that swap at one random position only. Validation then measures such
            swaps, too.
        follow: the share of rows whose single target is drawn in proportion to what was wrong in the last
            validations. Half of this share of bases, and of sources, is drawn so by stratum. While required
            edges were wrong, at least this share of the rows of the edge term patches one.
        edges_alone: the share of pools that have no rows for nodes, and twice as many with patched edges.
            Only while these are wrong far more often. To swap a node is to patch all edges out of it. None
            for 0.75 where a head compares many keys, else 0.
    """

    swaps: Swaps = "even"
    targets: Targets = "mixed"
    strata: Share = 0.25
    own_sources: Share = 0.5
    required: Share = 0.25
    together: Share = 0.67
    positions: Share = 0.0
    follow: Share = 0.5
    edges_alone: Share | None = None

    def of_task(self, task: "Task") -> "Draws":
        """Returns these settings, with what they leave to the task decided."""
        many = task.causal_model.head_dimensions > MANY
        alone = FOR_MANY * many if self.edges_alone is None else self.edges_alone
        required = max(self.required, FOR_MANY) if many and self.required else self.required
        return replace(self, required=required, edges_alone=alone)
