"""Nodes, readers and edges as values, and the only code that turns them into text and back.

A *node* writes to the residual stream: the embedding, a head, an MLP. A *reader* reads it: a head's
query, key or value input, an MLP's input, the logits. An *edge* is (node, reader). The text form is
that of EAP-IG and MIB (`a0.h1`, `m0`, `a0.h1<q>`, `logits`), with `embed` for what they call `input`.
ACDC names the same places by TransformerLens's hooks and an index, `blocks.0.attn.hook_result[:, :, 1]`.
"""

import re
from dataclasses import dataclass
from typing import Literal

from interpbench.core.errors import InterpBenchError

Slot = Literal["q", "k", "v", "mlp", "logits"]
SLOTS: tuple[Literal["q", "k", "v"], ...] = ("q", "k", "v")


@dataclass(frozen=True, order=True)
class Node:
    """A writer: `layer` is -1 for the embedding, `head` is None for embedding and MLPs."""

    layer: int
    head: int | None = None

    def __str__(self) -> str:
        if self.layer < 0:
            return "embed"
        return f"m{self.layer}" if self.head is None else f"a{self.layer}.h{self.head}"


@dataclass(frozen=True, order=True)
class Reader:
    """A place that reads the residual stream."""

    layer: int
    slot: Slot
    head: int | None = None

    def __str__(self) -> str:
        if self.slot == "logits":
            return "logits"
        return f"m{self.layer}" if self.slot == "mlp" else f"a{self.layer}.h{self.head}<{self.slot}>"

    @property
    def destination(self) -> str:
        """The reader's name with q, k and v of a head merged: `a0.h1`, `m0`, `logits`."""
        return str(self).split("<")[0]


EMBED = Node(-1)
_NODE = re.compile(r"a([0-9]{1,6})\.h([0-9]{1,6})|m([0-9]{1,6})")
_HEAD = re.compile(r"(a[0-9]{1,6}\.h[0-9]{1,6})(?:<([qkv])>)?")


def parse_node(text: str) -> Node:
    """Returns the node that `text` names.

    Raises:
        InterpBenchError: if it names none.
    """
    if text in ("embed", "input"):
        return EMBED
    match = _NODE.fullmatch(text)
    if not match:
        raise InterpBenchError(f"{text!r} is not a node; write embed, a0.h1 (layer 0, head 1) or m0")
    layer, head, mlp = match.groups()
    return Node(int(mlp)) if mlp is not None else Node(int(layer), int(head))


@dataclass(frozen=True)
class Edge:
    """What `source` writes, as `target` reads it."""

    source: Node
    target: Reader

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"

    @property
    def eap_name(self) -> str:
        """The name that EAP-IG and MIB give it."""
        return f"{eap_name(self.source)}->{self.target}"


def eap_name(node: Node) -> str:
    """Returns the name that EAP-IG and MIB give a node."""
    return "input" if node == EMBED else str(node)


def parse_edges(text: str, n_layers: int) -> tuple[Edge, ...]:
    """Returns the edge that `text` names; three where it names a head, but not which of q, k and v.

    Args:
        text: `embed->a0.h1<q>`, `a0.h1->m0`, `m0->logits`; or `embed->a0.h1`.
        n_layers: of the network.

    Raises:
        InterpBenchError: if it names none.
    """
    source, arrow, target = text.partition("->")
    if not arrow:
        raise InterpBenchError(f"{text!r} is not an edge; write embed->m0, a0.h1->a1.h0<q> or m0->logits")
    node = parse_node(source)
    if target == "logits":
        return (Edge(node, Reader(n_layers, "logits")),)
    head = _HEAD.fullmatch(target)
    if not head:
        mlp = parse_node(target)
        if mlp == EMBED:
            raise InterpBenchError(f"{text!r} is not an edge: the embedding reads nothing")
        return (Edge(node, Reader(mlp.layer, "mlp")),)
    place = parse_node(head[1])
    readers = [Reader(place.layer, slot, place.head) for slot in SLOTS]
    return tuple(Edge(node, reader) for reader in readers if head[2] is None or reader.slot == head[2])


Hook = tuple[str, tuple[int | None, ...]]
"""A place as ACDC names it: a hook of TransformerLens and an index into what it holds."""
_EMBEDDINGS = ("blocks.0.hook_resid_pre", "hook_embed", "hook_pos_embed")
_WRITES = re.compile(r"blocks\.([0-9]{1,6})\.(?:attn\.(hook_result)|hook_mlp_out)")
_READS = re.compile(r"blocks\.([0-9]{1,6})\.hook_(?:([qkv])_input|mlp_in|(resid_post))")
_WITHIN = re.compile(r"blocks\.[0-9]{1,6}\.attn\.hook_[qkv]")


def acdc_hooks(edge: Edge) -> tuple[Hook, Hook]:
    """Returns what ACDC calls the reader and the writer of an edge; the embedding is tokens and positions."""
    node, reader = edge.source, edge.target
    if node == EMBED:
        parent: Hook = (_EMBEDDINGS[0], (None,))
    elif node.head is None:
        parent = (f"blocks.{node.layer}.hook_mlp_out", (None,))
    else:
        parent = (f"blocks.{node.layer}.attn.hook_result", (None, None, node.head))
    if reader.slot == "logits":
        return (f"blocks.{reader.layer - 1}.hook_resid_post", (None,)), parent
    if reader.slot == "mlp":
        return (f"blocks.{reader.layer}.hook_mlp_in", (None,)), parent
    return (f"blocks.{reader.layer}.hook_{reader.slot}_input", (None, None, reader.head)), parent


def parse_hooks(child: Hook, parent: Hook, n_layers: int) -> Edge | None:
    """Returns the edge between two places of ACDC, or None for a step within a head or an MLP.

    Token and position embeddings, which ACDC may tell apart, are one node here.

    Raises:
        InterpBenchError: if a hook is none that reads or writes the residual stream.
    """
    reads, writes = _READS.fullmatch(child[0]), _WRITES.fullmatch(parent[0])
    inner = any(_WITHIN.fullmatch(hook) for hook, _ in (child, parent))
    if inner or (_WRITES.fullmatch(child[0]) and _READS.fullmatch(parent[0])):
        return None
    if not reads or not (writes or parent[0] in _EMBEDDINGS):
        raise InterpBenchError(f"{child[0]!r} <- {parent[0]!r} is not an edge of the residual stream")
    node = EMBED if not writes else Node(int(writes[1]), _head(parent) if writes[2] else None)
    layer = int(reads[1])
    if reads[3]:
        if layer != n_layers - 1:
            raise InterpBenchError(f"{child[0]!r} is not the end of this network, of {n_layers} layers")
        return Edge(node, Reader(n_layers, "logits"))
    inputs = [Reader(layer, slot, _head(child)) for slot in SLOTS if slot == reads[2]]
    return Edge(node, inputs[0] if inputs else Reader(layer, "mlp"))


def _head(hook: Hook) -> int:
    """Returns the head of an index `[:, :, head]`."""
    name, index = hook
    if len(index) != 3 or not isinstance(index[2], int):
        raise InterpBenchError(f"{name!r} needs the index of a head, [:, :, 3]")
    return index[2]
