"""The recipe of a training: its losses, what inputs and interventions it draws, and when losses begin."""

from dataclasses import dataclass, field

from interpbench.training.curriculum import Curriculum
from interpbench.training.draws import Draws
from interpbench.training.objective import Objective


@dataclass(frozen=True)
class Recipe:
    """The recipe of a training, which is everything but the optimizer and its schedule.

    Attributes:
        objective: the weights of the losses.
        draws: the inputs and interventions that are drawn.
        curriculum: the steps at which losses begin and end.
    """

    objective: Objective = field(default_factory=Objective)
    draws: Draws = field(default_factory=Draws)
    curriculum: Curriculum = field(default_factory=Curriculum)

    @property
    def supervised_to_end(self) -> bool:
        """Whether attention is supervised in every step."""
        return bool(self.curriculum.supervise_to_end) and self.objective.attention_supervision > 0
