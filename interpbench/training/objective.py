"""The objective: the only place where the weights of the losses are."""

from typing import Literal

from pydantic.dataclasses import dataclass

from interpbench.circuits.grades import GRADES, Grade
from interpbench.core.config import STRICT, Amount, Share, Steps

Targets = Literal["mixed", "thirds", "individual", "subsets", "all"]
Swaps = Literal["even", "deep"]


@dataclass(frozen=True, config=STRICT)
class Objective:
    """Weights of the four losses, each used once; a term of weight 0 costs nothing.

    Attributes:
        behaviour: the network gives the program's output.
        iit: with an aligned node's activation swapped, it gives what the program gives with the variable
            swapped (interchange intervention training, Geiger et al. 2022).
        strict: with activations outside the circuit swapped, its output stays (SIIT, Gupta et al. 2024).
        edge_strict: with edges outside the circuit patched, its output stays.
        probe: in every one of these worlds, a linear map from what an aligned node writes gives the value
            of its variable; the maps are trained along and thrown away.
        attention_supervision: in every one of these worlds, the head of an aligned variable looks where the
            variable says that it does (cross-entropy of its attention). It is the variable's head that
            learns it then, and what it makes of what it reads comes after.
        bos_slack: the share of its attention that a head which is to look somewhere is to leave at BOS.
            Nothing pushes keys apart of tokens that training never shows together; the less the key that a
            head wants outweighs BOS, the nearer may another one be that it must not take for it.
        variance_penalty: what a node outside the circuit writes is the same for every input: its variance
            over inputs, in units of the embedding's, added up over these nodes.
        swaps: which aligned nodes IIT swaps: `even` (half the rows any one, half a random subset; half of the
            swaps effective on purpose) or `deep` (three quarters one node, likelier if more of the circuit
            comes after it; a quarter effective on purpose; required edges are likelier, too, if more of it
            comes before them, and if they reach over more of it).
        targets: what one strict row patches: one forbidden node or edge (`individual`), a random subset
            of random density (`subsets`), every one (`all`), half the rows each of the first two (`mixed`),
            or a third of the rows each (`thirds`).
        outputs_after: the steps, to the next pool of draws, after which behaviour and IIT are trained; before
            that probes and attention supervision alone are, so that variables early in the circuit are there
            before anything can go around them.
        strict_after: the steps after which the two strict terms begin, to the next pool of draws. A large
            network learns what to do sooner while nothing else is asked of it.
        probe_until: the steps, to the next pool of draws, after which probes are trained no more; None
            for never. They show the way; a network that is there may write otherwise.
        strata: the share of bases, and half as many of the sources, that are drawn evenly from the strata of
            the task's inputs, instead of from its distribution.
        own_sources: the share of strict rows in which what several writers write comes from one of two
            sources each, instead of all from one.
        required: the share of rows of the edge term that patch one required edge, alone in half of them: the
            program's own edge is patched, too.
        positions: the share of IIT rows that swap at one random position only. Certificates then ask for it.
    """

    behaviour: Amount = 1.0
    iit: Amount = 1.0
    strict: Amount = 1.0
    edge_strict: Amount = 1.0
    probe: Amount = 0.0
    attention_supervision: Amount = 0.0
    bos_slack: Share = 0.05
    variance_penalty: Amount = 0.0
    swaps: Swaps = "even"
    targets: Targets = "mixed"
    outputs_after: Steps = 0
    strict_after: Steps = 0
    probe_until: Steps | None = None
    strata: Share = 0.25
    own_sources: Share = 0.5
    required: Share = 0.25
    positions: Share = 0.0

    @property
    def grade(self) -> Grade:
        """The grade of certificates that training for this aims at."""
        reached: Grade = "behaviour"
        for name, weight in zip(GRADES[1:], (self.iit, self.strict, self.edge_strict)):
            if weight == 0:
                break
            reached = name
        return reached

    def weight(self, term: str) -> float:
        """Returns the weight of a loss."""
        return float(getattr(self, term))
