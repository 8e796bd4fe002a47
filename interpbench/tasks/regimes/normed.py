"""The regime `normed`: the same circuit in a network of the kinds of layers that large models have."""

from typing import Literal

from pydantic.dataclasses import dataclass

from interpbench.circuits.naming import EMBED
from interpbench.core.config import STRICT
from interpbench.core.errors import TaskError
from interpbench.tasks.model_settings import ModelSettings
from interpbench.tasks.regimes.regime import RegimeTask, derived, regime
from interpbench.tasks.task import Task


@regime("normed")
@dataclass(frozen=True, config=STRICT)
class Normed:
    """Readers normalise the residual stream; positions can be rotary, and MLPs gated.

    Attributes:
        norm: LayerNorm or RMSNorm.
        positions: how the network knows positions: `learned` vectors, or `rotary` queries and keys.
        mlp: the form of an MLP.
    """

    norm: Literal["LN", "RMS"] = "LN"
    positions: Literal["learned", "rotary"] = "learned"
    mlp: Literal["plain", "gated"] = "plain"

    def __call__(self, task: Task) -> RegimeTask:
        """Changes the kinds of layers."""
        if task.crowd is not None:
            raise TaskError(f"task {task.name} is alive already; regime=normed comes before regime=alive")
        if task.noise:
            raise TaskError(f"task {task.name}: how loud noise is cannot be said where readers normalise")
        network = ModelSettings(normalization=self.norm, positions=self.positions, mlp=self.mlp)
        alignment = {name: str(node) for name, node in task.homes.items() if node != EMBED}
        norm = {"LN": "LayerNorm", "RMS": "RMSNorm"}[self.norm]
        said = f"{norm} before every reader, {self.positions} positions, {self.mlp} MLPs"
        return derived(task, lambda: task.causal_model, alignment, network, (said,))
