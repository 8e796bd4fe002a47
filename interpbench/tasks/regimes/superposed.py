"""The regime `superposed`: the residual stream has fewer dimensions than the values that it carries."""

from math import ceil
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


@regime("superposed")
@dataclass(frozen=True, config=STRICT)
class Superposed:
    """Values are directions that cannot be orthogonal, so that readers of one see something of others.

    A categorical variable is as many features as it has values, a numerical one is a single feature (Elhage
    et al. 2022, "Toy models of superposition").

    Attributes:
        share: the width of the residual stream, as a share of the number of features that it carries.
    """

    share: Annotated[float, Field(gt=0, lt=1)] = 0.3

    def __call__(self, task: Task) -> RegimeTask:
        """Narrows the residual stream; program and circuit stay the same."""
        if task.crowd is not None:
            raise TaskError(f"task {task.name} is alive already; regime=superposed comes before regime=alive")
        count, alone = features(task), shape(task)
        width = ceil(self.share * count)
        if width >= alone.d_model:
            raise TaskError(
                f"task {task.name}: its {count:,} values are in {alone.d_model} dimensions as it is, "
                f"fewer than share={self.share:g} of them; try share={alone.d_model / count / 2:.1g}"
            )
        alignment = {name: str(node) for name, node in task.homes.items() if node != EMBED}
        said = f"{count} values in {width} dimensions"
        network = ModelSettings(d_model=width, d_head=min((width + 1) // 2, alone.d_head), d_mlp=alone.d_mlp)
        return derived(task, lambda: task.causal_model, alignment, network, (said,))


def features(task: Task) -> int:
    """Returns the number of values of all variables of a task, its tokens and positions among them."""
    model = task.causal_model
    return sum(1 if each.values is None else len(each.values) for each in model.variables.values())
