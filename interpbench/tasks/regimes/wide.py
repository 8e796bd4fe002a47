"""The regime `wide`: the same circuit among many times as many nodes."""

from math import ceil
from typing import Annotated

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from interpbench.circuits.naming import EMBED, Node
from interpbench.core import seeds
from interpbench.core.config import STRICT, Steps
from interpbench.core.errors import TaskError
from interpbench.tasks.model_settings import ModelSettings
from interpbench.tasks.regimes.regime import RegimeTask, derived, regime
from interpbench.tasks.shapes import shape
from interpbench.tasks.task import Task

MOST_NODES = 900
"""The largest number of nodes."""


@regime("wide")
@dataclass(frozen=True, config=STRICT)
class Wide:
    """The network has many times as many nodes, and the circuit is anywhere among them.

    Half as many layers again are there as alone, and as many heads in each as it takes.

    Attributes:
        times: how many times as many nodes there are.
        draw: the number of the draw of where the circuit is.
    """

    times: Annotated[int, Field(ge=2, le=30)] = 10
    draw: Steps = 0

    def __call__(self, task: Task) -> RegimeTask:
        """Moves the circuit to layers and heads of a larger network."""
        if task.crowd is not None:
            raise TaskError(f"task {task.name} is alive already; copies= and heads= say how large it is")
        alone = shape(task)
        layers = ceil(1.5 * alone.n_layers)
        heads = ceil(self.times * (len(alone.graph.nodes) - 1) / layers) - 1
        if layers * (heads + 1) > MOST_NODES:
            raise TaskError(
                f"task {task.name}: times={self.times} would be {layers * (heads + 1):,} nodes, more than "
                f"{MOST_NODES:,}; try times={max(2, MOST_NODES // len(alone.graph.nodes) - 1)}"
            )
        rng = seeds.generator(self.draw, "wide", task.name)
        into = np.sort(rng.permutation(layers)[: alone.n_layers])
        places = [rng.permutation(heads) for _ in range(alone.n_layers)]

        def moved(node: Node) -> Node:
            head = None if node.head is None else int(places[node.layer][node.head])
            return Node(int(into[node.layer]), head)

        alignment = {name: str(moved(node)) for name, node in task.homes.items() if node != EMBED}
        network = ModelSettings(n_layers=layers, n_heads=heads, d_model=alone.d_model, d_head=alone.d_head)
        said = f"{layers} layers of {heads} heads, {self.times} times as many nodes as alone"
        return derived(task, lambda: task.causal_model, alignment, network, (said,))
