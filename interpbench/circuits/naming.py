"""Nodes, readers and edges as values, and the only code that translates between them and their names.

A *node* writes to the residual stream: the embedding, a head, an MLP. A *reader* reads it: a head's
query, key or value input, an MLP's input, the logits. An *edge* is (node, reader). Each has four names:

    ours              `embed`, `a0.h1`, `m0`; `a0.h1<q>`, `m0`, `logits`; `embed->a0.h1<q>`
    EAP-IG and MIB    as ours, with `input` for `embed`
    TransformerLens   the hook, with the index of a head: `blocks.0.attn.hook_result[1]`
    ACDC              the hook, and an index into its activation: `blocks.0.attn.hook_result`, `[:, :, 1]`
"""

import re
from dataclasses import dataclass
from typing import Literal

from interpbench.core.errors import InterpBenchError

Slot = Literal["q", "k", "v", "mlp", "logits"]
"""The kind of a reader: the query, key or value input of a head, the input of an MLP, the logits."""
SLOTS: tuple[Literal["q", "k", "v"], ...] = ("q", "k", "v")
"""The inputs of a head."""


@dataclass(frozen=True, order=True)
class Node:
    """A node, which writes to the residual stream: the embedding, a head or an MLP.

    Attributes:
        layer: its layer; -1 for the embedding.
        head: the index of the head; None for the embedding and MLPs.
    """

    layer: int
    head: int | None = None

    def __str__(self) -> str:
        if self.layer < 0:
            return "embed"
        return f"m{self.layer}" if self.head is None else f"a{self.layer}.h{self.head}"


@dataclass(frozen=True, order=True)
class Reader:
    """A reader of the residual stream.

    Attributes:
        layer: its layer; for the logits the number of layers.
        slot: which input it is.
        head: the index of the head; None for MLPs and logits.
    """

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
_EAP_EMBED = "input"
_NODE = re.compile(r"a([0-9]{1,6})\.h([0-9]{1,6})|m([0-9]{1,6})")
_HEAD = re.compile(r"(a[0-9]{1,6}\.h[0-9]{1,6})(?:<([qkv])>)?")


def parse_node(text: str) -> Node:
    """Returns the node with a name, ours or EAP-IG's.

    Raises:
        InterpBenchError: if `text` is not the name of a node.
    """
    if text in (str(EMBED), _EAP_EMBED):
        return EMBED
    match = _NODE.fullmatch(text)
    if not match:
        raise InterpBenchError(f"{text!r} is not a node; write embed, a0.h1 (layer 0, head 1) or m0")
    layer, head, mlp = match.groups()
    return Node(int(mlp)) if mlp is not None else Node(int(layer), int(head))


@dataclass(frozen=True)
class Edge:
    """An edge: the output of the node `source`, as the reader `target` reads it."""

    source: Node
    target: Reader

    def __str__(self) -> str:
        return edge_name(self.source, self.target)


ARROW = "->"
"""The arrow between node and reader in the name of an edge."""


def edge_name(source: Node | str, target: Reader | str) -> str:
    """Returns the name of an edge, or of a head edge (q, k and v merged) if `target` is a destination."""
    return f"{source}{ARROW}{target}"


def edge_ends(name: str) -> tuple[str, str]:
    """Returns the names of an edge's node and reader; the latter is empty if `name` is not one of an edge."""
    source, _, target = name.partition(ARROW)
    return source, target


def is_edge(name: str) -> bool:
    """Returns whether a name is that of an edge rather than of a node."""
    return ARROW in name


def is_head_input(name: str) -> bool:
    """Returns whether the name of a node or reader is that of a head's query, key or value input."""
    return "<" in name


def is_head(name: str) -> bool:
    """Returns whether a name is that of a head, and not of one of its inputs."""
    match = _HEAD.fullmatch(name)
    return match is not None and match[2] is None


def destination_name(name: str) -> str:
    """Returns the name of a reader with q, k and v of a head merged, as `Reader.destination` does."""
    return name.partition("<")[0]


def head_edge_name(name: str) -> str:
    """Returns our name of the head edge that an edge belongs to; `name` is ours or EAP-IG's."""
    source, target = edge_ends(name)
    return edge_name(EMBED if source == _EAP_EMBED else source, target.partition("<")[0])


def eap_name(place: Node | Edge) -> str:
    """Returns the name of a node or an edge in EAP-IG and MIB."""
    if isinstance(place, Edge):
        return edge_name(eap_name(place.source), place.target)
    return _EAP_EMBED if place == EMBED else str(place)


def parse_edges(text: str, n_layers: int) -> tuple[Edge, ...]:
    """Returns the edge with a name; for a head edge, its three edges into q, k and v.

    Args:
        text: a name such as `embed->a0.h1<q>`, `a0.h1->m0`, `m0->logits`; or of a head edge, `embed->a0.h1`.
        n_layers: the number of layers of the network.

    Raises:
        InterpBenchError: if `text` is not the name of an edge.
    """
    source, target = edge_ends(text)
    if not is_edge(text):
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


