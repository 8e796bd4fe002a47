"""The regime `noisy`: what is outside the circuit moves the logits, but never the answer."""

from dataclasses import replace
from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from interpbench.circuits.naming import EMBED
from interpbench.core.config import STRICT
from interpbench.core.errors import TaskError
from interpbench.tasks.model_settings import ModelSettings
from interpbench.tasks.regimes.regime import RegimeTask, derived, regime, regimes_of
from interpbench.tasks.task import Task


@regime("noisy")
@dataclass(frozen=True, config=STRICT)
class Noisy:
    """Every node writes something into the logits that varies, and the answer is right all the same.

    Attributes:
        noise: the standard deviation of what a node outside the circuit adds to the difference of two logits,
            as a share of the mean margin of the answer; of a number, as a share of its tolerance.
    """

    noise: Annotated[float, Field(gt=0, le=1)] = 0.1

    def __call__(self, task: Task) -> RegimeTask:
        """Asks for the noise; program and circuit stay the same."""
        if task.noise:
            raise TaskError(f"task {task.name} is noisy already")
        if "normed" in regimes_of(task.name):
            raise TaskError(f"task {task.name}: how loud noise is cannot be said where readers normalise")
        alignment = {name: str(node) for name, node in task.homes.items() if node != EMBED}
        said = f"what is outside the circuit moves the logits by {self.noise:g} of the margin"
        made = derived(task, lambda: task.causal_model, alignment, ModelSettings(), (said,), task.crowd)
        return replace(made, noise=self.noise)
