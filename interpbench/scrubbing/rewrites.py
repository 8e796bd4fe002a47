"""Rewrites of a graph of functions: the same function, of other nodes that a hypothesis can be about.

A claim may hold of a part of a node's output (a subspace, an estimate) or of what one of its readers reads.
Each rewrite is checked: on the inputs at hand, the outputs have to be what they were (Chan et al. 2022,
section 5: extensional equality).
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from interpbench.core.errors import TaskError, did_you_mean
from interpbench.scrubbing.computational_graph import ComputationalGraph, Operation

PartOf = Callable[[Tensor], Tensor]
"""A function of a node's output `[S, ...]`, which returns a part of it, `[S, ...]`."""
NEAR = 1e-5
"""The largest difference of outputs, as a share of the largest output, that counts as none."""


def split_node(
    graph: ComputationalGraph, node: str, parts: Mapping[str, PartOf], data: Tensor
) -> ComputationalGraph:
    """Returns a graph in which parts of a node's output, whose sum it is, are nodes of their own.

    What read the node reads all parts. Each part reads what the node read, so that parts can be scrubbed
    apart.

    Args:
        graph: the graph.
        node: the name of the node, which is neither the input nor the output.
        parts: the parts by name.
        data: inputs `[N, ...]` on which outputs must be equal.

    Raises:
        TaskError: if there is no such node, a name is taken, or the parts do not sum to the node's output.
    """
    old = _inner(graph, node)
    if taken := sorted(set(parts) & set(graph.operations)):
        raise TaskError(f"there is a node {taken[0]!r} already")
    made: dict[str, Operation] = {}
    for name, operation in graph.operations.items():
        if name == node:
            made |= {part: Operation(old.parents, _part(old, function)) for part, function in parts.items()}
        elif node in operation.parents:
            made[name] = _of_sum(operation, node, tuple(parts))
        else:
            made[name] = operation
    return checked_equal(graph, ComputationalGraph(made, graph.output), data)


def copy_node(
    graph: ComputationalGraph, node: str, copy: str, readers: tuple[str, ...], data: Tensor
) -> ComputationalGraph:
    """Returns a graph in which some readers of a node read a copy of it.

    Args:
        graph: the graph.
        node: the name of the node, which is neither the input nor the output.
        copy: the name of the copy.
        readers: the nodes that read the copy instead.
        data: inputs `[N, ...]` on which outputs must be equal.

    Raises:
        TaskError: if there is no such node, the name is taken, or a reader does not read the node.
    """
    old = _inner(graph, node)
    if copy in graph.operations:
        raise TaskError(f"there is a node {copy!r} already")
    for reader in readers:
        if reader not in graph.operations or node not in graph.operations[reader].parents:
            raise TaskError(f"{reader!r} does not read {node}")
    made: dict[str, Operation] = {}
    for name, operation in graph.operations.items():
        parents = operation.parents
        if name in readers:
            parents = tuple(copy if parent == node else parent for parent in parents)
        made[name] = Operation(parents, operation.compute)
        if name == node:
            made[copy] = old
    return checked_equal(graph, ComputationalGraph(made, graph.output), data)


def checked_equal(first: ComputationalGraph, second: ComputationalGraph, data: Tensor) -> ComputationalGraph:
    """Returns the second graph, after checking that its outputs are those of the first.

    Args:
        first: a graph.
        second: a rewrite of it.
        data: the inputs, `[N, ...]`.

    Raises:
        TaskError: if they differ on some input.
    """
    wanted, found = first.run(data)[first.output], second.run(data)[second.output]
    far = (found - wanted).abs()
    if not bool((far <= NEAR * max(1.0, float(wanted.abs().max()))).all()):
        place = int(far.flatten(1).amax(1).argmax()) if far.ndim > 1 else int(far.argmax())
        raise TaskError(
            f"the rewrite is another function: outputs differ by {float(far.max()):.3g} on input {place}"
        )
    return second


def projected(basis: Tensor) -> dict[str, PartOf]:
    """Returns the parts of an output `[S, ..., D]` inside and outside a subspace.

    Args:
        basis: vectors that span the subspace, `[vector, D]`.
    """
    orthogonal = torch.linalg.qr(basis.T).Q  # [D, vector]

    def inside(values: Tensor) -> Tensor:
        return values @ orthogonal @ orthogonal.T

    return {"inside": inside, "outside": lambda values: values - inside(values)}


def _inner(graph: ComputationalGraph, node: str) -> Operation:
    """Returns a node that is neither the input nor the output."""
    if node not in graph.operations:
        raise TaskError(f"there is no node {node!r}{did_you_mean(node, graph.operations)}")
    if node in (graph.input, graph.output):
        raise TaskError(f"{node} is the {'input' if node == graph.input else 'output'}, which stays as it is")
    return graph.operations[node]


def _part(old: Operation, function: PartOf) -> Callable[..., Tensor]:
    return lambda *read: function(old.compute(*read))


def _of_sum(operation: Operation, node: str, parts: tuple[str, ...]) -> Operation:
    """Returns an operation that reads parts of a node instead of the node."""
    parents = tuple(new for parent in operation.parents for new in (parts if parent == node else (parent,)))

    def compute(*read: Tensor) -> Tensor:
        values = iter(read)
        inputs = [
            sum((next(values) for _ in parts[1:]), next(values)) if parent == node else next(values)
            for parent in operation.parents
        ]
        return operation.compute(*inputs)

    return Operation(parents, compute)
