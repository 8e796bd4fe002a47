"""A recipe: what is trained for, on which draws, and when."""

from dataclasses import dataclass, field

from interpbench.training.curriculum import Curriculum
from interpbench.training.draws import Draws
from interpbench.training.objective import Objective


@dataclass(frozen=True)
class Recipe:
    """The three parts of what decides how a network is trained, besides the schedule of the optimizer."""

    objective: Objective = field(default_factory=Objective)
    draws: Draws = field(default_factory=Draws)
    curriculum: Curriculum = field(default_factory=Curriculum)