_EMBEDDINGS = ("blocks.0.hook_resid_pre", "hook_embed", "hook_pos_embed")
_WRITER = re.compile(r"blocks\.([0-9]{1,6})\.(?:attn\.hook_result\[([0-9]{1,6})\]|hook_mlp_out)")
_READER = re.compile(
    r"blocks\.([0-9]{1,6})\.(?:hook_([qkv])_input\[([0-9]{1,6})\]|hook_mlp_in|(hook_resid_post))"
)


def hook_name(place: Node | Reader) -> str:
    """Returns the name of TransformerLens's hook at a node or a reader.

    The embedding's hook is `blocks.0.hook_resid_pre`, the sum of token and position embedding.
    """
    if place == EMBED:
        return _EMBEDDINGS[0]
    if isinstance(place, Node):
        part = "hook_mlp_out" if place.head is None else f"attn.hook_result[{place.head}]"
        return f"blocks.{place.layer}.{part}"
    if place.slot == "logits":
        return f"blocks.{place.layer - 1}.hook_resid_post"
    part = "hook_mlp_in" if place.slot == "mlp" else f"hook_{place.slot}_input[{place.head}]"
    return f"blocks.{place.layer}.{part}"


def node_at_hook(hook: str) -> Node | None:
    """Returns the node whose output is at a hook of TransformerLens; None if there is none.

    Token and position embeddings have hooks of their own, and are one node here.
    """
    if hook in _EMBEDDINGS:
        return EMBED
    found = _WRITER.fullmatch(hook)
    return Node(int(found[1]), None if found[2] is None else int(found[2])) if found else None


def reader_at_hook(hook: str) -> Reader | None:
    """Returns the reader at a hook of TransformerLens; None if there is none.

    At a layer's `hook_resid_post` it is the logits, as if that layer were the last.
    """
    found = _READER.fullmatch(hook)
    if not found:
        return None
    layer = int(found[1])
    if found[4]:
        return Reader(layer + 1, "logits")
    heads = [Reader(layer, slot, int(found[3])) for slot in SLOTS if slot == found[2]]
    return heads[0] if heads else Reader(layer, "mlp")


Hook = tuple[str, tuple[int | None, ...]]
"""A node or reader as ACDC names it: a hook of TransformerLens, and an index into its activation."""
_OF_HEADS = re.compile(r"blocks\.[0-9]{1,6}\.(?:attn\.hook_result|hook_[qkv]_input)")
_WITHIN = re.compile(r"blocks\.[0-9]{1,6}\.attn\.hook_[qkv]")


def acdc_hooks(edge: Edge) -> tuple[Hook, Hook]:
    """Returns ACDC's names of the reader and the node of an edge.

    For the embedding that is `blocks.0.hook_resid_pre`, the sum of token and position embedding.
    """
    return _acdc_hook(edge.target), _acdc_hook(edge.source)


def _acdc_hook(place: Node | Reader) -> Hook:
    name = hook_name(place).partition("[")[0]
    return (name, (None,)) if place.head is None else (name, (None, None, place.head))


def parse_hooks(child: Hook, parent: Hook, n_layers: int) -> Edge | None:
    """Returns the edge between two of ACDC's hooks; None for one of its edges inside a head or an MLP.

    Args:
        child: the hook of the reader.
        parent: the hook of the node.
        n_layers: the number of layers of the network.

    Raises:
        InterpBenchError: if a hook neither reads nor writes the residual stream.
    """
    below, above = _transformer_lens_name(child), _transformer_lens_name(parent)
    inner = any(_WITHIN.fullmatch(hook) for hook, _ in (child, parent))
    if inner or (node_at_hook(below) and reader_at_hook(above)):
        return None
    reader, node = reader_at_hook(below), node_at_hook(above)
    if reader is None or node is None:
        raise InterpBenchError(f"{child[0]!r} <- {parent[0]!r} is not an edge of the residual stream")
    if reader.slot == "logits" and reader.layer != n_layers:
        raise InterpBenchError(
            f"{child[0]!r} is not the end of this network, which has {n_layers} layers: that is "
            f"'blocks.{n_layers - 1}.hook_resid_post'"
        )
    return Edge(node, reader)


def _transformer_lens_name(hook: Hook) -> str:
    """Returns TransformerLens's hook, with the head of ACDC's index `[:, :, head]`, if there is one."""
    name, index = hook
    if not _OF_HEADS.fullmatch(name):
        return name
    if len(index) != 3 or index[2] is None:
        raise InterpBenchError(f"{name!r} needs the index of a head, such as {index_name((None, None, 3))}")
    return f"{name}[{index[2]}]"


def index_name(index: tuple[int | None, ...]) -> str:
    """Returns an index as ACDC writes it: `[:, :, 3]`."""
    return f"[{', '.join(':' if part is None else str(part) for part in index)}]"


def parse_index(text: str) -> tuple[int | None, ...] | None:
    """Returns the index that ACDC writes as `[:, :, 3]` or `[COLON, COLON, 3]`; None if it is not one."""
    parts = [part.strip() for part in text.removeprefix("[").removesuffix("]").split(",")]
    if not all(re.fullmatch(r":|COLON|[0-9]{1,6}", part) for part in parts):
        return None
    return tuple(int(part) if part.isdigit() else None for part in parts)
