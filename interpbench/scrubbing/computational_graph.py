"""Causal scrubbing of any graph of functions, path by path (Chan et al. 2022, section 3 and appendix A.3).

Shapes: N inputs, S samples.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from interpbench.core.errors import TaskError
from interpbench.scrubbing.classes import Exchange
from interpbench.scrubbing.hypothesis import Hypothesis
from interpbench.scrubbing.path_draws import PATH, PathDraws


@dataclass(frozen=True)
class Operation:
    """A node: a function of what it reads.

    Attributes:
        parents: the nodes that it reads, in the order of the function's arguments; none for the input.
        compute: a function of the parents' values `[S, ...]`, which returns its own, `[S, ...]`.
    """

    parents: tuple[str, ...]
    compute: Callable[..., Tensor]


class ComputationalGraph:
    """A network as a graph of functions.

    Args:
        operations: the nodes by name, parents first; one is the input, which reads nothing.
        output: the node of the output.

    Raises:
        TaskError: if a node reads one that does not come before it, or not exactly one node reads nothing.
    """

    def __init__(self, operations: Mapping[str, Operation], output: str):
        seen: set[str] = set()
        for name, operation in operations.items():
            if missing := [parent for parent in operation.parents if parent not in seen]:
                raise TaskError(f"node {name!r} reads {missing[0]!r}, which has to be listed before it")
            seen.add(name)
        inputs = [name for name, operation in operations.items() if not operation.parents]
        if len(inputs) != 1 or output not in operations:
            raise TaskError(f"a graph needs one node that reads nothing, not {len(inputs)}, and {output!r}")
        self.operations, self.input, self.output = dict(operations), inputs[0], output

    @property
    def parents(self) -> dict[str, tuple[str, ...]]:
        """What each node reads."""
        return {name: operation.parents for name, operation in self.operations.items()}

    def run(self, data: Tensor) -> dict[str, Tensor]:
        """Returns the values `[N, ...]` of every node on inputs `[N, ...]`."""
        values: dict[str, Tensor] = {}
        for name, operation in self.operations.items():
            read = [values[parent] for parent in operation.parents]
            values[name] = operation.compute(*read) if read else operation.compute(data)
        return values


def scrub_graph(
    graph: ComputationalGraph,
    hypothesis: Hypothesis,
    data: Tensor,
    draws: PathDraws,
    classes: Mapping[str, Exchange] | None = None,
) -> Tensor:
    """Returns the output of the scrubbed graph on each sample, `[S, ...]`; `draws.root` says on which input.

    Args:
        graph: the graph.
        hypothesis: the hypothesis.
        data: the inputs, `[N, ...]`.
        draws: the draws.
        classes: which inputs are exchanged, by claim; None for those of the hypothesis.

    Raises:
        TaskError: if the hypothesis is not about this graph, or has too many paths.
    """
    hypothesis.check(graph.parents, graph.input, graph.output)
    hypothesis.check_paths()
    clean = graph.run(data)
    known = classes or hypothesis.classes(len(data), draws.everything.ids)

    def value(claim: str, path: str, current: np.ndarray) -> Tensor:
        image = hypothesis.claims[claim].image
        if image == graph.input:
            return clean[image][torch.from_numpy(current)]
        important = {hypothesis.claims[parent].image: parent for parent in hypothesis.parents(claim)}
        read: list[Tensor] = []
        for parent in graph.operations[image].parents:
            if parent in important:
                name = important[parent]
                further = f"{path}{PATH}{name}"
                read.append(value(name, further, draws.agreeing(further, known[name], current)))
            else:
                read.append(clean[parent][torch.from_numpy(draws.other(path, current, parent))])
        return graph.operations[image].compute(*read)

    return value(hypothesis.output, hypothesis.output, draws.root)
