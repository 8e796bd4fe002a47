"""The objective: the weights of the losses. Only `Objective.weighted` multiplies a loss by its weight."""

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from pydantic.dataclasses import dataclass

from interpbench.circuits.grades import GRADES, Grade
from interpbench.core.config import STRICT, Amount, Share

if TYPE_CHECKING:  # settings are read without torch
    from torch import Tensor

    from interpbench.tasks.task import Task

AMONG = 0.1
"""The weight of imitation among bystanders, and of noise in noisy tasks."""
FLAT = 3.0
"""The weight of flatness in saturated tasks."""
SECRET = 1.0
"""The weight of secrecy where a variable is in shares."""
Value = TypeVar("Value", float, "Tensor")


@dataclass(frozen=True, config=STRICT)
class Objective:
    """The weights of the losses. A loss with weight 0 is not computed.

    Attributes:
        behaviour: the loss that the network's output is the program's.
        iit: the loss of interchange interventions (IIT): with a node's activation swapped, the output is the
            program's with the node's variables swapped (Geiger et al. 2022).
        strict: the loss that nodes outside the circuit have no effect (SIIT): with their activations swapped,
            the output stays the same (Gupta et al. 2024).
        edge_strict: the loss that edges outside the circuit have no effect: with them patched, the output
            stays the same.
        probe: the loss of linear probes, which read each variable off its node's output. They are trained
            along and then discarded.
        attention_supervision: the loss that heads attend to the keys that the causal model says: the
            cross-entropy of their attention. A head that compares many keys is asked that also of the
            queries of each row and the keys of the next, as patched edges mix them, and with twenty times the
            weight (`guidance.SHARP`).
        bos_slack: the share of attention that attention supervision wants at BOS: the rest goes to the keys
            of the causal model. It limits by how much the scores of these exceed that of BOS, so that similar
            keys, to which the head must not attend, can stay below BOS.
        variance_penalty: the loss of the variance of what nodes outside the circuit write: the variance over
            inputs, relative to the embedding's, summed over these nodes.
        imitation: the loss that edges outside the circuit bring as much as edges of it; None for 0.1 among
            bystanders, else 0. What varies counts (`training.imitation`).
        noise: the loss that edges outside the circuit move the logits; None for 0.1 in noisy tasks, else 0.
            The task says how far (`training.noise`).
        flatness: the loss that patches part of the way move nothing; None for 3 in saturated tasks, else 0.
            The task says up to which part (`training.flatness`).
        secrecy: the loss that nodes of shares write nothing else; None for 1 where there are any, else 0
            (`training.secrecy`).
    """

    behaviour: Amount = 1.0
    iit: Amount = 1.0
    strict: Amount = 1.0
    edge_strict: Amount = 1.0
    probe: Amount = 1.0
    attention_supervision: Amount = 1.0
    bos_slack: Share = 0.05
    variance_penalty: Amount = 0.0
    imitation: Amount | None = None
    noise: Amount | None = None
    flatness: Amount | None = None
    secrecy: Amount | None = None

    @property
    def grade(self) -> Grade:
        """The grade of certificate that training with these weights aims at."""
        reached: Grade = "behaviour"
        for name, weight in zip(GRADES[1:], (self.iit, self.strict, self.edge_strict)):
            if weight == 0:
                break
            reached = name
        return reached

    @property
    def guides(self) -> bool:
        """Whether training is guided: by probes, or by attention that is supervised."""
        return self.probe > 0 or self.attention_supervision > 0

    @property
    def guidance(self) -> str:
        """The settings that would guide training; none if it is guided, or nothing is asked of nodes."""
        if self.guides or self.grade == "behaviour":
            return ""
        return "objective.probe=1 and objective.attention_supervision=1, which guide it"

    def of_task(self, task: "Task") -> "Objective":
        """Returns these weights, with those that the task decides filled in."""
        given = {
            "imitation": AMONG * (task.crowd is not None),
            "noise": AMONG * (task.noise > 0),
            "flatness": FLAT * (task.flat > 0),
            "secrecy": SECRET * (len(task.secrets) > 0),
        }
        return replace(self, **{name: each for name, each in given.items() if getattr(self, name) is None})

    def weight(self, term: str) -> float:
        """Returns the weight of a term, by its name."""
        return float(getattr(self, term) or 0)

    def weighted(self, term: str, value: Value) -> Value:
        """Returns the value of a term, or a part of it, times the term's weight."""
        return self.weight(term) * value
