"""Placement: which head or MLP of the compiled network computes a variable. The one rule.

Tracr first gives every expression a depth, its longest path from an input; where one depth holds only
attention and the next only MLPs, the two become one level. Then it fills half-layers in the order of
depth, and the assembler puts attention and MLP half-layers into the next layer that still has room for
them: two attention steps in a row open two layers. `tests` compare this with Tracr's assembler.
"""

from collections import defaultdict
from collections.abc import Iterable

import networkx as nx
from tracr.rasp import rasp

from interpbench.circuits.components import EMBED, Node
from interpbench.rasp.program import WIDTH_HEAD, Program


def place(program: Program) -> dict[str, Node]:
    """Returns the node of every variable of `program.model`; inputs are at the embedding."""
    depths = _condense(program, _depths(program))
    half_layers: dict[int, list[str]] = defaultdict(list)
    for key in sorted(depths, key=lambda key: depths[key]):
        expression = program.graph.nodes[key]["expression"]
        name, attention = program.names[key], 2 * (depths[key] - 1)
        if isinstance(expression, rasp.SelectorWidth):
            half_layers[attention].append(name + WIDTH_HEAD)
            half_layers[attention + 1].append(name)
        else:
            half_layers[attention + (not _is_attention(expression))].append(name)

    placement = {name: EMBED for name in ("tokens", "indices") if name in program.model.variables}
    halves = sorted(half_layers)
    for half, layer in zip(halves, layers(half % 2 == 1 for half in halves)):
        for head, name in enumerate(half_layers[half]):
            placement[name] = Node(layer, None if half % 2 else head)
    return placement


def layers(are_mlps: Iterable[bool]) -> list[int]:
    """Returns the layer of each half-layer, given whether each is an MLP: the next with room for it."""
    places: list[int] = []
    half = 0
    for is_mlp in are_mlps:
        half += half % 2 != is_mlp
        places.append(half // 2)
        half += 1
    return places


def _is_attention(expression: object) -> bool:
    return isinstance(expression, rasp.Aggregate)


def _depths(program: Program) -> dict[int, int]:
    """Returns the longest path to each block from an input; selectors do not count as steps."""
    depth: dict[int, int] = {}
    for key in nx.topological_sort(program.graph):
        step = isinstance(program.graph.nodes[key]["expression"], rasp.SOp)
        before = [depth[parent] for parent in program.graph.predecessors(key)]
        depth[key] = max(before) + step if before else 0
    is_block = {key: program.graph.in_degree(key) > 0 and key in program.names for key in program.graph}
    return {key: depth[key] for key in program.graph if is_block[key]}


def _condense(program: Program, depths: dict[int, int]) -> dict[int, int]:
    """Merges a depth of attention alone with a following depth of MLPs alone."""
    levels: dict[int, list[int]] = defaultdict(list)
    for key, depth in depths.items():
        levels[depth].append(key)

    def kinds(keys: Iterable[int]) -> set[type]:
        return {type(program.graph.nodes[key]["expression"]) for key in keys}

    def only_attention(keys: list[int]) -> bool:
        return kinds(keys) <= {rasp.Aggregate}

    def only_mlps(keys: list[int]) -> bool:
        return not kinds(keys) & {rasp.Aggregate, rasp.SelectorWidth}

    ordered = [levels[depth] for depth in sorted(levels)]
    level = 0
    while level + 1 < len(ordered):
        if only_attention(ordered[level]) and only_mlps(ordered[level + 1]):
            ordered[level] += ordered.pop(level + 1)
        level += 1
    merged = {key: depth for depth, keys in enumerate(ordered, start=1) for key in keys}
    return {key: merged[key] for key in depths}
