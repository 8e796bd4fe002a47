"""The regime `alive`: every node outside the circuit computes something of the program, too."""

from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from interpbench.circuits.graph import Graph
from interpbench.core.config import STRICT, Steps
from interpbench.core.errors import NoPlaceError, TaskError
from interpbench.tasks.model_settings import ModelSettings
from interpbench.tasks.regimes.bystanders import crowd, said_of, units_of
from interpbench.tasks.regimes.regime import RegimeTask, derived, regime, regimes_of
from interpbench.tasks.shapes import shape
from interpbench.tasks.task import Task

WIDER = 2
"""How many times as wide the residual stream is as that of the task alone. `max_with_previous` with as many
copies was at 91.5 % of rows at the worst place after 600 steps with twice the width, and at 87.7 % after
1,000 steps with the same width."""
MOST_LAYERS = 48
"""The largest number of layers."""
MOST_HEADS = 64
"""The largest number of heads in a layer."""
MOST_NODES = 256
"""The largest number of nodes, as a name in a file of others may ask for any."""


@regime("alive")
@dataclass(frozen=True, config=STRICT)
class Alive:
    """Nodes outside the circuit carry copies of the program's variables, which the output ignores.

    Attributes:
        copies: how many copies of every variable there are at least, that of the circuit among them.
        heads: the number of heads in a layer; 0 for as many as a layer of the program has, and at least two.
        draw: the number of the draw of what each node carries, and of which copies are the circuit.
    """

    copies: Annotated[int, Field(ge=2, le=16)] = 2
    heads: Annotated[int, Field(ge=0, le=MOST_HEADS)] = 0
    draw: Steps = 0

    def __call__(self, task: Task) -> RegimeTask:
        """Fills a network that is just deep enough with copies."""
        if task.crowd is not None:
            raise TaskError(f"task {task.name} is alive already")
        if "wide" in regimes_of(task.name):
            raise TaskError(f"task {task.name} is wide already; regime=alive says by copies= how large it is")
        alone = shape(task)
        homes = [unit.home for unit in units_of(task)]
        if not homes:
            raise TaskError(f"task {task.name} has no variable but its input, and cannot be alive")
        layers = [home.layer for home in homes if home.head is not None]
        n_heads = self.heads or max(2, *(layers.count(layer) for layer in {0, *layers}))
        depth = max(1 + max(home.layer for home in homes), self.copies * (len(homes) - len(layers)))
        for n_layers in range(depth, 1 + min(MOST_LAYERS, MOST_NODES // (n_heads + 1))):
            try:
                made = crowd(task, Graph(n_layers, n_heads), self.draw, self.copies)
                break
            except TaskError:
                continue
        else:
            raise NoPlaceError(
                f"task {task.name}: no {MOST_LAYERS} layers of {n_heads} heads have room for {self.copies} "
                f"copies of its variables; try fewer copies, or heads={min(n_heads + 2, MOST_HEADS)}"
            )
        network = ModelSettings(n_layers=n_layers, n_heads=n_heads, d_model=WIDER * alone.d_model)
        said = tuple(said_of(made))
        return derived(task, lambda: task.causal_model, made.circuit, network, said, made.task)
