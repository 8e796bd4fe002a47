"""The alignment of compiled networks: the head or MLP at which Tracr computes each variable.

The depth of an expression is the length of the longest path to it from an input. Expressions of the same
depth that need attention share a layer's heads, and those that need MLPs its MLP. Taken in the order of
depth, each such half-layer goes into the next layer where it still fits: two attention steps in a row are in
two layers. (Tracr also merges a depth of attention alone with a following depth of MLPs alone, which gives
the same layers.) `tests/rasp/test_rasp.py` compares this with Tracr's assembler.
"""

from collections import defaultdict
from collections.abc import Iterable

import networkx as nx
from tracr.rasp import rasp

from interpbench.circuits.naming import EMBED, Node
from interpbench.rasp.program import WIDTH_HEAD, Program


def compiled_alignment(program: Program) -> dict[str, Node]:
    """Returns the node of every variable of `program.causal_model`; inputs are at the embedding."""
    depths = _depths(program)
    half_layers: dict[int, list[str]] = defaultdict(list)
    for key in sorted(depths, key=lambda key: depths[key]):
        expression = program.graph.nodes[key]["expression"]
        name, attention = program.names[key], 2 * (depths[key] - 1)
        if isinstance(expression, rasp.SelectorWidth):
            half_layers[attention].append(name + WIDTH_HEAD)
            half_layers[attention + 1].append(name)
        else:
            half_layers[attention + (not _is_attention(expression))].append(name)

    nodes = {name: EMBED for name in ("tokens", "indices") if name in program.causal_model.variables}
    halves = sorted(half_layers)
    for half, layer in zip(halves, layers(half % 2 == 1 for half in halves)):
        for head, name in enumerate(half_layers[half]):
            nodes[name] = Node(layer, None if half % 2 else head)
    return nodes


def layers(are_mlps: Iterable[bool]) -> list[int]:
    """Returns the layer of each half-layer, the next one where it fits, given whether it is of MLPs."""
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
    """Returns the depth of each expression, by its number; inputs and selectors are left out."""
    depth: dict[int, int] = {}
    for key in nx.topological_sort(program.graph):
        step = isinstance(program.graph.nodes[key]["expression"], rasp.SOp)
        before = [depth[parent] for parent in program.graph.predecessors(key)]
        depth[key] = max(before) + step if before else 0
    is_block = {key: program.graph.in_degree(key) > 0 and key in program.names for key in program.graph}
    return {key: depth[key] for key in program.graph if is_block[key]}
