"""The regimes `saturated` and `baseline`: the way from one value to another is flat but for a step."""

from dataclasses import replace
from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from interpbench.circuits.naming import EMBED
from interpbench.core.config import STRICT
from interpbench.core.errors import TaskError
from interpbench.tasks.model_settings import ModelSettings
from interpbench.tasks.regimes.regime import RegimeTask, derived, regime
from interpbench.tasks.shapes import shape
from interpbench.tasks.task import Task

STEPS = 256
"""The least width of the hidden layer of an MLP: a step takes several of its units."""


@regime("saturated")
@dataclass(frozen=True, config=STRICT)
class Saturated:
    """Readers are flat around clean inputs, so that gradients there see nothing.

    Attributes:
        flat: up to which share of the way from clean to source a patch moves nothing.
    """

    flat: Annotated[float, Field(gt=0, lt=0.5)] = 0.25

    def __call__(self, task: Task) -> RegimeTask:
        """Asks for flatness; program and circuit stay the same."""
        if task.flat:
            raise TaskError(f"task {task.name} is flat already")
        alignment = {name: str(node) for name, node in task.homes.items() if node != EMBED}
        said = f"a patch moves nothing up to {self.flat:g} of the way"
        network = ModelSettings(d_mlp=max(STEPS, shape(task).d_mlp))
        made = derived(task, lambda: task.causal_model, alignment, network, (said,), task.crowd)
        return replace(made, flat=self.flat)


@regime("baseline")
@dataclass(frozen=True, config=STRICT)
class Baseline(Saturated):
    """Nearly the whole way is flat, but for a step in its middle that is narrow.

    Points of integrated gradients, at the midpoints of equal intervals, lie beside the step if their number
    is even and small.

    Attributes:
        flat: up to which share of the way from clean to source a patch moves nothing.
    """

    flat: Annotated[float, Field(gt=0, lt=0.5)] = 0.46
