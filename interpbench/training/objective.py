"""The objective: the losses and their weights, which multiply in `Objective.weighted` and nowhere else."""

from typing import TYPE_CHECKING, TypeVar

from pydantic.dataclasses import dataclass

from interpbench.circuits.grades import GRADES, Grade
from interpbench.core.config import STRICT, Amount, Share

if TYPE_CHECKING:  # settings are read without torch
    from torch import Tensor

Value = TypeVar("Value", float, "Tensor")


@dataclass(frozen=True, config=STRICT)
class Objective:
    """Weights of the losses, each used once; a term of weight 0 costs nothing.

    Attributes:
        behaviour: the network gives the program's output.
        iit: with a node swapped, it gives what the program gives with its variable swapped: interchange
            intervention training (Geiger et al. 2022).
        strict: with activations outside the circuit swapped, its output stays: SIIT (Gupta et al. 2024).
        edge_strict: with edges outside the circuit patched, its output stays.
        probe: in all these worlds, a linear probe reads each variable off its node: the maps are trained
            along and thrown away.
        attention_supervision: in all these worlds, a variable's head looks where the causal model says: the
            cross-entropy of its attention, where the variable says so. It is the variable's head that
            learns it then, and what it makes of what it reads comes after.
        bos_slack: the share of a supervised head's attention that is to stay at BOS. Nothing pushes keys
            apart of tokens that training never shows together; the less the key that a head wants outweighs
            BOS, the nearer may another one be that it must not take for it.
        variance_penalty: what a node outside the circuit writes is the same for every input: its variance
            over inputs, in units of the embedding's, added up over these nodes.
    """

    behaviour: Amount = 1.0
    iit: Amount = 1.0
    strict: Amount = 1.0
    edge_strict: Amount = 1.0
    probe: Amount = 0.0
    attention_supervision: Amount = 0.0
    bos_slack: Share = 0.05
    variance_penalty: Amount = 0.0

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

    def weighted(self, term: str, value: Value) -> Value:
        """Returns a loss, or a share of one, times its weight."""
        return self.weight(term) * value
