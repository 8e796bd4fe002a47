"""Rewrites of a graph of functions: the same function, of other nodes that a hypothesis can be about.

A claim may hold of a part of a node's output (a subspace, an estimate), of what one of its readers reads, or
of several nodes at once.
Each rewrite is checked: on the inputs at hand, the outputs have to be what they were (Chan et al. 2022,
section 5: extensional equality).
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

import torch
from torch import Tensor

from interpbench.core.errors import TaskError, did_you_mean
from interpbench.scrubbing.computational_graph import ComputationalGraph, Operation

PartOf = Callable[[Tensor], Tensor] | Operation
"""A part of a node's output: a function of that output `[S, ...]`, which returns `[S, ...]`; or a function of
other nodes, such as the input, which come before the node."""
NEAR = 1e-5
"""The largest difference of outputs, as a share of the largest output, that counts as none."""


def split_node(
    graph: ComputationalGraph, node: str, parts: Mapping[str, PartOf], data: Tensor
) -> ComputationalGraph:
    """Returns a graph in which parts of a node's output, whose sum it is, are nodes of their own.

    What read the node reads all parts. Each part reads what the node read, or what it says, so that parts can
    be scrubbed apart.

    Args:
        graph: the graph.
        node: the name of the node, which is neither the input nor the output.
        parts: the parts by name, as `projected` and `estimated` make them.
        data: inputs `[N, ...]` on which outputs must be equal.

    Raises:
        TaskError: if there is no such node, a name is taken, or the parts do not sum to the node's output.
    """
    old = _inner(graph, node)
    for name in parts:
        _free(graph, name)
    made: dict[str, Operation] = {}
    for name, operation in graph.operations.items():
        if name == node:
            made |= {part: _part(old, function) for part, function in parts.items()}
        else:
            made[name] = _reading(operation, (node,), tuple(parts), lambda _, read: sum(read[1:], read[0]))
    return checked_equal(graph, ComputationalGraph(made, graph.output), data)


def merge_nodes(
    graph: ComputationalGraph, nodes: Sequence[str], merged: str, data: Tensor
) -> ComputationalGraph:
    """Returns a graph in which some nodes are one, so that what reads them gets them from one input.

    Its value is a vector of all their numbers.

    Args:
        graph: the graph.
        nodes: the names of the nodes, which are neither the input nor the output.
        merged: the name of the node that they become.
        data: inputs `[N, ...]` on which outputs must be equal.

    Raises:
        TaskError: if there is no such node, the name is taken, or one of the nodes depends on another.
    """
    old = {node: _inner(graph, node) for node in nodes}
    _free(graph, merged)
    values = graph.run(data)
    shapes = {node: values[node].shape[1:] for node in nodes}
    ends = dict(zip(nodes, itertools.accumulate(shape.numel() for shape in shapes.values())))
    parents = tuple(dict.fromkeys(parent for operation in old.values() for parent in operation.parents))

    def compute(*read: Tensor) -> Tensor:
        known = dict(zip(parents, read))
        each = [node.compute(*(known[parent] for parent in node.parents)) for node in old.values()]
        return torch.cat([value.flatten(1) if value.ndim > 1 else value[:, None] for value in each], 1)

    def component(node: str, read: Sequence[Tensor]) -> Tensor:
        some = read[0][:, ends[node] - shapes[node].numel() : ends[node]]
        return some.reshape(len(some), *shapes[node])

    made = {
        name: _reading(operation, nodes, (merged,), component)
        for name, operation in graph.operations.items()
        if name not in old
    } | {merged: Operation(parents, compute)}
    reads = {name: [merged if one in old else one for one in made[name].parents] for name in made}
    try:
        order = list(TopologicalSorter(reads).static_order())
    except CycleError:
        raise TaskError(f"one of {', '.join(nodes)} depends on another, so that they cannot be one") from None
    return checked_equal(graph, ComputationalGraph({name: made[name] for name in order}, graph.output), data)


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
    _free(graph, copy)
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


def estimated(graph: ComputationalGraph, node: str, estimate: Operation) -> dict[str, PartOf]:
    """Returns an estimate of a node's output, and what it misses, as parts of the node.

    Args:
        graph: the graph.
        node: the name of the node.
        estimate: the estimate `[S, ...]`, a function of other nodes, such as the input.

    Raises:
        TaskError: if there is no such node.
    """
    old = _inner(graph, node)
    count = len(old.parents)

    def residual(*read: Tensor) -> Tensor:
        return old.compute(*read[:count]) - estimate.compute(*read[count:])

    return {"estimate": estimate, "residual": Operation((*old.parents, *estimate.parents), residual)}


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


def _free(graph: ComputationalGraph, name: str) -> None:
    """Checks that a name is not taken."""
    if name in graph.operations:
        raise TaskError(f"there is a node {name!r} already")


def _part(old: Operation, part: PartOf) -> Operation:
    """Returns a part of a node as a node."""
    if isinstance(part, Operation):
        return part
    return Operation(old.parents, lambda *read: part(old.compute(*read)))


def _reading(
    operation: Operation,
    nodes: Sequence[str],
    others: tuple[str, ...],
    value: Callable[[str, Sequence[Tensor]], Tensor],
) -> Operation:
    """Returns an operation that reads other nodes instead of some.

    Args:
        operation: the operation.
        nodes: the nodes that it no longer reads.
        others: the nodes that it reads instead, if it read one of these.
        value: the value of one of `nodes`, given its name and the values of `others`.
    """
    if not set(nodes) & set(operation.parents):
        return operation
    kept = [parent for parent in operation.parents if parent not in nodes]
    parents = tuple(dict.fromkeys([*kept, *others]))

    def compute(*read: Tensor) -> Tensor:
        known = dict(zip(parents, read))
        instead = [known[name] for name in others]
        return operation.compute(
            *(value(parent, instead) if parent in nodes else known[parent] for parent in operation.parents)
        )

    return Operation(parents, compute)
