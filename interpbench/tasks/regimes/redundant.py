"""The regime `redundant`: a variable has several copies on different nodes, and its readers take their vote.

A method that patches one node or edge at a time sees nothing of such copies: two others outvote it.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from interpbench.causal.model import Variable
from interpbench.core.config import STRICT
from interpbench.core.errors import TaskError
from interpbench.tasks.regimes.parts import FIRST, PART, in_parts, unit_in_parts
from interpbench.tasks.regimes.regime import RegimeTask, regime
from interpbench.tasks.task import Task


@regime("redundant")
@dataclass(frozen=True, config=STRICT)
class Redundant:
    """The variables of one node are computed at several, and whoever reads them takes the vote.

    The vote of categories is the most frequent value, and of equally frequent ones that of the earliest copy;
    the vote of numbers is their median.

    Attributes:
        copies: the number of copies, an odd one, so that one cannot block the vote; seven are required of
            order 3, and no higher order is known.
        variable: a variable of the node; `first` for the first one that only MLPs read.
    """

    copies: Annotated[int, Field(ge=3, le=7)] = 3
    variable: str = FIRST

    def __call__(self, task: Task) -> RegimeTask:
        """Copies the node's variables to nodes of their own, and makes room for them."""
        if self.copies % 2 == 0:
            raise TaskError(f"regime redundant: copies={self.copies} is even; use {self.copies - 1}")
        unit = unit_in_parts(task, "redundant", self.variable)
        said = f"{self.copies} copies, of which readers take the vote"
        return in_parts(task, unit, self._copies, lambda _: lambda *values: vote(values), said)

    def _copies(self, variable: Variable) -> list[Variable]:
        numbers = range(1, self.copies + 1)
        return [replace(variable, name=copy_name(variable.name, number)) for number in numbers]


def copy_name(name: str, number: int) -> str:
    """Returns the name of a variable's copy; that of the first is the variable's own."""
    return name if number == 1 else f"{name}{PART}{number}"


def vote(values: Sequence[np.ndarray]) -> np.ndarray:
    """Returns the vote of copies, codes or numbers of the same shape.

    It is the most frequent code, and of equally frequent ones that of the earliest copy; of numbers the
    median, where None counts as more than any number.
    """
    if len(values) == 1:
        return values[0]
    stacked = np.stack(values)
    if stacked.dtype.kind == "f":
        middle = np.median(np.where(np.isnan(stacked), np.inf, stacked), axis=0)
        return np.where(np.isinf(middle), np.nan, middle)
    votes = (stacked[:, None] == stacked[None]).sum(1)
    return np.take_along_axis(stacked, votes.argmax(0)[None], 0)[0]
